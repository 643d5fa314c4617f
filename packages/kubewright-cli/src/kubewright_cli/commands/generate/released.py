"""The CRDs of the last release: from a revision of the project's git repository, or from files."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import click

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.json import JSONObject
from kubewright.models import codec
from kubewright_cli.commands.generate.crds import EXTENSIONS, is_crd, read_folder, read_text

F = TypeVar("F", bound=Callable[..., object])

_FOLDER: Final = "config/crd"
"""The folder with the CRDs, in the project of any revision."""
_TIMEOUT: Final = 60.0
"""Seconds for a command of git."""


def released_option(function: F) -> F:
    """Add `--released`, which is empty if not given."""
    option = click.option(
        "--released",
        metavar="REVISION|PATH",
        default="",
        help="With --check, fail if the CRDs break users of this release: a revision of git, or a file or folder "
        "with its CRDs.  [default: from the settings]",
    )
    return option(function)


def released_crds(root: Path, released: str) -> list[JSONObject]:
    """Return the CRDs of a release. `released` is a file or folder, relative to the current folder or to `root`, or
    else a revision of git, whose CRDs are in `config/crd` of the project.

    Raises ConfigError if there is no such file or revision, or if it has no CRDs.
    """
    path = next((each for each in (Path(released), root / released) if each.exists()), None)
    documents = read_folder(path) if path is not None else _of_revision(root, released)
    crds = [_valid(each, released) for each in documents if is_crd(each)]
    if not crds:
        where = str(path) if path is not None else f"{_FOLDER} of revision {released}"
        raise ConfigError(f"released: no CustomResourceDefinition in {where}; name the release that has the last CRDs")
    return crds


def _valid(crd: JSONObject, released: str) -> JSONObject:
    try:
        codec.from_dict(CustomResourceDefinition, crd)
    except DecodeError as error:
        raise ConfigError(f"released: {released} has an invalid CustomResourceDefinition: {error}") from error
    return crd


def _of_revision(root: Path, revision: str) -> Iterator[JSONObject]:
    if revision.startswith("-"):
        raise ConfigError(f'released: "{revision}" is not a file, a folder or a revision of git')
    _git(root, revision, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    names = _git(root, revision, "ls-tree", "-r", "-z", "--name-only", revision, "--", _FOLDER)
    for name in filter(None, names.split("\0")):
        if name.endswith(EXTENSIONS):
            yield from read_text(_git(root, revision, "show", f"{revision}:./{name}"), f"{revision}:{name}")


def _git(root: Path, revision: str, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=False, timeout=_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        raise ConfigError(f"released: cannot read revision {revision}: {error}") from error
    if done.returncode:
        why = done.stderr.strip().removeprefix("fatal: ") or "git does not know it"
        raise ConfigError(
            f'released: "{revision}" is not a file or folder, nor a revision of git in {root}: {why}. A shallow clone '
            "has no tags: fetch them first (git fetch --tags; fetch-depth: 0 for actions/checkout)"
        )
    return done.stdout
