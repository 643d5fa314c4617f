"""Modules from CRDs: `tests/golden/models` has CRDs and modules generated from them, with equal schemas."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kubewright.machinery import yaml
from kubewright.machinery.errors import ModelError
from kubewright.machinery.json import JSONObject, is_object
from kubewright.models import CustomResource, codec, custom_resource_definition
from kubewright_cli.codegen import modules

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden"
CRDS = [
    crd
    for path in (*sorted((GOLDEN / "crd").glob("*.yaml")), GOLDEN / "models" / "crds.yaml")
    for crd in yaml.load_all(path.read_text())
]
IMPLIED = ("apiVersion", "kind", "metadata")


def kinds_of(crd: JSONObject, folder: Path) -> list[type[CustomResource]]:
    """Return the classes that the modules of `crd` declare."""
    found: list[type[CustomResource]] = []
    for name, source in modules([crd]).items():
        path = folder / f"{name}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(f"{crd['metadata']['name']}/{name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module.__name__] = module
        spec.loader.exec_module(module)
        found.append(getattr(module, crd["spec"]["names"]["kind"]))
    return found


def meaning(schema: JSONObject, *, root: bool = False) -> JSONObject:
    """Return the schema in a normal form, without the fields that are the same in every kind."""
    out = dict(schema)
    properties: JSONObject = out.pop("properties", {})
    out["properties"] = {key: meaning(each) for key, each in properties.items() if not (root and key in IMPLIED)}
    out["required"] = {each for each in out.get("required", ()) if not (root and each in IMPLIED)}
    if out.get("x-kubernetes-int-or-string"):
        out["anyOf"] = out.get("anyOf", [{"type": "integer"}, {"type": "string"}])
    for key in ("items", "additionalProperties"):
        if is_object(out.get(key)):
            out[key] = meaning(out[key])
    return out


def whole(crd: JSONObject) -> JSONObject:
    """Return the parts of a CRD that modules express."""
    versions = {
        each["name"]: {**each, "schema": meaning(each["schema"]["openAPIV3Schema"], root=True)}
        for each in crd["spec"]["versions"]
    }
    return {"name": crd["metadata"]["name"], **crd["spec"], "versions": versions}


def test_the_golden_modules_are_up_to_date() -> None:
    made = modules(yaml.load_all((GOLDEN / "models" / "crds.yaml").read_text()))
    golden = {path.stem: path.read_text() for path in (GOLDEN / "models").glob("*.py")}
    assert made == golden


@pytest.mark.parametrize("crd", CRDS, ids=lambda crd: crd["metadata"]["name"])
def test_the_crd_of_the_classes_is_equivalent_to_the_one_they_were_made_from(crd: JSONObject, tmp_path: Path) -> None:
    assert whole(custom_resource_definition(*kinds_of(crd, tmp_path))) == whole(crd)


def test_an_object_is_read_and_written_as_it_is(tmp_path: Path) -> None:
    basket = next(crd for crd in CRDS if crd["spec"]["names"]["kind"] == "Basket")
    kind = kinds_of(basket, tmp_path)[0]
    spec: dict[str, Any] = {
        "owner": "ann",
        "note": None,
        "size": 3,
        "gift": True,
        "discount": 5,
        "delivery": "Express",
        "weight": 1.5,
        "items": [{"sku": "a", "packaging": "box", "count": 2, "from": "here", "parts": {"x": ["y"]}}],
        "podIPs": ["10.0.0.1"],
        "x-extra-field": "hi",
        "wrapping": {"paper": "blue"},
        "payment": {"cash": {}},
    }
    document = {"apiVersion": "shop.example.com/v1", "kind": "Basket", "metadata": {"name": "one"}, "spec": spec}
    obj = codec.from_dict(kind, document)
    assert codec.to_dict(obj)["spec"] == spec


def test_the_golden_modules_are_formatted_and_typed_strictly() -> None:
    tools = Path(sys.executable).parent
    folder = GOLDEN / "models"
    for command in (
        (tools / "ruff", "format", "--check", "--line-length", "88", folder),
        (tools / "ruff", "format", "--check", "--line-length", "120", folder),
        (tools / "ruff", "check", folder),
        (tools / "mypy", "--strict", *sorted(folder.glob("*.py"))),
    ):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kind": "Pod", "apiVersion": "v1"}, "expected a CustomResourceDefinition of .*, got Pod of v1"),
        ({"spec": {"versions": [{"name": "v1"}], "group": "a.b", "names": {"kind": "A"}}}, "version v1 has no schema"),
        (
            {
                "spec": {
                    "group": "a.b",
                    "scope": "Namespaced",
                    "names": {"kind": "A", "plural": "as"},
                    "versions": [
                        {
                            "name": "v1",
                            "served": True,
                            "storage": True,
                            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"x": {}}}},
                        }
                    ],
                }
            },
            "x: the schema has no type, so it is not structural",
        ),
    ],
)  # fmt: skip
def test_a_crd_without_a_usable_schema_is_rejected(document: JSONObject, message: str) -> None:
    head = {"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": "as.a.b"}}
    with pytest.raises(ModelError, match=message):
        modules([head | document])
