"""Sprig's functions, version 3.3.0, and the sets that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubewright.templates._functions import Function, f
from kubewright.templates._sprig import (
    dates,
    encodings,
    lists,
    maps,
    numbers,
    regexes,
    secret,
    texts,
    urls,
    versions,
)

_SAFE: Final[Mapping[str, Function]] = {
    **texts.FUNCTIONS,
    **lists.FUNCTIONS,
    **maps.FUNCTIONS,
    **numbers.FUNCTIONS,
    **dates.FUNCTIONS,
    **encodings.FUNCTIONS,
    **regexes.FUNCTIONS,
    **versions.FUNCTIONS,
    **secret.FUNCTIONS,
    **urls.FUNCTIONS,
}
SPRIG: Final[Mapping[str, Function]] = {**_SAFE, **urls.PATHS, **urls.ENVIRONMENT}
"""All functions of Sprig 3.3.0, with `env` and `expandenv`, which read the environment."""
KUDO: Final[Mapping[str, Function]] = {**_SAFE, "toYaml": f(encodings.to_yaml, "any")}
"""The functions of KUDO: those of Sprig without the environment and paths, and `toYaml`."""
