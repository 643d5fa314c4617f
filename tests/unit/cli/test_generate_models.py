"""`kubewright generate models` at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubewright.machinery import yaml
from kubewright_cli.main import cli

GOLDEN = Path(__file__).parents[2] / "golden" / "models"


def generate_models(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["generate", "models", *map(str, arguments)])


def test_files_and_folders_become_a_module_for_each_group_version(tmp_path: Path) -> None:
    for source in (GOLDEN / "crds.yaml", GOLDEN):
        done = generate_models(source, "--output", tmp_path / source.name)
        assert done.exit_code == 0, done.output
        written = {path.name: path.read_text() for path in (tmp_path / source.name).iterdir()}
        assert written == {path.name: path.read_text() for path in GOLDEN.glob("*.py")}


def test_check_writes_nothing_and_fails_for_what_is_stale(tmp_path: Path) -> None:
    first = generate_models(GOLDEN, "--output", tmp_path, "--check")
    assert (first.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert "not up to date" in first.output
    assert generate_models(GOLDEN, "--output", tmp_path).exit_code == 0
    assert generate_models(GOLDEN, "--output", tmp_path, "--check").exit_code == 0


def test_a_file_that_a_person_wrote_is_left_alone(tmp_path: Path) -> None:
    own = tmp_path / "shop_example_com_v1.py"
    own.write_text("# my own\n")
    done = generate_models(GOLDEN, "--output", tmp_path)
    assert done.exit_code == 1
    assert f"{own}: not made by `kubewright generate`, and in its way" in done.output
    assert [path.read_text() for path in tmp_path.iterdir()] == ["# my own\n"]


def test_no_crd_at_all_is_told(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("kind: Pod\n---\nkind: Pod\n---\nkind: Service\n---\nspec: {}\n")
    done = generate_models(tmp_path / "pod.yaml", "--output", tmp_path)
    assert done.exit_code == 2
    assert (
        "no CustomResourceDefinition is given (what is there: 2 Pod, 1 Service, 1 object without a kind)" in done.output
    )
    (tmp_path / "pod.yaml").write_text("")
    assert "no CustomResourceDefinition is given; name files" in generate_models(tmp_path, "--output", tmp_path).output


def test_crds_that_kubectl_printed_as_a_list_become_modules_too(tmp_path: Path) -> None:
    crds = list(yaml.load_all((GOLDEN / "crds.yaml").read_text()))
    (tmp_path / "crds.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": crds}))
    done = generate_models(tmp_path / "crds.json", "--output", tmp_path / "made")
    assert done.exit_code == 0, done.output
    made = {path.name: path.read_text() for path in (tmp_path / "made").iterdir()}
    assert made == {path.name: path.read_text() for path in GOLDEN.glob("*.py")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("kind: Pod\n---\nhello", "document 2 is a scalar: 'hello', not an object", id="text"),
        pytest.param("- kind: Pod\n- kind: Pod\n", "document 1 is a list of 2, not an object", id="list"),
        pytest.param("x" * 1000, f"document 1 is a scalar: '{'x' * 59}..., not an object", id="long text"),
    ],
)
def test_what_is_found_in_place_of_an_object_is_told(tmp_path: Path, text: str, said: str) -> None:
    source = tmp_path / "crd.yaml"
    source.write_text(text)
    done = generate_models(source, "--output", tmp_path)
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {source}: {said}")


def test_a_file_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    (tmp_path / "crd.yaml").write_text("{")
    done = generate_models(tmp_path / "crd.yaml", "--output", tmp_path)
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {tmp_path / 'crd.yaml'}: not YAML")
