"""OCI images of operators, built without a container engine.

    content         descriptors, manifests and configs of the OCI image specification
    layout          a folder of blobs with an index: built images and cached bases
    layer           reproducible layers
    project         the requirements and sources of a project
    wheels          install the requirements for the platform of the image
    build           build an image from a base, requirements and sources
    bases           find base images
    registry        the distribution API: pull and push
    authorization   token authentication
    credentials     the credentials of `docker login` and `podman login`
    wire            HTTP requests with retries

Follows the OCI image and distribution specifications, v1.1.
"""
