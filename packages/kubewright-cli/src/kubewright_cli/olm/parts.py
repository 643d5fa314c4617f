"""Parts of documents whose content nobody has checked."""

from __future__ import annotations

from kubewright.machinery.json import JSONObject, is_array, is_object


def mapping(value: object) -> JSONObject:
    """Return an object; an empty one for any other value."""
    return value if is_object(value) else {}


def items(value: object) -> list[JSONObject]:
    """Return the objects in a list; none for any other value."""
    return [each for each in value if is_object(each)] if is_array(value) else []


def text(value: object) -> str:
    """Return a text; an empty one for any other value."""
    return value if isinstance(value, str) else ""
