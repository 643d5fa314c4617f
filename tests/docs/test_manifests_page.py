"""docs/manifests.md lists all settings, values and folders, and its overlay builds."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from docs.snippets import ROOT
from integration.manifests import GOLDEN, needs_kubectl
from integration.test_manifests import kustomize
from kubewright.machinery.json import JSONObject
from kubewright_cli.manifests import Settings
from kubewright_cli.manifests.chart import values
from kubewright_cli.manifests.settings import OF_PROJECT

PAGE = (ROOT / "docs/manifests.md").read_text()
FULL = GOLDEN / "full"
DERIVED = {
    "image": "<project>:latest",
    "namespace": "<project>-system",
    "name-prefix": "<project>-",
    "pod-security": "restricted",
}
"""Defaults that follow from others."""


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    lines = [line for line in section(title).splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_every_setting_is_in_the_table_with_its_default() -> None:
    shown = {key: cells[1].strip("`") for cells in rows("Settings") for key in re.findall("`([^`]+)`", cells[0])}
    fields = {each.encode_name: each.name for each in msgspec.structs.fields(Settings)}
    assert list(shown) == [key for key in fields if fields[key] not in OF_PROJECT]
    usual = Settings(name="x", manager="x")
    for key in shown.keys() - {"manager", "resources", "build", "bundle", "catalog"}:
        value = getattr(usual, fields[key])
        text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
        assert shown[key] == DERIVED.get(key, text), key


def described(schema: JSONObject, where: str = "") -> Iterator[list[str]]:
    for key, each in schema["properties"].items():
        if "properties" in each:
            yield from described(each, f"{where}{key}.")
        elif key != "global":
            yield [f"`{where}{key}`", each["description"]]


def test_every_value_of_the_chart_is_in_the_table_with_its_description() -> None:
    assert rows("The chart") == list(described(values.schema()))


def test_the_table_lists_the_written_folders() -> None:
    named = {cells[0].strip("`") for cells in rows("What is in config/")}
    assert named == {path.name for path in (FULL / "config").iterdir()}


def test_the_files_that_kubebuilder_also_has_exist() -> None:
    written = {str(path.relative_to(FULL / "config")) for path in (FULL / "config").rglob("*")} | {
        str(path.relative_to(FULL)) for path in (FULL / "dist").rglob("*")
    }
    for theirs, ours, *_ in rows("Compared with kubebuilder's config/"):
        folder = ""
        for path in re.findall("`([^`]+)`", theirs if ours == "the same" else ours):
            if "/" in path:
                folder = path.rpartition("/")[0]
            full = (path if "/" in path else f"{folder}/{path}").rstrip("/").replace("<kind>", "ship")
            if ours == "the same" and not path.startswith("_"):
                assert full in written, path


@needs_kubectl
def test_the_overlay_builds_and_has_the_stated_effect(tmp_path: Path) -> None:
    text = re.search(r"```yaml\n(# overlays/production/kustomization.yaml\n.*?)```", PAGE, flags=re.S)
    assert text is not None
    shutil.copytree(GOLDEN / "minimal/config", tmp_path / "config")
    overlay = tmp_path / "overlays/production"
    overlay.mkdir(parents=True)
    (overlay / "kustomization.yaml").write_text(text[1].replace("my-operator", "minimal"))
    [deployment] = [each for each in kustomize(overlay) if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["hostAliases"] == [{"ip": "10.0.0.1", "hostnames": ["database"]}]
    assert pod["containers"][0]["image"] == "registry.example.com/operator:1.0"
