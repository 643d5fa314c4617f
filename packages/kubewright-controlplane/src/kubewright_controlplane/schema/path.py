"""Places in a document, kept so that a walk pays next to nothing for them: a chain from the inside out.

A link is the field's name, the list's index, or a map's key as a tuple of one.
"""

from __future__ import annotations

from typing import TypeAlias

Link: TypeAlias = str | int | tuple[str]
Path: TypeAlias = "tuple[Path, Link] | None"


def links(path: Path) -> list[Link]:
    """The links from the outside in."""
    found: list[Link] = []
    while path is not None:
        path, link = path
        found.append(link)
    found.reverse()
    return found


def dotted(path: Path) -> str:
    """As OpenAPI validation writes it, map keys like fields: `spec.labels.app`, `spec.ports[0]`."""
    text = ""
    for link in links(path):
        if isinstance(link, int):
            text += f"[{link}]"
        else:
            text += f".{link if isinstance(link, str) else link[0]}"
    return text.removeprefix(".")


def bracketed(path: Path) -> str:
    """As field.Path writes it, map keys in brackets: `spec.labels[app]`, `spec.ports[0]`."""
    text = ""
    for link in links(path):
        text += f".{link}" if isinstance(link, str) else f"[{link if isinstance(link, int) else link[0]}]"
    return text.removeprefix(".")
