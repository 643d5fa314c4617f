"""The navigation: the sections and pages of docs/README.md, in its order, under its names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, TypeAlias

from tools.site import reference

Entry: TypeAlias = "str | dict[str, str | list[Entry]]"

_ROW: Final = re.compile(r"^\| *\[([^\]]+)\]\(([^)#]+(?:\.md|/))\)", flags=re.M)
"""The row of a page: its name and its path."""


def entries(index: Path) -> list[Entry]:
    """Return the entries for the pages in the tables of `index`.

    A page appears where it is listed first. The pages of the packages follow the page of the reference, and examples
    that are not listed follow those that are.
    """
    root = index.parent.parent
    examples = {str(page.relative_to(root)): _title(page) for page in sorted(root.glob("examples/*/README.md"))}
    seen: set[str] = set()
    found: list[Entry] = [{"Kubewright": "README.md"}, {"The guide": "docs/README.md"}]
    for section in index.read_text().split("\n## ")[1:]:
        title = section.splitlines()[0]
        named = {_path(root, index.parent / target): name for name, target in _ROW.findall(section)}
        pages = named | {path: name for path, name in examples.items() if title == "Examples" and path not in named}
        listed = [_entry(path, name) for path, name in pages.items() if path not in seen]
        seen |= pages.keys()
        if listed:
            found.append({title: listed})
    return found


def _entry(path: str, name: str) -> Entry:
    packages: list[Entry] = [{each.removeprefix("kubewright."): f"docs/api/{each}.md"} for each in reference.PACKAGES]
    return {name.replace("`", ""): [path, *packages] if path == "docs/api.md" else path}


def _title(page: Path) -> str:
    return page.read_text().partition("\n")[0].removeprefix("# ")


def _path(root: Path, target: Path) -> str:
    path = target.resolve()
    return str((path / "README.md" if path.is_dir() else path).relative_to(root))
