"""Checks the finished site: every link and anchor exists, and a browser loads nothing from another host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_LOADED: Final = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
"""Elements, and the attribute that makes a browser load something."""

_FETCHED_LINKS: Final = {"stylesheet", "icon", "preconnect", "preload", "dns-prefetch", "modulepreload", "manifest"}


class _Page(HTMLParser):
    """The references of a page, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and _FETCHED_LINKS & set(given.get("rel", "").split()):
            self.loaded.append(given.get("href", ""))
        if tag in _LOADED and _LOADED[tag] in given:
            self.loaded.append(given[_LOADED[tag]])
        if tag == "source" and "srcset" in given:
            self.loaded.append(given["srcset"])
        if "autoref" in tag:
            self.links.append(f"missing:{given.get('identifier', '')}")


def problems(site: Path) -> list[str]:
    """Return the problems of the site in a folder, one line each."""
    found = [problem for page in sorted(site.rglob("*.html")) for problem in _problems(page, site)]
    return found + [problem for sheet in sorted(site.rglob("*.css")) for problem in _fetched(sheet, site)]


def _problems(page: Path, site: Path) -> Iterator[str]:
    name = page.relative_to(site)
    parsed = _read(page)
    for url in parsed.loaded:
        if url.startswith(("http:", "https:", "//")):
            yield f"{name} loads {url}: the site must work offline"
    for url in [*parsed.links, *parsed.loaded]:
        if urlsplit(url).scheme == "missing":
            yield f"{name} refers to {url.partition(':')[2]}, which is not in the reference"
        elif name != Path("404.html") and not urlsplit(url).scheme and not url.startswith("//"):
            yield from _leads_nowhere(url, page, name)


def _fetched(sheet: Path, site: Path) -> Iterator[str]:
    for url in re.findall(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)", sheet.read_text()):
        yield f"{sheet.relative_to(site)} loads {url}: the site must work offline"


def _leads_nowhere(url: str, page: Path, name: Path) -> Iterator[str]:
    parts = urlsplit(url)
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        yield f"{name} links to {url}: there is no such file"
    elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in _read(target).anchors:
        yield f"{name} links to {url}: there is no such anchor"


@cache
def _read(page: Path) -> _Page:
    return _Page(page.read_text())
