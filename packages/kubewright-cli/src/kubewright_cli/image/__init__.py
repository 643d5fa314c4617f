"""OCI images of operators, made without a container engine.

    content         descriptors, manifests and configs, as the OCI image specification has them
    layout          a folder of blobs with an index: what is built, what is pushed, what is cached
    layer           files to a layer, the same bytes each time
    project         what of a project goes into an image: its requirements, its sources
    wheels          its requirements as a folder, for the platform of the image
    build           a base, requirements and sources to an image
    bases           where bases come from
    registry        the distribution API: pull and push
    authorization   what a registry wants to see, and how it is got
    credentials     who we are to a registry: what `docker login` and `podman login` keep
    wire            requests to servers, again where they ask for that

Follows the OCI image and distribution specifications, v1.1.
"""
