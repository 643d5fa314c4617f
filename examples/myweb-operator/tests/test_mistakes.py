"""The API server rejects an invalid MyWeb and names the field."""

import pytest
from kubewright import Invalid, ObjectMeta
from kubewright.client import Unstructured
from kubewright.machinery.errors import BadRequest

from myweb_operator.api.v1.myweb import MyWeb
from mywebs import MyWebs

RIGHT: dict[str, object] = {"image": "nginx", "nodePortNumber": 30080, "pageContentHtml": "<h1>Hello</h1>"}
Loose = Unstructured.of(MyWeb.__api__)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param({"nodePortNumber": 29999}, "should be greater than or equal to 30000", id="low port"),
        pytest.param({"nodePortNumber": 32768}, "should be less than or equal to 32767", id="high port"),
        pytest.param({"nodePortNumber": "30080"}, 'must be of type integer: "string"', id="port in quotes"),
        pytest.param({"image": ""}, r"spec.image in body should match '^\S+$'", id="no image"),
        pytest.param({"image": "nginx "}, r"spec.image in body should match '^\S+$'", id="image with a space"),
        pytest.param({"pageContentHtml": "é" * 262_145}, "spec.pageContentHtml: Too long", id="long page"),
        pytest.param({"pageContentHtml": None}, "spec.pageContentHtml: Required value", id="no page"),
    ],
)
async def test_an_invalid_value_is_rejected(webs: MyWebs, spec: dict[str, object], said: str) -> None:
    content = {"spec": {**RIGHT, **spec}}
    with pytest.raises(Invalid) as refused:
        await webs.client.create(Loose(metadata=ObjectMeta(name="web", namespace=webs.namespace), content=content))
    assert said in str(refused.value)


@pytest.mark.parametrize("name", ["1st", "my.web", "w" * 64])
async def test_a_name_invalid_for_a_service_is_rejected(webs: MyWebs, name: str) -> None:
    with pytest.raises(Invalid) as refused:
        await webs.create(name)
    assert "metadata.name is also the name of the Service" in str(refused.value)


async def test_an_unknown_field_is_rejected(webs: MyWebs) -> None:
    wrong = Loose(metadata=ObjectMeta(name="web", namespace=webs.namespace), content={"spec": {**RIGHT, "port": 80}})
    with pytest.raises(BadRequest) as refused:
        await webs.client.create(wrong, field_validation="Strict")
    assert str(refused.value).endswith('strict decoding error: unknown field "spec.port"')


@pytest.mark.usefixtures("operator")
async def test_the_longest_valid_page_is_served_in_any_script(webs: MyWebs) -> None:
    page = "\N{GRINNING FACE}" * 262_144
    await webs.create(page=page)
    await webs.completes(page=page)
