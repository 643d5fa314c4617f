"""Templates of Go, with Sprig's functions: for plans, KUDO packages and charts.

Templates        a set of templates, parsed once and rendered often
TemplateLimits   how much a rendering may take
TemplateError    what is wrong with a template, and where
SPRIG, KUDO      sets of functions: all of Sprig 3.3.0; those that KUDO packages may use
to_yaml          the function `toYaml`, for other sets
Reference        a field that a template reads
Rendering        for functions that render templates, such as Helm's `include` and `tpl`
json_numbers     values as Go's JSON decoder reads them: every number is a float64
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kubewright.machinery.errors import TemplateError
from kubewright.templates._functions import Function
from kubewright.templates._references import Reference
from kubewright.templates._templates import MissingKey, Rendering, TemplateLimits, Templates
from kubewright.templates._values import FunctionError, json_numbers

if TYPE_CHECKING:
    from kubewright.templates._sprig import KUDO as KUDO
    from kubewright.templates._sprig import SPRIG as SPRIG
    from kubewright.templates._sprig.encodings import to_yaml as to_yaml

__all__ = [
    "KUDO",
    "SPRIG",
    "Function",
    "FunctionError",
    "MissingKey",
    "Reference",
    "Rendering",
    "TemplateError",
    "TemplateLimits",
    "Templates",
    "json_numbers",
    "to_yaml",
]


if not TYPE_CHECKING:  # type checkers see only the names above

    def __getattr__(name: str) -> object:
        if name not in ("KUDO", "SPRIG", "to_yaml"):  # templates without Sprig do not load it
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = "encodings" if name == "to_yaml" else ""
        return getattr(importlib.import_module(f"kubewright.templates._sprig.{module}".rstrip(".")), name)
