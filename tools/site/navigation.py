"""The navigation: the sections and pages of docs/README.md, in its order, under its names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, TypeAlias

from tools.site import reference

Entry: TypeAlias = "str | dict[str, str | list[Entry]]"

_PAGE: Final = re.compile(r"^\| *\[([^\]]+)\]\(([^)#]+\.md)\)|^\| *\[([^\]]+)\]\(([^)#]+/)\)")


def entries(index: Path) -> list[Entry]:
    """The entries for the pages that are rows of the tables of `index`.

    A page is where it is named first. The page of the reference is followed by those of its packages.
    """
    seen: set[str] = set()
    found: list[Entry] = [{"Kubewright": "README.md"}, {"The guide": "docs/README.md"}]
    for section in index.read_text().split("\n## ")[1:]:
        title, *lines = section.splitlines()
        rows = [(match[1] or match[3], match[2] or match[4]) for line in lines if (match := _PAGE.match(line))]
        listed: list[Entry] = []
        for name, target in rows:
            path = _path(index, target)
            if path not in seen:
                seen.add(path)
                listed.append({name.replace("`", ""): [path, *_packages()] if path == "docs/api.md" else path})
        if listed:
            found.append({title: listed})
    return found


def _packages() -> list[Entry]:
    return [{each.removeprefix("kubewright."): f"docs/api/{each}.md"} for each in reference.PACKAGES]


def _path(index: Path, target: str) -> str:
    root = index.parent.parent
    path = (index.parent / target).resolve()
    return str((path / "README.md" if path.is_dir() else path).relative_to(root))
