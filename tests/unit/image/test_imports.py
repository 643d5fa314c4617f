"""Packages that a program imports and its requirements do not install."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubewright.machinery.errors import ConfigError
from kubewright_cli.image.imports import missing_requirements
from kubewright_cli.image.project import ImageProject


def missing(folder: Path, source: str, dependencies: str = '"kubewright"', **files: str) -> list[str]:
    """Return what is missing for a program. `files` are lock files, by name with `_` for `.`."""
    package = folder / "src/thing"
    package.mkdir(parents=True, exist_ok=True)
    (package / "main.py").write_text(source)
    (package / "other.py").touch()
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "thing"\ndependencies = [{dependencies}]\n'
        '[tool.kubewright]\nmanager = "thing.main:manager"\n'
    )
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return [str(each) for each in missing_requirements(ImageProject.read(folder))]


def test_an_import_that_no_requirement_provides_is_named_with_its_package(tmp_path: Path) -> None:
    (said,) = missing(tmp_path, "import os\nfrom jinja2.loaders import DictLoader\nimport jinja2\nimport yaml_x\n")
    assert said == (
        'src/thing/main.py, line 2: imports "jinja2", which no requirement of the project provides; add "jinja2" to '
        "dependencies in [project]"
    )
    assert missing(tmp_path, "import jinja2\n", '"kubewright", "Jinja2>=3"') == []


@pytest.mark.parametrize(
    "source",
    [
        "import msgspec  # kubewright requires it\nfrom kubewright import Manager\nfrom thing import other\n",
        "from . import other\nfrom .other import x\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import jinja2\n",
        "try:\n    import jinja2\nexcept ImportError:\n    jinja2 = None\n",
    ],
)
def test_other_imports_are_provided_or_not_needed(tmp_path: Path, source: str) -> None:
    assert missing(tmp_path, source) == []


def test_the_requirements_of_a_lock_file_count(tmp_path: Path) -> None:
    lock = "# locked\njinja2==3.1.6 \\\n    --hash=sha256:00\nkubewright==0.1.0\n"
    assert missing(tmp_path, "import jinja2\n", requirements_txt=lock) == []
    assert len(missing(tmp_path, "import click\n", requirements_txt=lock)) == 1
    assert missing(tmp_path, "import click\n", requirements_txt="-r other.txt\n") == []
    (tmp_path / "pylock.toml").write_text('[[packages]]\nname = "click"\n')
    assert missing(tmp_path, "import click\n") == []


def test_a_source_file_that_is_not_python_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"main\.py, line 1: "):
        missing(tmp_path, "def :")
