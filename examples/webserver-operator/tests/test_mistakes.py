"""What somebody writes wrong in a WebServer is told at once, with the field."""

import pytest

from kubewright import Invalid, ObjectMeta, Unstructured
from kubewright.machinery.errors import BadRequest
from webserver_operator.types import WebServer
from webservers import WebServers

RIGHT = {"replicas": 1, "image": "nginx"}
Loose = Unstructured.of(WebServer.__api__)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param(
            {**RIGHT, "replicas": "three"},
            'WebServer.my.domain "web" is invalid: spec.replicas: Invalid value: "string": '
            'spec.replicas in body must be of type integer: "string"',
            id="wrong type",
        ),
        pytest.param(
            {**RIGHT, "replicas": -1},
            'WebServer.my.domain "web" is invalid: spec.replicas: Invalid value: -1: '
            "spec.replicas in body should be greater than or equal to 0",
            id="too few",
        ),
        pytest.param(
            {**RIGHT, "image": ""},
            'WebServer.my.domain "web" is invalid: spec.image: Invalid value: "": '
            "spec.image in body should be at least 1 chars long",
            id="empty image",
        ),
        pytest.param({"replicas": 1}, 'WebServer.my.domain "web" is invalid: spec.image: Required value', id="bare"),
        pytest.param(None, 'WebServer.my.domain "web" is invalid: spec: Required value', id="no spec"),
    ],
)
async def test_a_value_that_cannot_be_is_refused(webs: WebServers, spec: dict[str, object] | None, said: str) -> None:
    content = {} if spec is None else {"spec": spec}
    with pytest.raises(Invalid) as refused:
        await webs.client.create(Loose(metadata=ObjectMeta(name="web", namespace=webs.namespace), content=content))
    assert str(refused.value) == said


async def test_a_field_that_does_not_exist_is_refused(webs: WebServers) -> None:
    metadata = ObjectMeta(name="web", namespace=webs.namespace)
    wrong = Loose(metadata=metadata, content={"spec": {**RIGHT, "replicaz": 3}})
    with pytest.raises(BadRequest) as refused:
        await webs.client.create(wrong, field_validation="Strict")
    assert str(refused.value).endswith('strict decoding error: unknown field "spec.replicaz"')


async def test_a_name_that_is_missing_is_asked_for(webs: WebServers) -> None:
    with pytest.raises(Invalid) as refused:
        await webs.client.create(Loose(metadata=ObjectMeta(namespace=webs.namespace), content={"spec": RIGHT}))
    assert "metadata.name: Required value: name or generateName is required" in str(refused.value)
