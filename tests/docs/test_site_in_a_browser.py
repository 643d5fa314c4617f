"""The site in a browser: opened as files, on a phone and on a desktop, without a network."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.browser import CHROMIUM, Browser, browser
from docs.snippets import ROOT

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("site")]
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine: apt-get install chromium")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site."""
    folder = tmp_path_factory.mktemp("build")
    command = [sys.executable, "-m", "tools.site", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def test_the_site_is_built_without_a_warning(site: Path) -> None:
    assert (site / "index.html").is_file()
    assert (site / "docs/api/kubewright.client.html").is_file()


def signature(page: Path, name: str) -> str:
    """Return what a page of the reference shows first for a name."""
    entry = page.read_text().partition(f'id="{name}"')[2]
    shown = re.search(r"<pre>.*?<code>(.*?)</code></pre>", entry, re.S)
    assert shown is not None, f"{page.name} has no {name}"
    return html.unescape(re.sub(r"<[^>]+>", "", shown[1])).strip()


@pytest.mark.parametrize(
    ("page", "name", "said"),
    [
        ("controllers", "BaseContext.attempt", "attempt: int"),
        ("controllers", "BaseContext.events", "events: EventRecorder"),
        ("controllers", "MapFunction", "MapFunction = Callable[[U, Lister[T]], Iterable[Request]]"),
        ("controllers.predicates", "labels_changed", "labels_changed: Predicate"),
        ("manager", "Manager.health_port", "health_port: int"),
        (
            "markers",
            "JSONValue",
            "JSONValue = str | int | float | bool | list[JSONValue] | Mapping[str, JSONValue] | None",
        ),
    ],
)
def test_a_signature_shows_inferred_types(page: str, name: str, said: str, site: Path) -> None:
    module = f"kubewright.{page}"
    assert signature(site / f"docs/api/{module}.html", f"{module}.{name}") == said


def test_a_field_without_a_docstring_is_only_in_the_signature(site: Path) -> None:
    controller, manager = (site / f"docs/api/kubewright.{name}.html" for name in ("controllers", "manager"))
    assert "indexers: Mapping[str, IndexFunction[T]] = {}," in signature(
        controller, "kubewright.controllers.Controller"
    )
    assert 'id="kubewright.controllers.Controller.indexers"' not in controller.read_text()
    assert signature(manager, "kubewright.manager.LeaderElection.retry_period") == "retry_period: Seconds"


def complaints(events: list[dict[str, Any]]) -> list[str]:
    """Return the messages of the browser about a page, and its requests to other hosts."""
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
"""One page of each type, and those with the widest tables and lines."""


@needs_chromium
def test_a_page_fits_a_phone_and_loads_nothing_from_other_hosts(site: Path, page: Browser) -> None:
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
"""The element that separates the search from the styles of the page."""
