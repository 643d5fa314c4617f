"""The API server rejects an invalid Podbuggertool, and names the field and the expected value."""

import pytest
from kubewright import Invalid
from kubewright.client import Unstructured

from podbuggertool_operator.api.v1beta1.podbuggertool import Podbuggertool
from podbuggertools import Podbuggertools

RIGHT = {"label": "app=payment", "image": "busybox"}
LABEL = "must be one label as key=value, such as app=payment"
IMAGE = "must be an image, such as busybox or registry.example.com/tool:1.2"
Loose = Unstructured.of(Podbuggertool.__api__)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("label", "payment", LABEL),
        ("label", "app==payment", LABEL),
        ("label", "app=payment,tier=web", LABEL),
        ("label", "app in (payment)", LABEL),
        ("label", "Example.com/app=payment", LABEL),
        ("label", "app=" + "a" * 64, LABEL),
        ("label", "", LABEL),
        ("image", "", IMAGE),
        ("image", "busy box", IMAGE),
        ("image", "Busybox", IMAGE),
        ("image", "busybox:", IMAGE),
        ("image", "registry.example.com/", IMAGE),
    ],
)
async def test_an_invalid_value_is_rejected(tools: Podbuggertools, field: str, value: str, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        await tools.client.create(Loose(metadata=tools.metadata("tool"), content={"spec": {**RIGHT, field: value}}))
    [cause] = refused.value.causes
    assert cause.field == f"spec.{field}"
    assert cause.message.endswith(f": {said}")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("label", "app="),
        ("label", "app.kubernetes.io/name=payment_v1.2"),
        ("image", "registry.example.com:5000/my_team/tool.v2:1.2-rc1"),
        ("image", "busybox@sha256:9ae97d36d26566ff84e8893c64a6dc4f"),
    ],
)
async def test_a_valid_value_is_accepted(tools: Podbuggertools, field: str, value: str) -> None:
    await tools.client.create(Loose(metadata=tools.metadata("tool"), content={"spec": {**RIGHT, field: value}}))


@pytest.mark.parametrize("field", ["label", "image"])
async def test_a_missing_field_is_rejected(tools: Podbuggertools, field: str) -> None:
    spec = {name: value for name, value in RIGHT.items() if name != field}
    with pytest.raises(Invalid) as refused:
        await tools.client.create(Loose(metadata=tools.metadata("tool"), content={"spec": spec}))
    missing = refused.value.causes[0]
    assert (missing.field, missing.reason) == (f"spec.{field}", "FieldValueRequired")
