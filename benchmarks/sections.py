"""The parts of a run, by name: `python -m benchmarks --only <name>`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks import apiservers, cache, conversion, growth, imports, instructions, operators, reviews
from benchmarks.bars import EMBEDDED, REAL
from benchmarks.operators import Load
from benchmarks.peers import (
    CONTROLLER_RUNTIME,
    CONTROLLER_RUNTIME_16,
    KOPF,
    KUBE_RS,
    KUBEWRIGHT,
    KUBEWRIGHT_ONE_PASS,
    Peer,
)
from benchmarks.peers.build import NAMES
from benchmarks.report import Figure, Measured
from benchmarks.workloads import WORKLOADS

INSTRUCTIONS: Final = "instructions"


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run."""

    objects: int
    """Objects per operator."""
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
    operator: str = "widgets"
    """The name of the workload."""
    kilobytes: int = 0
    """The size of an object's message."""
    at_once: int = 16
    """Objects that users write at a time."""

    @property
    def load(self) -> Load:
        """What an operator has to do."""
        return Load(WORKLOADS[self.operator], self.objects, self.kilobytes, self.at_once)


@dataclass(frozen=True)
class Section:
    """A part of a run."""

    title: str
    measure: Callable[[Sequence[Peer], Sizes], Awaitable[Measured]]
    figures: Callable[[Sizes], Sequence[Figure]]
    yardstick: str = CONTROLLER_RUNTIME
    without: frozenset[str] = frozenset()
    """Toolkits that this part does not measure."""


SECTIONS: Final[dict[str, Section]] = {
    "operators": Section(
        "The same operator in each toolkit, on a real control plane",
        lambda peers, sizes: operators.measure(peers, sizes.load, sizes.repetitions),
        lambda _: operators.FIGURES,
    ),
    "growth": Section(
        "The same operators with ten times the objects",
        lambda peers, sizes: growth.measure(peers, sizes.load),
        lambda _: growth.FIGURES,
        without=frozenset({KUBEWRIGHT_ONE_PASS}),
    ),
    "cache": Section(
        "Pods in a cache",
        lambda peers, sizes: cache.measure("pods", peers, sizes.pods, sizes.repetitions),
        lambda sizes: cache.figures("pods", sizes.pods),
        without=frozenset({KUBEWRIGHT_ONE_PASS}),
    ),
    "scale": Section(
        "Many Pods in a cache (without Kopf, which would need minutes)",
        lambda peers, sizes: cache.measure("many", peers, sizes.many, sizes.repetitions),
        lambda sizes: cache.figures("many", sizes.many),
        without=frozenset({KOPF, KUBEWRIGHT_ONE_PASS}),
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
        without=frozenset({CONTROLLER_RUNTIME_16, KUBE_RS, KOPF, KUBEWRIGHT_ONE_PASS}),
    ),
    INSTRUCTIONS: Section(
        "Instructions of Kubewright, counted by valgrind",
        lambda peers, _: instructions.measure(peers),
        lambda _: instructions.FIGURES,
        yardstick=KUBEWRIGHT,
        without=frozenset({CONTROLLER_RUNTIME, CONTROLLER_RUNTIME_16, KUBE_RS, KOPF}),
    ),
    "imports": Section(
        "Imports of an operator",
        lambda _, sizes: imports.measure(sizes.repetitions),
        lambda _: imports.FIGURES,
        without=frozenset(NAMES),
    ),
}
