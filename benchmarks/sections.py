"""The parts of a run, by name: `python -m benchmarks --only <name>`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks import apiservers, cache, conversion, growth, imports, operators, reviews
from benchmarks.bars import EMBEDDED, REAL
from benchmarks.peers import CONTROLLER_RUNTIME, CONTROLLER_RUNTIME_16, KOPF, KUBE_RS, Peer
from benchmarks.peers.build import NAMES
from benchmarks.report import Figure, Medians


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run."""

    objects: int
    """Widgets per operator."""
    pods: int
    """Pods in the cache of every toolkit."""
    many: int
    """Pods in the caches of toolkits that support so many."""
    requests: int
    """Requests of each type per server."""
    webhook_writes: int
    """Writes through webhooks per server."""
    converted: int
    """Objects in a list that a webhook converts."""
    reviews: int
    """Reviews of each type per webhook server."""
    repetitions: int


@dataclass(frozen=True)
class Section:
    """A part of a run."""

    title: str
    measure: Callable[[Sequence[Peer], Sizes], Awaitable[Medians]]
    figures: Callable[[Sizes], Sequence[Figure]]
    yardstick: str = CONTROLLER_RUNTIME
    without: frozenset[str] = frozenset()
    """Toolkits that this part does not measure."""


SECTIONS: Final[dict[str, Section]] = {
    "operators": Section(
        "The same operator in each toolkit, on a real control plane",
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
        "Many Pods in a cache (without Kopf, which would need minutes)",
        lambda peers, sizes: cache.measure("many", peers, sizes.many, 1),
        lambda sizes: cache.figures("many", sizes.many),
        without=frozenset({KOPF}),
    ),
    "apiservers": Section(
        "The embedded API server and a real one",
        lambda _, sizes: apiservers.measure(sizes.requests, sizes.repetitions),
        lambda _: apiservers.FIGURES,
        yardstick=REAL,
        without=frozenset(NAMES),
    ),
    "webhooks": Section(
        "Admission webhooks of the embedded API server and a real one",
        lambda _, sizes: apiservers.measure_webhooks(sizes.webhook_writes, sizes.repetitions),
        lambda _: apiservers.WEBHOOK_FIGURES,
        yardstick=REAL,
        without=frozenset(NAMES),
    ),
    "data": Section(
        "Objects on disk and in memory, in the embedded API server, and in a real one",
        lambda _, sizes: apiservers.measure_data(sizes.webhook_writes, sizes.repetitions),
        lambda _: apiservers.DATA_FIGURES,
        yardstick=EMBEDDED,
        without=frozenset(NAMES),
    ),
    "conversion": Section(
        "Conversion of a list, by the embedded API server and a real one",
        lambda _, sizes: conversion.measure(sizes.converted, sizes.repetitions),
        lambda sizes: conversion.figures(sizes.converted),
        yardstick=REAL,
        without=frozenset(NAMES),
    ),
    "reviews": Section(
        "Admission reviews by the webhook server of each toolkit",
        lambda peers, sizes: reviews.measure(peers, sizes.reviews, sizes.repetitions),
        lambda _: reviews.FIGURES,
        without=frozenset({CONTROLLER_RUNTIME_16, KUBE_RS, KOPF}),
    ),
    "imports": Section(
        "Imports of an operator",
        lambda _, sizes: imports.measure(sizes.repetitions),
        lambda _: imports.FIGURES,
        without=frozenset(NAMES),
    ),
}
