"""The children of a MyWeb. All three have its name."""

import hashlib
from typing import Final

from kubewright import ObjectMeta
from kubewright.apis.apps.v1 import Deployment, DeploymentSpec
from kubewright.apis.core.v1 import (
    ConfigMap,
    ConfigMapVolumeSource,
    Container,
    ContainerPort,
    HTTPGetAction,
    KeyToPath,
    Lifecycle,
    LifecycleHandler,
    PodSpec,
    PodTemplateSpec,
    Probe,
    Service,
    ServicePort,
    ServiceSpec,
    SleepAction,
    Volume,
    VolumeMount,
)
from kubewright.apis.meta.v1 import LabelSelector

from myweb_operator.api.v1.myweb import MyWeb

PAGE: Final = "index.html"
FOLDER: Final = "/usr/share/nginx/html"
PORT: Final = 80
SHUTDOWN_DELAY: Final = 3
"""Seconds that an old Pod continues to serve, until every node routes requests to the new one."""
PAGE_HASH: Final = "operator.k8s-summit.org/page-sha256"
"""Annotation of the Pods with the hash of their page. A new page changes the Pod template, which starts a rollout."""


def labels_for(web: MyWeb) -> dict[str, str]:
    return {"app.kubernetes.io/name": "myweb", "app.kubernetes.io/instance": web.metadata.name}


def hash_of(page: str) -> str:
    return hashlib.sha256(page.encode()).hexdigest()


def config_map_for(web: MyWeb) -> ConfigMap:
    """Return the ConfigMap with the page."""
    return ConfigMap(metadata=_metadata(web), data={PAGE: web.spec.page_content_html})


def deployment_for(web: MyWeb) -> Deployment:
    """Return one web server with the page in its document root."""
    container = Container(
        name="web",
        image=web.spec.image,
        ports=[ContainerPort(name="http", container_port=PORT, protocol="TCP")],
        readiness_probe=Probe(http_get=HTTPGetAction(path="/", port="http"), period_seconds=2),
        lifecycle=Lifecycle(pre_stop=LifecycleHandler(sleep=SleepAction(seconds=SHUTDOWN_DELAY))),
        volume_mounts=[VolumeMount(name="page", mount_path=FOLDER, read_only=True)],
    )
    page = ConfigMapVolumeSource(name=web.metadata.name, items=[KeyToPath(key=PAGE, path=PAGE)])
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=labels_for(web), annotations={PAGE_HASH: hash_of(web.spec.page_content_html)}),
        spec=PodSpec(containers=[container], volumes=[Volume(name="page", config_map=page)]),
    )
    selector = LabelSelector(match_labels=labels_for(web))
    return Deployment(metadata=_metadata(web), spec=DeploymentSpec(replicas=1, selector=selector, template=template))


def service_for(web: MyWeb) -> Service:
    """Return the Service that exposes the web server on the node port."""
    port = ServicePort(name="http", port=PORT, target_port="http", node_port=web.spec.node_port_number, protocol="TCP")
    return Service(metadata=_metadata(web), spec=ServiceSpec(type="NodePort", selector=labels_for(web), ports=[port]))


def _metadata(web: MyWeb) -> ObjectMeta:
    return ObjectMeta(name=web.metadata.name, namespace=web.metadata.namespace, labels=labels_for(web))
