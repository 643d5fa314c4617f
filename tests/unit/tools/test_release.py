"""`make release`: what it refuses, what it builds, and the tag that it creates."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tools.release import Distribution, ReleaseError, changes, check_files, main

CHANGELOG = """\
# Changelog

## Unreleased

## 0.2.0 (2026-11-22)

### Added
- Leader election.

## 0.1.0 (2026-10-01)

The first release.
"""
PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "{name}"
version = "0.2.0"
dependencies = [{dependencies}]
"""
BACKEND = '''\
"""Builds a wheel and a source distribution without any library."""
import io, pathlib, tarfile, zipfile
NAME = "{name}"
METADATA = (
    f"Metadata-Version: 2.4\\nName: {{NAME}}\\nVersion: 0.2.0\\nSummary: A test.\\nAuthor: The testers\\n"
    "Requires-Python: >=3.11\\nLicense-Expression: Apache-2.0\\nDescription-Content-Type: text/markdown\\n\\n"
    + "A long description. " * 10
)

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = f"{{NAME}}-0.2.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        info = f"{{NAME}}-0.2.0.dist-info"
        wheel.writestr(f"{{NAME}}/py.typed", "")
        wheel.writestr(f"{{info}}/LICENSE", "Apache-2.0")
        wheel.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{{info}}/METADATA", METADATA)
        wheel.writestr(f"{{info}}/RECORD", "")
    return name

def build_sdist(folder, config_settings=None):
    name = f"{{NAME}}-0.2.0"
    files = {{"PKG-INFO": METADATA, "LICENSE": "Apache-2.0", "py.typed": ""}}
    files |= {{each: pathlib.Path(each).read_text() for each in ("pyproject.toml", "backend.py")}}
    with tarfile.open(pathlib.Path(folder, f"{{name}}.tar.gz"), "w:gz") as archive:
        for file, text in files.items():
            info = tarfile.TarInfo(f"{{name}}/{{file}}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return f"{{name}}.tar.gz"
'''
needs_build_tools = pytest.mark.skipif(
    not (importlib.util.find_spec("build") and importlib.util.find_spec("twine")),
    reason="build and twine are not installed: `make release` installs them",
)


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.com"]
    done = subprocess.run(["git", *identity, *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Change something")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two distributions at 0.2.0, ready to be released."""
    for variable, value in {"NAME": "T", "EMAIL": "t@example.com"}.items():
        monkeypatch.setenv(f"GIT_COMMITTER_{variable}", value)
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / ".gitignore").write_text("dist/\n__pycache__/\n")
    for name, dependencies in {"demo": "", "demo_cli": '"demo==0.2.0", "click>=8"'}.items():
        folder = tmp_path / "packages" / name
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").write_text(PYPROJECT.format(name=name, dependencies=dependencies))
        (folder / "backend.py").write_text(BACKEND.format(name=name))
    commit(tmp_path)
    return tmp_path


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def refusal(root: Path, capsys: pytest.CaptureFixture[str], version: str = "0.2.0") -> str:
    assert main([version], root) == 1
    assert git(root, "tag", "--list") == ""
    return capsys.readouterr().err.removeprefix("No release: ").strip()


@pytest.mark.parametrize("version", ["", "v0.2.0", "0.2", "0.2.0.dev0"])
def test_an_invalid_version_is_refused(version: str, repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(repository, capsys, version).startswith(f'"{version}" is not a version of a release; write one like')


def test_uncommitted_changes_are_refused(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "new.txt").touch()
    assert refusal(repository, capsys) == "the work tree has changes; commit or remove them:\n?? new.txt"


def test_another_branch_is_refused(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git(repository, "switch", "--quiet", "--create", "feature")
    assert refusal(repository, capsys).startswith('the branch is "feature"; release from main')


def test_a_tag_is_never_moved(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git(repository, "tag", "v0.2.0")
    assert main(["0.2.0"], repository) == 1
    assert "the tag v0.2.0 exists; choose the next version" in capsys.readouterr().err


def test_every_distribution_has_to_have_the_version(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replace(repository / "packages/demo_cli/pyproject.toml", 'version = "0.2.0"', 'version = "0.1.9"')
    commit(repository)
    assert refusal(repository, capsys) == 'demo_cli: version is "0.1.9"; set it to "0.2.0" in its pyproject.toml'


def test_distributions_have_to_require_one_another_in_the_version(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(repository / "packages/demo_cli/pyproject.toml", "demo==0.2.0", "demo>=0.1")
    commit(repository)
    assert refusal(repository, capsys) == 'demo_cli: it requires "demo>=0.1"; write "demo==0.2.0"'


def test_a_repository_without_packages_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["0.2.0"], tmp_path) == 1
    assert "no distribution found" in capsys.readouterr().err


@pytest.mark.parametrize("heading", ["## 0.2.0 (2026-11-22)", "## [0.2.0] - 2026-11-22", "## 0.2.0"])
def test_the_section_of_the_changelog_is_found_under_common_headings(heading: str) -> None:
    changelog = CHANGELOG.replace("## 0.2.0 (2026-11-22)", heading)
    assert changes(changelog, "0.2.0") == "### Added\n- Leader election."


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("## 0.2.0 (2026-11-22)", "## 0.2.1", 'no section "## 0.2.0 (<date>)"'),
        ("### Added\n- Leader election.\n", "", 'no section "## 0.2.0 (<date>)", or an empty one'),
        ("## Unreleased\n", "## Unreleased\n\n- A fix.\n", 'move them to "## 0.2.0"'),
        ("## Unreleased\n", "## 0.3.0\n\n- The future.\n", 'put "## 0.2.0" above it'),
    ],
)
def test_a_changelog_that_is_not_ready_is_refused(old: str, new: str, why: str) -> None:
    with pytest.raises(ReleaseError, match=re.escape(why)):
        changes(CHANGELOG.replace(old, new), "0.2.0")


@needs_build_tools
def test_a_release_is_built_checked_and_tagged_with_its_changes(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["0.2.0"], repository) == 0, capsys.readouterr().err
    names = ["demo-0.2.0-py3-none-any.whl", "demo-0.2.0.tar.gz"]
    names += ["demo_cli-0.2.0-py3-none-any.whl", "demo_cli-0.2.0.tar.gz"]
    assert sorted(file.name for file in (repository / "dist/0.2.0").iterdir()) == names
    message = git(repository, "tag", "--list", "--format=%(contents)", "v0.2.0")
    assert message.strip() == "Kubewright 0.2.0\n\n### Added\n- Leader election."
    assert "twine upload dist/0.2.0/*" in capsys.readouterr().out


@needs_build_tools
def test_a_dry_run_builds_and_creates_no_tag(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(repository / "packages/demo_cli")
    commit(repository)
    assert main(["0.2.0", "--dry-run"], repository) == 0, capsys.readouterr().err
    assert len(list((repository / "dist/0.2.0").iterdir())) == 2
    assert git(repository, "tag", "--list") == ""
    assert "no tag was created" in capsys.readouterr().out


@needs_build_tools
def test_a_build_that_fails_is_shown(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replace(repository / "packages/demo/backend.py", "def build_wheel", "raise OSError('the disk is full')\ndef x")
    commit(repository)
    error = refusal(repository, capsys)
    assert error.startswith("demo could not be built:")
    assert "the disk is full" in error


def write_wheel(folder: Path, *, without: str = "", extra: str = "") -> Path:
    """Return the wheel of the backend above, without one file or field, or with one more file."""
    namespace: dict[str, object] = {}
    exec(BACKEND.format(name="demo"), namespace)  # the backend's own text, as a fixture
    metadata = "\n".join(
        line for line in str(namespace["METADATA"]).splitlines() if not line.startswith(without or "\0")
    )
    names = [name for name in ("demo/py.typed", "demo-0.2.0.dist-info/LICENSE", extra) if name]
    file = folder / "demo-0.2.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr("demo-0.2.0.dist-info/METADATA", metadata)
        for name in names:
            if not name.endswith(without or "\0"):
                wheel.writestr(name, "")
    return file


@pytest.mark.parametrize(
    ("without", "extra", "why"),
    [
        ("Author", "", "the metadata has no author; add `authors`"),
        ("Summary", "", "the metadata has no Summary; add it to the [project] table"),
        ("LICENSE", "", "LICENSE is missing"),
        ("py.typed", "", "py.typed is missing"),
        ("A long", "", "the description is empty or too short"),
        ("", "demo/__pycache__/x.pyc", "demo/__pycache__/x.pyc does not belong in the file"),
    ],
)
def test_a_wheel_that_lacks_something_is_refused(without: str, extra: str, why: str, tmp_path: Path) -> None:
    demo = Distribution(tmp_path, "demo", "0.2.0", ())
    wheel = write_wheel(tmp_path, without=without, extra=extra)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "backend.py").touch()
    subprocess.run([sys.executable, "-c", BACKEND.format(name="demo") + "\nbuild_sdist('.')"], cwd=tmp_path, check=True)
    with pytest.raises(ReleaseError, match=re.escape(f"{wheel.name}: {why}")):
        check_files([demo], [wheel, tmp_path / "demo-0.2.0.tar.gz"])


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    demo = Distribution(tmp_path, "demo", "0.2.0", ())
    with pytest.raises(ReleaseError, match=r"the build has \[\]; expected \['demo-0.2.0-py3-none-any.whl'"):
        check_files([demo], [])
