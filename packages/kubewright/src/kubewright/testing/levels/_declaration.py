"""What an author declares: what no suite can find out from the API of an operator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final, TypeAlias

from kubewright.machinery.json import JSONObject

if TYPE_CHECKING:
    from kubewright.testing.levels._lab import Lab
    from kubewright.testing.levels._operator import Program
    from kubewright_controlplane import Image

Experiment: TypeAlias = "Callable[[Lab], Awaitable[None]]"
"""A coroutine that does something to the operator or its objects, and raises AssertionError if the result is wrong."""

Reading: TypeAlias = "Callable[[Lab], Awaitable[str]]"
"""A coroutine that returns a text, for example data or metrics."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the spec that users make in daily work."""

    kind: str
    """The kind of the sample to change."""
    spec: JSONObject
    """A merge patch of the sample's spec."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """An upgrade of the operand by its custom resource."""

    kind: str
    field: str
    """The field with the version, such as `spec.version` or `spec.image`."""
    old: str
    new: str
    unsupported: str = ""
    """A version that the operator does not support."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """The field with the number of members; by default that of the subresource `scale`."""

    kind: str
    field: str = "spec.replicas"


@dataclass(frozen=True, slots=True)
class Backup:
    """How data gets into an operand, out of it and back.

    The suite calls `write`, `take`, `lose`, `restore` and `read`, in this order. What `read` returns must be what it
    returned after `write`, and after `lose` it must return something else, or fail.
    """

    write: Experiment
    take: Experiment
    lose: Experiment
    restore: Experiment
    read: Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What the suite cannot know of an operator. Everything has a default; a claim without its declaration is missing.

    A claim that is declared and not shown fails.
    """

    program: Program | None = None
    """How the operator runs. Default: the project's Manager."""
    images: Mapping[str, Image] = field(default_factory=dict[str, "Image"])
    """Images of operands that run as processes on this machine, for an embedded control plane. Pods of other images are
    simulated. A cluster pulls its images."""
    prepare: Experiment | None = None
    """Creates what the samples need, before they are created."""
    ready: Mapping[str, str] = field(default_factory=dict[str, str])
    """The condition that says whether an object is ready, by kind. Default: the condition in the printer columns of
    the kind, else the first of Ready, Available, Succeeded, Complete, Healthy and Synced."""
    changes: Sequence[Change] = ()
    """Changes of the spec. Default: one more replica, if the kind has the subresource `scale`."""
    load: Experiment | None = None
    """Uses the operand once, as a client does. It is called repeatedly during changes; if it fails, there is an
    outage."""
    upgrade: Upgrade | None = None
    scaling: Scaling | None = None
    previous: Program | None = None
    """The previous release of the operator."""
    backup: Backup | None = None
    health_metric: str = ""
    """The metric with the health of each object: 1 if it is ready, else 0."""
    operand_metrics: Reading | None = None
    """Returns the metrics of an operand, in the text format of Prometheus."""
    dashboards: Sequence[str] = ()
    """Files of Grafana dashboards, as patterns relative to the project."""
    scales: Experiment | None = None
    heals: Experiment | None = None
    tunes: Experiment | None = None
    detects: Experiment | None = None
    timeout: float = 60.0
    """Seconds until an object must be ready."""
    quiet: float = 1.0
    """Seconds without a write after which the operator has finished its work."""

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            value: object = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"Declaration.{name}: must be {_example(kind)}, got {value!r}")
        for name in ("changes", "dashboards"):
            if isinstance(getattr(self, name), str | Change):
                raise TypeError(f"Declaration.{name}: must be a list, got {getattr(self, name)!r}; put it in [ ]")
        wrong: list[object] = [each for each in self.changes if type(each) is not Change]
        if wrong:
            raise TypeError(f"Declaration.changes: must be a list of {_example(Change)}, got {wrong[0]!r}")
        for name in _EXPERIMENTS:
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise TypeError(f"Declaration.{name}: must be an async function, got {value!r}")


_KINDS: Final[Mapping[str, type]] = {"upgrade": Upgrade, "scaling": Scaling, "backup": Backup}
_EXPERIMENTS: Final = ("prepare", "load", "operand_metrics", "scales", "heals", "tunes", "detects")


def _example(kind: type) -> str:
    """Return how an object of the kind is written: `Scaling(kind, field)`."""
    return f"{kind.__name__}({', '.join(each.name for each in fields(kind))})"
