"""Links, commands and targets on the pages exist. `test_snippets` tests their code."""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from pathlib import Path

import click
import pytest

from docs.snippets import PAGES, ROOT, by_name
from kubewright_cli.main import cli


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_link_to_a_file_and_a_heading_resolves(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
    links = re.findall(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)", prose)
    local = [(page.parent / target if target else page, anchor) for target, anchor in links if "://" not in target]
    assert [target for target, _ in local if not target.exists()] == []
    assert [(target, anchor) for target, anchor in local if anchor and anchor not in anchors(target)] == []


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_make_target_exists(page: Path) -> None:
    """Of this repository, or of a project that `kubewright init` makes."""
    named = set(re.findall(r"(?:^    |`)make ([a-z0-9-]+)", page.read_text(), flags=re.M))
    makefiles = (ROOT / "Makefile", ROOT / "tests/golden/projects/minimal/Makefile")
    known = {target for file in makefiles for target in re.findall(r"^([a-z0-9-]+):", file.read_text(), flags=re.M)}
    assert named - known - {"sure"} == set()


PRESENT = [page for page in PAGES if page.parent.name != "designs"]
"""A design may name commands that do not exist yet."""


@pytest.mark.parametrize("page", PRESENT, ids=by_name)
def test_every_kubewright_command_exists(page: Path) -> None:
    named = set(re.findall(r"(?:^    |`)kubewright ([a-z]+)", page.read_text(), flags=re.M))
    assert named - set(cli.list_commands(click.Context(cli))) == set()


def test_the_page_of_seams_names_modules_and_members_that_exist() -> None:
    named = set(re.findall(r"`((?:[a-z0-9_]+\.)+[A-Za-z0-9_]+)", (ROOT / "designs/0001-seams.md").read_text()))
    roots = (
        "kubewright",
        "kubewright_controlplane",
        "kubewright_controlplane.schema",
        "kubewright_controlplane.apiserver",
    )
    packages = {each.name for root in roots for each in pkgutil.iter_modules(import_module(root).__path__)}
    inside = {name for name in named if name.partition(".")[0] in packages}
    assert len(inside) > 20
    assert {name for name in inside if not any(exists(f"{root}.{name}") for root in roots)} == set()


def exists(name: str) -> bool:
    """Return whether a module, or a member of a module, has this name."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_the_index_names_every_page() -> None:
    index = ROOT / "docs/README.md"
    linked = {(index.parent / target).resolve() for target in re.findall(r"\]\(([^)\s#]+)", index.read_text())}
    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert pages - linked == {index}
