"""The extension of mkdocstrings: docstrings as Markdown, with links into the reference, and types."""

from __future__ import annotations

from typing import Any

import griffe
from tools.site import docstrings, names, reference, signatures


class Docstrings(griffe.Extension):
    """Rewrites the docstrings and completes the signatures of everything in the reference."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Load the other distributions with the first one, because docstrings link between them."""
        loaded = loader.modules_collection
        if pkg.path != reference.DISTRIBUTIONS[0]:
            if reference.DISTRIBUTIONS[0] not in loaded.members:
                loader.load(reference.DISTRIBUTIONS[0], submodules=True)
            return
        for name in reference.DISTRIBUTIONS[1:]:
            if name not in loaded.members:
                loader.load(name, submodules=True)
        described = reference.Reference(loaded)
        things = list({thing.path: thing for thing in described.described()}.values())
        texts = [_text(described, thing) for thing in things]  # before any changes, because links depend on them
        for thing, text in zip(things, texts, strict=True):
            thing.labels -= {"class-attribute", "instance-attribute"}
            if thing.docstring is not None:
                thing.docstring.value = text
            if isinstance(thing, griffe.Attribute):
                signatures.complete(thing)
            if isinstance(thing, griffe.Class):
                for name in [name for name, each in thing.members.items() if not _is_shown(each)]:
                    thing.del_member(name)
                signatures.shorten_defaults(thing)


def _is_shown(member: griffe.Object | griffe.Alias) -> bool:
    return isinstance(member, griffe.Alias) or member.name == "__init__" or names.is_shown(member)


def _text(described: reference.Reference, thing: griffe.Object) -> str:
    """Return the docstring of `thing`. The first name of a module is preceded by the docstring of the module."""
    texts = [each.docstring.value for each in described.documented_with(thing) if each.docstring is not None]
    return docstrings.markdown("\n\n".join(texts), lambda name: described.link(name, thing))
