"""Mistakes in the declaration of plans are found where they are made, and say what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from kubewright import ConfigError
from kubewright.apis.core.v1 import Pod
from kubewright.plans import CEL, Phase, Plan, Plans, Step

One = Plan[Pod]
Part = Phase[Pod]
Piece = Step[Pod]
Many = Plans[Pod]


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: One("Deploy"), 'plan "Deploy": a name must consist of a-z, 0-9 and -'),
        (lambda: One("d", [Part("")]), 'plan "d", phase "": a name must have 1 to 63 characters'),
        (
            lambda: One("d", [Part("a"), Part("a")]),
            'plan "d": two phases have the name "a"; give one of them another',
        ),
        (
            lambda: One("d", [Part("a", [Piece("s"), Piece("s")])]),
            'plan "d", phase "a": two steps have the name "s"; give one of them another name',
        ),
        (
            lambda: One("d", [Part("a", [Piece("s", timeout=0)])]),
            'plan "d", phase "a", step "s": timeout must be positive, got 0 s',
        ),
        (
            lambda: One("d", [Part("a", [Piece("s", retries=-1)])]),
            'plan "d", phase "a", step "s": retries must not be negative, got -1',
        ),
        (lambda: Many(One("d"), One("d")), 'Plans: two plans have the name "d"; give one of them another name'),
        (lambda: Many(One("d")).finalizer("example.com/f"), "there is no cleanup plan; write Plans(..., cleanup="),
        (lambda: CEL("object.spec =="), "CEL('object.spec =='): ERROR"),
        (lambda: CEL("size('a')"), "CEL(\"size('a')\"): a gate is true or false, but this expression is of type int"),
    ],
)
def test_a_mistake_is_refused(declare: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        declare()
