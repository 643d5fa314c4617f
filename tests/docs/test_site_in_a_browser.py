"""The site as it is read: opened as files, on a phone and at a desk, without a network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.browser import CHROMIUM, Browser, browser
from docs.snippets import ROOT

pytestmark = pytest.mark.xdist_group("site")
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine: apt-get install chromium")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built."""
    folder = tmp_path_factory.mktemp("build")
    command = [sys.executable, "-m", "tools.site", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def test_it_is_built_without_a_warning(site: Path) -> None:
    assert (site / "index.html").is_file()
    assert (site / "docs/api/kubewright.client.html").is_file()


def complaints(events: list[dict[str, Any]]) -> list[str]:
    """What a browser had to say of a page, and what it asked of others for it."""
    found: list[str] = []
    for event in events:
        params = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            url = params["request"]["url"]
            found += [] if url.startswith(("file:", "data:")) else [f"asks for {url}"]
        elif event.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
            found.append(str(params))
    return found


SHOWN = [
    "index", "docs/index", "docs/cli", "docs/types", "docs/recipes/tenants", "docs/concepts/leader-election",
    "docs/api/kubewright.client", "docs/api/kubewright.apis", "docs/api/kubewright.machinery.errors",
    "examples/webserver-operator/index",
]  # fmt: skip
"""One of each sort, and those with the widest tables and lines."""


@needs_chromium
def test_a_page_fits_a_phone_and_asks_nobody_else(site: Path, page: Browser) -> None:
    wrong: dict[str, object] = {}
    for name in SHOWN:
        page.open((site / f"{name}.html").as_uri(), width=390, height=844)
        needed = page.evaluate("document.documentElement.scrollWidth")
        found = complaints(page.events) + ([f"is {needed} wide"] if needed > 390 else [])
        if found:
            wrong[name] = found
    assert wrong == {}


@needs_chromium
def test_search_finds_pages_without_a_server(site: Path, page: Browser) -> None:
    page.open((site / "docs/index.html").as_uri(), width=1400, height=900)
    page.evaluate("document.querySelector('.md-search__button').click()")
    page.until(lambda: page.evaluate(f"{SEARCH}.some(each => each.querySelector('input'))"))
    page.call("Input.insertText", text="fencing")
    page.until(lambda: "Leader election" in page.evaluate(f"{SEARCH}.map(each => each.textContent).join()"))
    assert complaints(page.events) == []


SEARCH = "[...document.querySelectorAll('*')].map(each => each.shadowRoot).filter(each => each)"
"""Where a page keeps its search from its own styles."""
