"""The API server rejects an invalid WebServer and names the field."""

import pytest
from kubewright import Invalid, ObjectMeta
from kubewright.client import Unstructured
from kubewright.machinery.errors import BadRequest

from webserver_operator.api.v1.webserver import WebServer
from webservers import WebServers

RIGHT = {"replicas": 1, "image": "nginx"}
Loose = Unstructured.of(WebServer.__api__)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param(
            {**RIGHT, "replicas": "three"},
            'spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"',
            id="wrong type",
        ),
        pytest.param(
            {**RIGHT, "replicas": -1},
            "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0",
            id="too few",
        ),
        pytest.param(
            {**RIGHT, "image": ""},
            'spec.image: Invalid value: "": spec.image in body should be at least 1 chars long',
            id="empty image",
        ),
        pytest.param(
            {**RIGHT, "image": " nginx"},
            "spec.image: Invalid value: \" nginx\": spec.image in body should match '^\\S*$'",
            id="image with a space",
        ),
        pytest.param({"replicas": 1}, "spec.image: Required value", id="bare"),
        pytest.param(None, "spec: Required value", id="no spec"),
    ],
)
async def test_an_invalid_value_is_rejected(webs: WebServers, spec: dict[str, object] | None, said: str) -> None:
    content = {} if spec is None else {"spec": spec}
    with pytest.raises(Invalid) as refused:
        await webs.client.create(Loose(metadata=ObjectMeta(name="web", namespace=webs.namespace), content=content))
    assert 'WebServer.my.domain "web" is invalid' in str(refused.value)
    assert said in str(refused.value)


@pytest.mark.parametrize("name", ["web.1", "1-web", "w" * 56])
async def test_a_name_invalid_for_the_service_is_rejected(webs: WebServers, name: str) -> None:
    with pytest.raises(Invalid, match="the name is part of the Service's name, <name>-service"):
        await webs.create(name)


async def test_the_longest_valid_name_is_accepted(webs: WebServers) -> None:
    await webs.create("w" * 55)


async def test_an_unknown_field_is_rejected(webs: WebServers) -> None:
    metadata = ObjectMeta(name="web", namespace=webs.namespace)
    wrong = Loose(metadata=metadata, content={"spec": {**RIGHT, "replicaz": 3}})
    with pytest.raises(BadRequest) as refused:
        await webs.client.create(wrong, field_validation="Strict")
    assert str(refused.value).endswith('strict decoding error: unknown field "spec.replicaz"')


async def test_a_missing_name_is_rejected(webs: WebServers) -> None:
    with pytest.raises(Invalid) as refused:
        await webs.client.create(Loose(metadata=ObjectMeta(namespace=webs.namespace), content={"spec": RIGHT}))
    assert "metadata.name: Required value: name or generateName is required" in str(refused.value)
