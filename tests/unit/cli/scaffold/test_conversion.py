"""The functions of a conversion, as they follow from the fields of two versions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from kubewright.models import CustomResource
from kubewright.testing import check_round_trips
from kubewright.webhooks import Conversion, Spoke
from kubewright_cli.scaffold.conversion import ConversionCode, Side, conversion_code

HEAD = """
from enum import StrEnum
from typing import Annotated, Literal
from kubewright import CustomResource, Model, field, markers as m
"""
KIND = """
class Ship(CustomResource, group="example.com", version="{}"):
    spec: ShipSpec
"""
RICH = """
class Color(StrEnum):
    RED = "red"

class Item(Model):
    name: str
    color: Color = Color.RED

class Gun(Model):
    caliber: Annotated[int, m.Minimum(1)] = 5
    items: list[Item] = []

class ShipSpec(Model):
    guns: list[Gun] = []
    main: Gun | None = None
    flag: Gun = field(default_factory=Gun)
    by_name: dict[str, Gun] = {}
    mode: Literal["a", "b"] = "a"
    size: int | None = None
"""


@pytest.fixture
def modules() -> Iterator[list[str]]:
    """The names of modules that the test adds."""
    names: list[str] = []
    yield names
    for name in names:
        del sys.modules[name]


def side(version: str, fields: str, modules: list[str]) -> Side:
    module = ModuleType(f"ship_{version}")
    modules.append(module.__name__)
    sys.modules[module.__name__] = module
    exec(compile(HEAD + fields + KIND.format(version), f"{Path(__file__).stem}", "exec"), module.__dict__)
    return Side(cast("type[CustomResource]", module.__dict__["Ship"]), version)


def conversion_of(code: ConversionCode, hub: Side, spoke: Side) -> Conversion[Any]:
    """Run the code, as the module of a project does."""
    made: dict[str, Any] = {each.name: sys.modules[each.kind.__module__] for each in (hub, spoke)}
    exec(code.text, made)
    return Conversion(hub.kind, Spoke(spoke.kind, *(made[name] for name in code.names)))


def test_equal_versions_are_converted_without_an_edit(modules: list[str]) -> None:
    hub, spoke = side("v1", RICH, modules), side("v2", RICH, modules)
    code = conversion_code(spoke, hub)
    assert "TODO" not in code.text
    assert code.missing == ()
    check_round_trips(conversion_of(code, hub, spoke))


def test_a_field_that_only_one_version_has_is_named_and_kept(modules: list[str]) -> None:
    hub, spoke = side("v1", RICH, modules), side("v2", RICH.replace("    size", "    width"), modules)
    code = conversion_code(spoke, hub)
    assert "            # TODO: spec.size is only in v1\n" in code.text
    assert "            # TODO: spec.width is only in v2\n" in code.text
    check_round_trips(conversion_of(code, hub, spoke))


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("size: str", "size: list[str]", "spec.size: str in v1, list[str] in v2"),
        ("size: int | None = None", "size: int = 1", "spec.size: int | None in v1, int in v2"),
        (
            "size: dict[str, int] = {}",
            "size: dict[str, str] = {}",
            "spec.size: dict[str, int] in v1, dict[str, str] in v2",
        ),
        ('size: Literal["a"] = "a"', 'size: Literal["b"] = "b"', "spec.size: Literal['a'] in v1, Literal['b'] in v2"),
    ],
)
def test_a_field_of_another_type_is_left_to_the_author(old: str, new: str, shown: str, modules: list[str]) -> None:
    spec = "class ShipSpec(Model):\n    "
    hub, spoke = side("v1", spec + old, modules), side("v2", spec + new, modules)
    assert f"# TODO: convert {shown}\n" in conversion_code(spoke, hub).text


def test_required_fields_without_a_value_are_reported(modules: list[str]) -> None:
    spec = "class ShipSpec(Model):\n    size: {}\n"
    hub, spoke = side("v1", spec.format("str"), modules), side("v2", spec.format("int"), modules)
    assert conversion_code(spoke, hub).missing == ("spec.size in v2_to_v1", "spec.size in v1_to_v2")


def test_an_optional_field_takes_the_value_of_a_required_one(modules: list[str]) -> None:
    spec = "class ShipSpec(Model):\n    size: {}\n"
    hub, spoke = side("v1", spec.format("int | None = None"), modules), side("v2", spec.format("int = 1"), modules)
    text = conversion_code(spoke, hub).text
    assert text.count("size=old.spec.size,\n") == 1
    assert "# TODO: convert spec.size: int | None in v1, int in v2\n" in text
