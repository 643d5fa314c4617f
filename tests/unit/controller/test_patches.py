"""A change of a status applies to the stored status, even if parts of it are absent."""

from __future__ import annotations

import msgspec
import pytest

from kubewright import CustomResource, Model, field
from kubewright.controllers._context import status_patch
from kubewright.machinery.json import JSONObject
from kubewright.machinery.patch import json_patch
from kubewright.models._values import encode


class Counts(Model):
    seen: int = 0
    by_name: dict[str, int] = {}  # noqa: RUF012
    """Names may have any characters."""


class LampStatus(Model):
    lit: bool = False
    phase: str | None = None
    counts: Counts = field(default_factory=Counts)


class Lamp(CustomResource, group="test.example.com", version="v1"):
    status: LampStatus = field(default_factory=LampStatus)


class Candle(CustomResource, group="test.example.com", version="v1"):
    status: LampStatus | None = None


def patched(kind: type[Lamp | Candle], stored: JSONObject, wanted: LampStatus) -> LampStatus | None:
    """Return the stored status after a reconciler has read `stored` and changed it to `wanted`."""
    read = msgspec.convert(stored, kind).status
    changed = json_patch(stored, status_patch(kind, encode(read), encode(wanted)))
    return msgspec.convert(changed, kind).status


@pytest.mark.parametrize("kind", [Lamp, Candle])
@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"status": {}},
        {"status": {"lit": False}},
        {"status": {"phase": "On"}},
        {"status": {"counts": {"byName": {"a/b": 1}}}},
        {"status": {"lit": True, "phase": "On", "counts": {"seen": 1}}},
    ],
    ids=["none", "empty", "a default", "a part", "a nested part", "all"],
)
@pytest.mark.parametrize(
    "wanted",
    [
        LampStatus(),
        LampStatus(lit=True),
        LampStatus(phase="Off", counts=Counts(seen=3)),
        LampStatus(counts=Counts(by_name={"a/b": 1, "~": 2})),
    ],
)
def test_the_patch_turns_the_old_status_into_the_new_one(
    kind: type[Lamp | Candle], stored: JSONObject, wanted: LampStatus
) -> None:
    assert patched(kind, stored, wanted) == wanted


def test_fields_that_other_writers_changed_stay() -> None:
    read = encode(LampStatus(lit=True))
    changes = status_patch(Lamp, read, encode(LampStatus(lit=True, phase="On")))
    now = {"status": {"lit": True, "counts": {"seen": 7}}}
    assert json_patch(now, changes) == {"status": {"lit": True, "phase": "On", "counts": {"seen": 7}}}
