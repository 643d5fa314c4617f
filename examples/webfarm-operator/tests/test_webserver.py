"""What a WebServer does for its users, in both versions."""

from pathlib import Path

import pytest
from kubewright import Forbidden, Invalid, ObjectMeta
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import Namespace, Service
from kubewright.client import MergePatch
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster, eventually

from webfarm_operator.api.v1.webserver import ServiceSettings, Variable, WebServer, WebServerSpec
from webfarm_operator.api.v1alpha1 import webserver as v1alpha1

SAMPLES = Path(__file__).parents[1] / "config/samples"
LOAD_BALANCERS = {"metadata": {"labels": {"load-balancers": "allowed"}}}
pytestmark = pytest.mark.usefixtures("operator")


def named_web(namespace: str) -> ObjectMeta:
    return ObjectMeta(name="web", namespace=namespace)


@pytest.mark.parametrize(
    ("sample", "kind"), [("farm_v1_webserver.yaml", WebServer), ("farm_v1alpha1_webserver.yaml", v1alpha1.WebServer)]
)
async def test_the_samples_become_ready_in_both_versions(
    cluster: Cluster, namespace: str, sample: str, kind: type[WebServer | v1alpha1.WebServer]
) -> None:
    obj = codec.from_dict(kind, yaml.load((SAMPLES / sample).read_text()))
    obj.metadata.namespace = namespace
    name = (await cluster.client.create(obj, field_validation="Strict")).metadata.name

    async def is_ready() -> None:
        new = await cluster.client.get(WebServer, name, namespace=namespace)
        assert [(each.type, each.status) for each in new.status.conditions] == [("Ready", "True")]
        assert new.status.available_replicas == 2
        old = await cluster.client.get(v1alpha1.WebServer, name, namespace=namespace)
        assert old.status == v1alpha1.WebServerStatus(available=2, ready=True)

    await eventually(is_ready)


async def test_the_children_have_the_values_of_an_object_that_an_old_client_made(
    cluster: Cluster, namespace: str
) -> None:
    spec = v1alpha1.WebServerSpec(image="nginx:1", size=2, memory_mb=128, port=8080, public=True)
    await cluster.client.create(v1alpha1.WebServer(metadata=named_web(namespace), spec=spec))
    service = await eventually(cluster.client.get, Service, "web", namespace=namespace)
    assert (service.spec.type, service.spec.ports[0].port) == ("NodePort", 8080)
    deployment = await cluster.client.get(Deployment, "web", namespace=namespace)
    assert deployment.spec.replicas == 2
    [container] = deployment.spec.template.spec.containers
    assert container.resources is not None
    assert container.resources.limits == {"memory": "128M"}
    assert [each.api_version for each in deployment.metadata.owner_references] == ["farm.my.domain/v1"]


async def test_a_patch_in_the_old_version_keeps_the_rest(cluster: Cluster, namespace: str) -> None:
    service, env = ServiceSettings(type="LoadBalancer"), [Variable(name="MODE", value="fast")]
    spec = WebServerSpec(replicas=2, image="nginx:1", memory="1Gi", service=service, env=env)
    await cluster.client.patch(Namespace, MergePatch(LOAD_BALANCERS), name=namespace)
    await cluster.client.create(WebServer(metadata=named_web(namespace), spec=spec))
    patch = MergePatch({"spec": {"size": 5}})
    old = await cluster.client.patch(v1alpha1.WebServer, patch, name="web", namespace=namespace)
    assert old.spec == v1alpha1.WebServerSpec(image="nginx:1", size=5, memory_mb=1074, public=True)
    new = await cluster.client.get(WebServer, "web", namespace=namespace)
    assert new.spec == WebServerSpec(replicas=5, image="nginx:1", memory="1Gi", service=service, env=env)


async def test_requests_of_both_versions_are_checked(cluster: Cluster, namespace: str) -> None:
    new = WebServerSpec(replicas=100, image="nginx:1", memory="1G")
    with pytest.raises(Invalid, match=r"spec\.memory: .*100 Pods would use 100G"):
        await cluster.client.create(WebServer(metadata=named_web(namespace), spec=new))
    old = v1alpha1.WebServerSpec(image="nginx:1", size=100, memory_mb=1000)
    with pytest.raises(Invalid, match="100 Pods would use 100G"):
        await cluster.client.create(v1alpha1.WebServer(metadata=named_web(namespace), spec=old))


async def test_a_load_balancer_is_refused_in_other_namespaces(cluster: Cluster, namespace: str) -> None:
    spec = WebServerSpec(image="nginx:1", service=ServiceSettings(type="LoadBalancer"))
    with pytest.raises(Forbidden, match="load balancers cost money"):
        await cluster.client.create(WebServer(metadata=named_web(namespace), spec=spec))
