"""Fields that versions of a kind do not share."""

from __future__ import annotations

from kubewright import CustomResource, Model, field
from kubewright.models._crd import custom_resource_definition
from kubewright_cli.manifests.versions import lost_fields


class OldPart(Model):
    size: int = 0
    color: str = ""


class OldSpec(Model):
    quota: int = 0
    parts: list[OldPart] = field(default_factory=list[OldPart])


class Old(CustomResource, group="fleet.test", version="v1alpha1", kind="Tenant"):
    spec: OldSpec


class NewPart(Model):
    size: int = 0


class NewSpec(Model):
    parts: list[NewPart] = field(default_factory=list[NewPart])


class New(CustomResource, group="fleet.test", version="v1", kind="Tenant", storage=False):
    spec: NewSpec


class Hidden(CustomResource, group="fleet.test", version="v1", kind="Tenant", storage=False, served=False):
    spec: NewSpec


class Same(CustomResource, group="fleet.test", version="v1", kind="Tenant", storage=False):
    spec: OldSpec


def test_fields_that_a_served_version_lacks_are_named() -> None:
    (lost,) = lost_fields([custom_resource_definition(Old, New)])
    assert lost.fields == ("spec.quota", "spec.parts[].color")
    assert str(lost) == (
        "Tenant: version v1 lacks spec.quota, spec.parts[].color of v1alpha1: a write through v1 deletes the data; add "
        "the fields to v1, or do not serve it (served=False); versions are not converted"
    )


def test_equal_and_unserved_versions_lose_nothing() -> None:
    assert lost_fields([custom_resource_definition(Old, Hidden)]) == []
    assert lost_fields([custom_resource_definition(Old, Same)]) == []
