"""Fields that versions of a kind do not share."""

from __future__ import annotations

import pytest

from kubewright import CustomResource, Manager, Model, field
from kubewright.machinery.errors import ConfigError
from kubewright.models._crd import custom_resource_definition
from kubewright.webhooks import Conversion, Spoke
from kubewright_cli.manifests.versions import lost_fields, require_conversions


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


class TextSpec(Model):
    quota: str = ""
    parts: list[OldPart] = field(default_factory=list[OldPart])


def to_old(new: New) -> Old:
    return Old(spec=OldSpec(parts=[OldPart(size=each.size) for each in new.spec.parts]))


def to_new(old: Old) -> New:
    return New(spec=NewSpec(parts=[NewPart(size=each.size) for each in old.spec.parts]))


def test_fields_that_a_served_version_lacks_are_named() -> None:
    (lost,) = lost_fields([custom_resource_definition(Old, New)])
    assert lost.fields == ("spec.quota", "spec.parts[].color")
    assert str(lost) == (
        "Tenant: version v1 lacks spec.quota, spec.parts[].color of v1alpha1: a write through v1 deletes the data; "
        "give the Manager a Conversion of the versions (`kubewright create webhook --conversion` writes it), or add "
        "the fields to v1, or keep them there unread (marker PreserveUnknownFields), or do not serve it (served=False)"
    )


def test_a_field_that_has_another_type_is_named_with_its_own() -> None:
    class Text(CustomResource, group="fleet.test", version="v1", kind="Tenant", storage=False):
        spec: TextSpec

    to_number, to_text = lost_fields([custom_resource_definition(Old, Text)])
    assert to_text.problem == "version v1 lacks spec.quota (integer) of v1alpha1: a write through v1 deletes the data"
    assert to_number.fields == ("spec.quota (string)",)


def test_equal_and_unserved_versions_lose_nothing() -> None:
    assert lost_fields([custom_resource_definition(Old, Hidden)]) == []
    assert lost_fields([custom_resource_definition(Old, Same)]) == []


def test_versions_that_nothing_converts_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"Tenant: version v1 lacks spec\.quota, .*Nothing was written"):
        require_conversions(Manager(), [custom_resource_definition(Old, New)])
    require_conversions(Manager(), [custom_resource_definition(Old, Same)])


def test_versions_with_a_conversion_lose_nothing() -> None:
    conversion = Conversion(Old, Spoke(New, convert_to=to_old, convert_from=to_new))
    crd = custom_resource_definition(Old, New)
    require_conversions(Manager(webhooks=[conversion], name="tenants"), [crd])
    with pytest.raises(ConfigError, match=r"lacks spec\.quota"):
        require_conversions(Manager(webhooks=[conversion], webhook_port=-1, name="tenants"), [crd])
