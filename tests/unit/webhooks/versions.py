"""A kind in three versions: v1 is the hub, and each version has a field that another lacks."""

# ruff: noqa: RUF012 - models copy the lists that are their defaults

from __future__ import annotations

from typing import Annotated

from kubewright import CustomResource, Model, field
from kubewright import markers as m
from kubewright.webhooks import Conversion, Spoke


class V1Port(Model):
    name: str
    number: int
    protocol: str = "TCP"


class V1Spec(Model):
    replicas: int = 1
    image: str
    ports: list[V1Port] = []
    tags: list[str] = []
    labels: dict[str, str] = {}


class V1(CustomResource, group="shop.example.com", version="v1", kind="Web"):
    spec: V1Spec


class V1Beta1Port(Model):
    name: str
    number: int


class V1Beta1Spec(Model):
    size: int = 1
    image: Annotated[str, m.Pattern(r"^[a-z]+(:[a-z0-9.]{1,8})?$")]
    ports: list[V1Beta1Port] = []


class V1Beta1(CustomResource, group="shop.example.com", version="v1beta1", kind="Web", storage=False):
    spec: V1Beta1Spec


class V1Alpha1Spec(Model):
    image: str
    note: str | None = None
    """No other version has it."""
    numbers: list[int] = field(default=[])


class V1Alpha1(CustomResource, group="shop.example.com", version="v1alpha1", kind="Web", storage=False):
    spec: V1Alpha1Spec


def from_v1beta1(old: V1Beta1) -> V1:
    ports = [V1Port(name=each.name, number=each.number) for each in old.spec.ports]
    return V1(spec=V1Spec(replicas=old.spec.size, image=old.spec.image, ports=ports))


def to_v1beta1(new: V1) -> V1Beta1:
    ports = [V1Beta1Port(name=each.name, number=each.number) for each in new.spec.ports]
    return V1Beta1(spec=V1Beta1Spec(size=new.spec.replicas, image=new.spec.image, ports=ports))


def from_v1alpha1(old: V1Alpha1) -> V1:
    ports = [V1Port(name=f"p{number}", number=number) for number in old.spec.numbers]
    return V1(metadata=old.metadata, spec=V1Spec(image=old.spec.image, ports=ports))


def to_v1alpha1(new: V1) -> V1Alpha1:
    spec = V1Alpha1Spec(image=new.spec.image, numbers=[each.number for each in new.spec.ports])
    return V1Alpha1(metadata=new.metadata, spec=spec)


def conversion(*, lossless: bool = True) -> Conversion[V1]:
    return Conversion(
        V1,
        Spoke(V1Beta1, convert_to=from_v1beta1, convert_from=to_v1beta1, lossless=lossless),
        Spoke(V1Alpha1, convert_to=from_v1alpha1, convert_from=to_v1alpha1, lossless=lossless),
    )
