"""The pages of the reference: one for each package, with a table of modules and kinds for the built-in kinds."""

from __future__ import annotations

from pathlib import Path

import griffe
from tools.site import docstrings
from tools.site.reference import Reference


def write(reference: Reference, folder: Path) -> None:
    """Write a page for each package of the reference into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, module in reference.modules.items():
        (folder / f"{name}.md").write_text(_page(reference, name, module))


def _page(reference: Reference, name: str, module: griffe.Module) -> str:
    parts = [f"# {name} {{#{name}}}", _text(reference, module)]
    if name == "kubewright.apis":
        parts.append(_kinds(module))
    else:
        parts.append(_names(reference, name))
    if name != "kubewright":
        parts += [f"::: {reference.path(each)}" for each in reference.pages[name].values()]
    if reference.types[name]:
        parts.append("## Types in signatures")
        parts += [f"::: {each.path}\n    options:\n      heading_level: 3" for each in reference.types[name]]
    return "\n\n".join(each for each in parts if each) + "\n"


def _names(reference: Reference, name: str) -> str:
    """Return a table of the public names, and of the inner modules that have a page."""
    rows = [
        f"| [`{each}`][{reference.path(thing)}] | {_summary(reference, thing)} |"
        for each, thing in _sorted(reference, name)
    ]
    rows += [
        f"| [`{each}`][{each}] | {_summary(reference, module)} |"
        for each, module in reference.modules.items()
        if each.rpartition(".")[0] == name
    ]
    return "\n".join(["| name | description |", "|---|---|", *rows]) if rows else ""


def _sorted(reference: Reference, name: str) -> list[tuple[str, griffe.Object]]:
    things = reference.pages[name].items()
    return sorted(things, key=lambda item: item[0].lower()) if name == "kubewright" else list(things)


def _kinds(module: griffe.Module) -> str:
    """Return a table of group versions and the names of their kinds."""
    rows: list[str] = []
    for _, group in sorted(module.modules.items()):
        for _, version in sorted(group.modules.items()):
            kinds = [f"`{each.name}`" for each in version.classes.values() if _is_kind(each)]
            rows.append(f"| `{version.path}` | {', '.join(kinds)} |")
    return "\n".join(["| module | kinds |", "|---|---|", *rows])


def _is_kind(each: griffe.Class) -> bool:
    return any(str(base) == "Object" for base in each.bases)


def _text(reference: Reference, module: griffe.Module) -> str:
    """Return the docstring of a module without its columns of contents, which the page has as a table."""
    text = module.docstring.value if module.docstring else ""
    paragraphs = [each for each in text.split("\n\n") if not docstrings.is_columns(each.splitlines())]
    return docstrings.markdown("\n\n".join(paragraphs), lambda name: reference.link(name, module))


def _summary(reference: Reference, thing: griffe.Object) -> str:
    """Return the first line of a docstring."""
    text = thing.docstring.value if thing.docstring else ""
    first = text.partition("\n\n")[0].replace("\n", " ")
    return docstrings.prose(first, lambda name: reference.link(name, thing))
