"""Checks, builds and tags a release; everything but the upload. RELEASE.md describes the steps.

release.py VERSION [--dry-run]

A dry run checks and builds, and creates no tag.
"""

from __future__ import annotations

import argparse
import email.parser
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
BRANCH: Final = "main"
VERSION: Final = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
REQUIRED_METADATA: Final = ("Summary", "Requires-Python", "License-Expression", "Description-Content-Type")


class ReleaseError(Exception):
    """The release is not possible; the message says what to do."""


@dataclass(frozen=True)
class Distribution:
    """One of the projects in `packages/`."""

    folder: Path
    name: str
    version: str
    requirements: tuple[str, ...]

    @property
    def stem(self) -> str:
        """The start of the names of its files."""
        return f"{re.sub(r'[-_.]+', '_', self.name).lower()}-{self.version}"


def distributions(root: Path) -> list[Distribution]:
    """Return the distributions of a repository. Raises ReleaseError when there are none."""
    found = [_distribution(file) for file in sorted(root.glob("packages/*/pyproject.toml"))]
    if not found:
        raise ReleaseError("packages/*/pyproject.toml: no distribution found; run this in the repository")
    return found


def _distribution(file: Path) -> Distribution:
    project: dict[str, Any] = tomllib.loads(file.read_text())["project"]
    extras: dict[str, list[str]] = project.get("optional-dependencies", {})
    requirements = [*project.get("dependencies", []), *(each for extra in extras.values() for each in extra)]
    return Distribution(file.parent, project["name"], project["version"], tuple(requirements))


def check_version(version: str) -> None:
    if not VERSION.fullmatch(version):
        raise ReleaseError(f'"{version}" is not a version of a release; write one like 0.2.0 or 0.2.0rc1')


def check_repository(root: Path, version: str) -> None:
    """Check the branch, the work tree and the tag."""
    branch = _git(root, "branch", "--show-current")
    if branch != BRANCH:
        raise ReleaseError(f'the branch is "{branch}"; release from {BRANCH}: git switch {BRANCH}')
    if changes := _git(root, "status", "--porcelain"):
        raise ReleaseError(f"the work tree has changes; commit or remove them:\n{changes}")
    if _git(root, "tag", "--list", f"v{version}"):
        raise ReleaseError(f"the tag v{version} exists; choose the next version")


def check_versions(found: Sequence[Distribution], version: str) -> None:
    """That all distributions have one version and require one another in it."""
    names = {each.name for each in found}
    for each in found:
        if each.version != version:
            raise ReleaseError(f'{each.name}: version is "{each.version}"; set it to "{version}" in its pyproject.toml')
        for requirement in each.requirements:
            match = re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(.*)", requirement)
            name, constraint = (match[1], match[2]) if match else ("", "")
            if name in names - {each.name} and constraint != f"=={version}":
                raise ReleaseError(f'{each.name}: it requires "{requirement}"; write "{name}=={version}"')


def changes(changelog: str, version: str) -> str:
    """Return the changelog's section for a version. Raises ReleaseError when it is missing or not the newest."""
    sections = {_title(each): each.partition("\n")[2].strip() for each in re.split(r"^## ", changelog, flags=re.M)[1:]}
    if not sections.get(version):
        raise ReleaseError(
            f'CHANGELOG.md has no section "## {version} (<date>)", or an empty one; describe what changed'
        )
    if sections.get("Unreleased"):
        raise ReleaseError(f'CHANGELOG.md lists changes under "## Unreleased"; move them to "## {version}"')
    newest = next(title for title in sections if title != "Unreleased")
    if newest != version:
        raise ReleaseError(f'CHANGELOG.md begins with "## {newest}"; put "## {version}" above it')
    return sections[version]


def _title(section: str) -> str:
    """Return `0.2.0` for the heading `0.2.0 (2026-11-22)` or `[0.2.0] - 2026-11-22`."""
    words = section.partition("\n")[0].split()
    return words[0].strip("[]") if words else ""


def build(found: Sequence[Distribution], folder: Path) -> list[Path]:
    """Build a source distribution of each, and a wheel from it; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for each in found:
        print(f"Building {each.name} {each.version}", flush=True)
        _run([sys.executable, "-m", "build", "--outdir", folder, each.folder], f"{each.name} could not be built")
    return sorted(folder.iterdir())


def check_files(found: Sequence[Distribution], files: Sequence[Path]) -> None:
    """That each distribution has a wheel and a source distribution, with complete metadata and contents."""
    expected = {name for each in found for name in (f"{each.stem}.tar.gz", f"{each.stem}-py3-none-any.whl")}
    if (built := {file.name for file in files}) != expected:
        raise ReleaseError(f"the build has {sorted(built)}; expected {sorted(expected)}")
    for file in files:
        names, metadata = _contents(file)
        for problem in _problems(names, metadata):
            raise ReleaseError(f"{file.name}: {problem}")


def _contents(file: Path) -> tuple[list[str], Message]:
    """Return the names in a wheel or a source distribution, and its metadata."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            names = wheel.namelist()
            place = next(name for name in names if name.endswith(".dist-info/METADATA"))
            return names, _parsed(wheel.read(place))
    with tarfile.open(file) as archive:
        names = archive.getnames()
        place = f"{names[0].partition('/')[0]}/PKG-INFO"
        member = archive.extractfile(place)
        assert member is not None
        return names, _parsed(member.read())


def _parsed(metadata: bytes) -> Message:
    return email.parser.Parser().parsestr(metadata.decode())


def _problems(names: Sequence[str], metadata: Message) -> Iterator[str]:
    for field in REQUIRED_METADATA:
        if not metadata.get(field):
            yield f"the metadata has no {field}; add it to the [project] table of pyproject.toml"
    if not metadata.get("Author") and not metadata.get("Author-email"):
        yield "the metadata has no author; add `authors` to the [project] table of pyproject.toml"
    if len(str(metadata.get_payload()).strip()) < 100:
        yield "the description is empty or too short; write the README.md of the package"
    last = {name.rpartition("/")[2] for name in names}
    for needed in ("LICENSE", "py.typed"):
        if needed not in last:
            yield f"{needed} is missing; add it to the package"
    for name in names:
        if name.endswith((".pyc", "/.env")):
            yield f"{name} does not belong in the file; exclude it from the build"


def check_with_twine(files: Sequence[Path]) -> None:
    _run([sys.executable, "-m", "twine", "check", "--strict", *files], "twine rejects the files")


def tag(root: Path, version: str, message: str) -> None:
    """Create the annotated tag. Headings of the changelog stay: nothing is taken for a comment."""
    text = f"Kubewright {version}\n\n{message}\n"
    _git(root, "tag", "--annotate", "--cleanup=verbatim", "--message", text, f"v{version}")


def release(root: Path, version: str, *, dry_run: bool) -> None:
    check_version(version)
    found = distributions(root)
    check_repository(root, version)
    check_versions(found, version)
    message = changes((root / "CHANGELOG.md").read_text(), version)
    files = build(found, root / "dist" / version)
    check_files(found, files)
    check_with_twine(files)
    if dry_run:
        print(f"Everything is ready for v{version}; this was a dry run, and no tag was created")
        return
    tag(root, version, message)
    print(f"Tag v{version} created. To publish:\n")
    print(f"    git push origin {BRANCH} v{version}\n    python -m twine upload dist/{version}/*")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    if done.returncode != 0:
        raise ReleaseError(f"git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def _run(command: Sequence[str | Path], failure: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise ReleaseError(f"{failure}:\n{done.stdout.strip()}")


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="release.py", description="Check, build and tag a release.")
    parser.add_argument("version", help="of the release, such as 0.2.0")
    parser.add_argument("--dry-run", action="store_true", help="create no tag")
    options = parser.parse_args(arguments)
    try:
        release(root, options.version, dry_run=options.dry_run)
    except ReleaseError as error:
        print(f"No release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
