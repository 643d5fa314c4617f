"""Named string formats. Follows k8s.io/apiserver/pkg/cel/library/format.go."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from kubewright.cel.functions import Function, library
from kubewright.cel.values import NONE, Optional
from kubewright.machinery import names
from kubewright.machinery.formats import format_check

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Format:
    CEL_TYPE: ClassVar[str] = "kubernetes.NamedFormat"
    name: str
    errors: Callable[[str], list[str]]


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda text: check(names.masked_prefix(text))


def _checked(format: str, error: str) -> Callable[[str], list[str]]:
    check = format_check(format)
    return lambda text: [] if check is not None and check(text) else [error]


_FORMATS: Final = {
    each.name: each
    for each in (
        Format("dns1123Label", names.dns1123_label),
        Format("dns1123Subdomain", names.dns1123_subdomain),
        Format("dns1035Label", names.dns1035_label),
        Format("dns1123LabelPrefix", _prefix(names.dns1123_label)),
        Format("dns1123SubdomainPrefix", _prefix(names.dns1123_subdomain)),
        Format("dns1035LabelPrefix", _prefix(names.dns1035_label)),
        Format("qualifiedName", names.qualified_name),
        Format("labelValue", names.label_value),
        Format("uri", _checked("uri", "invalid URI")),
        Format("uuid", lambda text: [] if _UUID.fullmatch(text) else ["does not match the UUID format"]),
        Format("byte", _checked("byte", "invalid base64")),
        Format("date", _checked("date", "invalid date")),
        Format("datetime", _checked("datetime", "invalid datetime")),
    )
}


def _named(name: str) -> Optional:
    return Optional(_FORMATS[name]) if name in _FORMATS else NONE


def _constant(format: Format) -> Callable[[], Format]:
    return lambda: format


def _validate(format: Format, text: str) -> Optional:
    errors = format.errors(text)
    return Optional(errors) if errors else NONE


FUNCTIONS: Final[tuple[Function, ...]] = (
    *library(
        *((f"format.{name}() -> kubernetes.NamedFormat", _constant(format)) for name, format in _FORMATS.items()),
        ("format.named(string) -> optional_type(kubernetes.NamedFormat)", _named),
    ),
    *library(
        ("kubernetes.NamedFormat.validate(string) -> optional_type(list(string))", _validate),
        linear=True,
    ),
)
