"""The defaulter and the validator, without a server."""

import pytest
from kubewright import ObjectMeta
from kubewright.testing import review

from webfarm_operator.api.v1.webserver import ServiceSettings, ServiceType, WebServer, WebServerSpec
from webfarm_operator.webhook.webserver_v1 import set_defaults, validate


def webserver(
    *, replicas: int | None = None, memory: str = "64M", type: ServiceType = "ClusterIP", image: str = "nginx:1"
) -> WebServer:
    spec = WebServerSpec(replicas=replicas, image=image, memory=memory, service=ServiceSettings(type=type))
    return WebServer(metadata=ObjectMeta(name="web", namespace="default"), spec=spec)


async def test_a_webserver_in_the_cluster_has_one_pod() -> None:
    result = await review(set_defaults, create=webserver())
    assert result.object.spec.replicas == 1


@pytest.mark.parametrize("type", ["NodePort", "LoadBalancer"])
async def test_a_webserver_that_the_outside_reaches_has_two_pods(type: ServiceType) -> None:
    result = await review(set_defaults, create=webserver(type=type))
    assert result.object.spec.replicas == 2


async def test_a_chosen_number_stays() -> None:
    assert (await review(set_defaults, create=webserver(replicas=0))).patch == []


async def test_the_memory_of_all_pods_is_limited() -> None:
    assert (await review(validate, create=webserver(replicas=64, memory="1G"))).allowed
    result = await review(validate, create=webserver(replicas=65, memory="1G"))
    assert [each.field for each in result.causes] == ["spec.memory"]
    assert "65 Pods would use 65G, and a WebServer may use 64G" in result.message


@pytest.mark.parametrize("memory", ["0", "-1M"])
async def test_pods_need_memory(memory: str) -> None:
    assert "must be greater than 0" in (await review(validate, create=webserver(memory=memory))).message


@pytest.mark.parametrize("image", ["nginx", "nginx:latest", "registry.example.com:5000/nginx"])
async def test_an_image_without_a_version_is_a_warning(image: str) -> None:
    result = await review(validate, create=webserver(image=image))
    assert result.allowed
    assert result.warnings == [f"spec.image: {image} can change at any time; name a version, such as nginx:1.23.1"]


@pytest.mark.parametrize("image", ["nginx:1.23.1", "nginx@sha256:0a1b", "registry.example.com:5000/nginx:1"])
async def test_an_image_with_a_version_is_accepted_without_a_warning(image: str) -> None:
    assert (await review(validate, create=webserver(image=image))).warnings == []
