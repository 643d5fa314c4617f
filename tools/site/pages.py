"""The pages of the site: the Markdown of the repository in the same folders, so that links work unchanged.

A link to a folder leads to its README. Linked files, and linked folders without a README, are also on the site.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tools.site import files
from tools.site.reference import Reference

PATTERNS: Final = ("*.md", "docs/**/*.md", "designs/*.md", "benchmarks/*.md", "examples/**/*.md")
_LINK: Final = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?\)")
_PICTURE: Final = re.compile(r"""<(?:img|source)\b[^>]*?\s(?:src|srcset)=["']([^"'\s]+)["']""")
"""A picture in an HTML element, for light or dark."""
_NAME_OR_LINK: Final = re.compile(r"\[[^\]]*\]\([^)]*\)|``.*?``|`([^`]+)`")
"""A name in backticks (the group), or text that stays unchanged."""
_FENCE: Final = re.compile(r"^ *(```|~~~)")
_ITEM: Final = re.compile(r"^ {0,3}([-*]|\d+\.) ")


class Link(NamedTuple):
    """A link of a page to a file or folder of the repository."""

    page: Path
    target: str

    @property
    def path(self) -> Path:
        return (self.page.parent / self.target).resolve()


def pages(root: Path) -> list[Path]:
    """Return the pages of a repository."""
    found = {page for pattern in PATTERNS for page in root.glob(pattern)}
    return sorted(page for page in found if not any(part.startswith(".") for part in page.relative_to(root).parts))


def links(page: Path) -> Iterator[Link]:
    """Yield the links of `page` to files of the repository, pictures included."""
    prose = _prose(page.read_text())
    targets = [found[2] for found in _LINK.finditer(prose)] + _PICTURE.findall(prose)
    for target in targets:
        if "://" not in target and not target.startswith("mailto:"):
            yield Link(page, target)


def problems(root: Path) -> list[str]:
    """Return links to missing files, or to files that are not on the site."""
    known = set(pages(root))
    return [message for page in sorted(known) for link in links(page) if (message := _problem(link, root, known))]


def write(root: Path, folder: Path, api: Reference) -> None:
    """Write all pages, and the files that they link to, into `folder`.

    The first mention of a name of `api` in backticks on a page becomes a link to the reference.
    """
    known = pages(root)
    for page in known:
        target = folder / page.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_as_read_by_the_generator(page, api))
    for path in {link.path for page in known for link in links(page)}:
        if path.suffix != ".md" and not (path / "README.md").exists():
            files.write(path, root, folder)


def _problem(link: Link, root: Path, known: set[Path]) -> str:
    readme = link.path / "README.md"
    path = readme if readme.exists() else link.path
    where = f"{link.page.relative_to(root)}: the link to {link.target}"
    if not path.exists():
        return f"{where} leads nowhere"
    if path.suffix == ".md" and path not in known:
        return f"{where} leads to a page that is not on the site; tools/site/pages.py says which are"
    return ""


def _as_read_by_the_generator(page: Path, api: Reference) -> str:
    """Return a page with links to pages, and with a blank line before each list, which Python-Markdown requires."""
    out: list[str] = []
    linked: set[str] = set()
    fenced = False
    for line in page.read_text().splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        if not fenced:
            if _ITEM.match(line) and out and out[-1] and not out[-1].startswith(" ") and not _ITEM.match(out[-1]):
                out.append("")
            line = _LINK.sub(lambda found: _to_a_page(found, page), line)
            line = _with_names(line, api, linked)
        out.append(line)
    return "\n".join(out) + "\n"


def _with_names(line: str, api: Reference, linked: set[str]) -> str:
    def link(found: re.Match[str]) -> str:
        path = api.named(found[1]) if found[1] else ""
        if not path or path in linked:
            return found[0]
        linked.add(path)
        return f"[`{found[1]}`][{path}]"

    return line if line.startswith(("#", "    ")) else _NAME_OR_LINK.sub(link, line)


def _to_a_page(found: re.Match[str], page: Path) -> str:
    path = (page.parent / found[2]).resolve()
    if "://" in found[2] or path.suffix == ".md":
        return found[0]
    target = Path(found[2]).parent / files.page_of(path)
    if found[2].rstrip("/").endswith(".."):
        target = Path(found[2]) / "README.md"
    return f"{found[1]}{target.as_posix()}{found[3] or ''})"


def _prose(text: str) -> str:
    """Remove fenced blocks, whose brackets are not links."""
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.S | re.M)
