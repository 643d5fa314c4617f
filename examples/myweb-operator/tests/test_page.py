"""The page at the node port, as an HTTP client and a browser see it."""

import asyncio
from collections.abc import AsyncIterator
from http.client import HTTPException
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import pytest_asyncio
from kubewright.testing import Cluster, eventually
from kubewright_controlplane import STAND_INS

from chromium import Chromium, needs_chromium
from mywebs import OTHER_PAGE, PAGE, PORT, MyWebs

pytestmark = [pytest.mark.xdist_group(f"node port {PORT}"), pytest.mark.usefixtures("operator", "pods_that_run")]

LOOKS = """<!doctype html>
<title>{title}</title>
<style>body {{ background: {color}; }}</style>
<h1>{title}</h1>
<p id="script">no script has run</p>
<script>document.getElementById("script").textContent = "6 times 7 is " + 6 * 7;</script>
"""


@pytest_asyncio.fixture
async def pods_that_run(cluster: Cluster, kubewright_target: str) -> AsyncIterator[None]:
    if kubewright_target == "kubeconfig":
        pytest.skip("what its Pods run is that cluster's own")
    async with cluster.images(STAND_INS):
        yield


async def test_the_node_port_serves_the_page_of_the_spec(webs: MyWebs) -> None:
    await webs.create()
    await eventually(shows, PAGE)
    await webs.change(pageContentHtml=OTHER_PAGE)
    await webs.completes(page=OTHER_PAGE)
    await eventually(shows, OTHER_PAGE)
    await webs.change(nodePortNumber=PORT + 1)
    await eventually(shows, OTHER_PAGE, PORT + 1)
    await eventually(is_closed, PORT)
    await webs.delete()
    await eventually(is_closed, PORT + 1)


async def test_a_rollout_interrupts_no_request(webs: MyWebs) -> None:
    await webs.create()
    await eventually(shows, PAGE)
    await webs.change(pageContentHtml=OTHER_PAGE)
    seen: str | None = PAGE
    while seen != OTHER_PAGE:
        seen = await asyncio.to_thread(fetch, PORT)
        assert seen in (PAGE, OTHER_PAGE)


@needs_chromium
@pytest.mark.timeout(300)
async def test_a_browser_shows_the_page_its_changes_and_its_new_port(webs: MyWebs, tmp_path: Path) -> None:
    browser = Chromium(tmp_path)
    first, second = (LOOKS.format(title=title, color=color) for title, color in (("First", "gold"), ("Second", "teal")))
    await webs.create(page=first)
    await eventually(shows, first)
    await eventually(browser_shows, browser, PORT, "<h1>First</h1>", "6 times 7 is 42")
    await browser.picture(f"http://127.0.0.1:{PORT}/", tmp_path / "first.png")

    await webs.change(pageContentHtml=second)
    await eventually(shows, second)
    await webs.completes(page=second)
    await eventually(browser_shows, browser, PORT, "<h1>Second</h1>")

    await webs.change(nodePortNumber=PORT + 1)
    await eventually(shows, second, PORT + 1)
    await eventually(is_closed, PORT)
    await eventually(browser_shows, browser, PORT + 1, "<h1>Second</h1>")
    assert "Second" not in await browser.page(f"http://127.0.0.1:{PORT}/")
    await browser.picture(f"http://127.0.0.1:{PORT + 1}/", tmp_path / "second.png")
    assert (tmp_path / "first.png").read_bytes() != (tmp_path / "second.png").read_bytes()


async def browser_shows(browser: Chromium, port: int, *what: str) -> None:
    page = await browser.page(f"http://127.0.0.1:{port}/")
    assert all(each in page for each in what), page


async def shows(page: str, port: int = PORT) -> None:
    assert await now_at(port) == page


async def is_closed(port: int) -> None:
    assert await now_at(port) is None


async def now_at(port: int) -> str | None:
    """Return the result of `fetch`. Raises AssertionError, to be retried, if a connection breaks."""
    try:
        return await asyncio.to_thread(fetch, port)
    except (OSError, HTTPException) as error:
        raise AssertionError(f"node port {port}: {error!r}") from error


def fetch(port: int) -> str | None:
    """Return the page on a node port of this machine; None if nothing listens."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
            return str(answer.read().decode())
    except URLError as error:
        if not isinstance(error.reason, ConnectionRefusedError):
            raise
        return None
