"""What can be measured, each by its name: `python -m benchmarks --only <name>`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks import apiservers, cache, growth, imports, operators
from benchmarks.bars import REAL
from benchmarks.peers import CONTROLLER_RUNTIME, KOPF, Peer
from benchmarks.peers.build import NAMES
from benchmarks.report import Figure, Medians


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    objects: int
    """That an operator gets."""
    pods: int
    """In the cache of all tool kits."""
    many: int
    """In the cache of those that can hold so many."""
    requests: int
    """Of each sort that a server gets."""
    repetitions: int


@dataclass(frozen=True)
class Section:
    """One part of the measurements."""

    title: str
    measure: Callable[[Sequence[Peer], Sizes], Awaitable[Medians]]
    figures: Callable[[Sizes], Sequence[Figure]]
    yardstick: str = CONTROLLER_RUNTIME
    without: frozenset[str] = frozenset()
    """Tool kits that are not measured here."""


SECTIONS: Final[dict[str, Section]] = {
    "operators": Section(
        "The same operator in each tool kit, on a real control plane",
        lambda peers, sizes: operators.measure(peers, sizes.objects, sizes.repetitions),
        lambda _: operators.FIGURES,
    ),
    "growth": Section(
        "The same operators with ten times the objects",
        lambda peers, sizes: growth.measure(peers, sizes.objects),
        lambda _: growth.FIGURES,
    ),
    "cache": Section(
        "Pods in a cache",
        lambda peers, sizes: cache.measure("pods", peers, sizes.pods, sizes.repetitions),
        lambda sizes: cache.figures("pods", sizes.pods),
    ),
    "scale": Section(
        "Many Pods in a cache (not in Kopf, for which they take minutes)",
        lambda peers, sizes: cache.measure("many", peers, sizes.many, 1),
        lambda sizes: cache.figures("many", sizes.many),
        without=frozenset({KOPF}),
    ),
    "apiservers": Section(
        "The embedded API server beside a real one",
        lambda _, sizes: apiservers.measure(sizes.requests, sizes.repetitions),
        lambda _: apiservers.FIGURES,
        yardstick=REAL,
        without=frozenset(NAMES),
    ),
    "imports": Section(
        "What an operator imports before it does anything",
        lambda _, sizes: imports.measure(sizes.repetitions),
        lambda _: imports.FIGURES,
        without=frozenset(NAMES),
    ),
}
