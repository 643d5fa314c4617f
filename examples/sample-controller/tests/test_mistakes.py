"""The API server rejects an invalid Foo and names the field."""

import pytest
from kubewright import Invalid, ObjectMeta
from kubewright.client import Unstructured

from foos import Foos
from sample_controller.api.v1alpha1.foo import Foo

Loose = Unstructured.of(Foo.__api__)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"deploymentName": "web", "replicas": 0}, "greater than or equal to 1", id="too few"),
        pytest.param({"deploymentName": "web", "replicas": 11}, "less than or equal to 10", id="too many"),
        pytest.param({"deploymentName": "Web_1"}, "spec.deploymentName in body should match", id="no name"),
        pytest.param({"deploymentName": ""}, "spec.deploymentName in body should be at least 1 chars", id="empty"),
        pytest.param({"replicas": 1}, "spec.deploymentName: Required value", id="bare"),
    ],
)
async def test_an_invalid_value_is_rejected(foos: Foos, spec: dict[str, object], message: str) -> None:
    with pytest.raises(Invalid) as rejected:
        await foos.client.create(
            Loose(metadata=ObjectMeta(name="foo", namespace=foos.namespace), content={"spec": spec})
        )
    assert message in str(rejected.value)


async def test_a_name_too_long_for_a_label_is_rejected(foos: Foos) -> None:
    with pytest.raises(Invalid, match="the name of a Foo is a label value of its Pods"):
        await foos.create("a" * 64)
