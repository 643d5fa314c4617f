"""Another version of a kind is a copy of an existing version."""

from __future__ import annotations

from kubewright_cli.scaffold.versions import another_version

SOURCE = '''"""The API: what a Tenant is, in version v1alpha1."""

from ..common import Quota
from kubewright import CustomResource, Model


class TenantSpec(Model):
    quota: Quota  # of v1alpha1


class Tenant(
    CustomResource,
    group="example.com",
    version="v1alpha1",
    short_names=["tn"],
):
    spec: TenantSpec
'''


def copied(source: str, kind: str = "Tenant") -> str | None:
    return another_version(source, kind, "web.api.v1alpha1.tenant", "v1alpha1", "v1")


def test_a_copy_has_the_fields_and_names_of_the_other_version() -> None:
    expected = SOURCE.replace("in version v1alpha1", "in version v1").replace("..common", "web.api.common")
    expected = expected.replace('    version="v1alpha1"', '    version="v1",\n    storage=False')
    assert copied(SOURCE) == expected


def test_a_class_on_one_line_and_a_stated_storage_version_are_copied_too() -> None:
    one_line = 'class Old(CustomResource, group="a.b", kind="Tenant", version="v1alpha1", storage=True): ...\n'
    changed = 'class Old(CustomResource, group="a.b", kind="Tenant", version="v1", storage=False): ...\n'
    assert copied(one_line) == changed
    without = one_line.replace(", storage=True", "")
    assert copied(without) == changed


def test_a_module_without_the_class_is_not_copied() -> None:
    assert copied(SOURCE, kind="Other") is None
    assert copied("class Tenant(CustomResource, group='a', version=VERSION): ...") is None
    assert copied("class") is None


def test_a_copy_is_served_and_not_deprecated() -> None:
    old = 'class Tenant(CustomResource, group="a.b", version="v1alpha1", deprecated="use v1", served=False): ...\n'
    assert copied(old) == 'class Tenant(CustomResource, group="a.b", version="v1", storage=False): ...\n'
    lines = SOURCE.replace("    short_names", "    deprecated=True,\n    short_names")
    assert copied(lines) == copied(SOURCE)
