"""Patterns that cost much: they run on the worker, and have limits."""

from __future__ import annotations

import random
import time
from typing import Any, Final

import pytest

from unit.apiserver.harness import API, CONFIG_MAPS

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GIZMOS: Final = "/apis/example.com/v1/namespaces/default/gizmos"
TEXT: Final = "".join(random.Random(1).choices("ab", k=20_000))


def slow(number: int) -> str:
    """Return a pattern whose automaton has very many states."""
    return f"[ab]*a[ab]{{{900 - number}}}c"


def definition(text: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"text": text}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "gizmos", "kind": "Gizmo"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "gizmos.example.com"}, "spec": spec}


def gizmo(text: str) -> dict[str, Any]:
    document = {"apiVersion": "example.com/v1", "kind": "Gizmo"}
    return document | {"metadata": {"generateName": "a-"}, "spec": {"text": text}}


class Times:
    """The processor time of this thread and of the whole process since it was made."""

    def __init__(self) -> None:
        self._began = time.thread_time(), time.process_time()

    def assert_mostly_on_worker(self) -> None:
        thread, process = time.thread_time() - self._began[0], time.process_time() - self._began[1]
        assert thread < process / 2, f"the event loop needed {thread:.2f} of {process:.2f} seconds"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "allOf": [{"pattern": slow(number)} for number in range(8)]},
        {
            "type": "string",
            "maxLength": 30_000,
            "x-kubernetes-validations": [{"rule": f"!self.matches('{slow(number)}')"} for number in range(8)],
        },
    ],
    ids=["patterns", "rules"],
)
async def test_slow_patterns_do_not_hold_up_other_requests(api: API, schema: dict[str, Any]) -> None:
    await api.ok("POST", DEFINITIONS, definition(schema))
    times = Times()
    await api("POST", GIZMOS, gizmo(TEXT))
    times.assert_mostly_on_worker()


async def test_patterns_that_take_seconds_are_refused(api: API) -> None:
    pattern = "|".join(slow(number) for number in range(20))
    await api.ok("POST", DEFINITIONS, definition({"type": "string", "pattern": pattern}))
    answer = await api.rejected(413, "POST", GIZMOS, gizmo(TEXT * 20))
    assert answer["message"] == "the expressions that apply to the object take too long to evaluate"


async def test_large_patterns_are_compiled_on_the_worker_and_limited(api: API) -> None:
    answer = await api.rejected(422, "POST", DEFINITIONS, definition({"type": "string", "pattern": r"\pL{300}"}))
    assert "error parsing regexp: expression too large" in answer["message"]
    times = Times()
    parts = [{"pattern": rf"\pL{{{number}}}"} for number in range(20, 36)]
    await api.ok("POST", DEFINITIONS, definition({"type": "string", "allOf": parts}))
    times.assert_mostly_on_worker()


async def test_slow_patterns_of_a_policy_are_cancelled(api: API) -> None:
    rules = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    validations = [{"expression": f"!object.data.text.matches('{slow(number)}')"} for number in range(8)]
    spec = {"matchConstraints": {"resourceRules": [rules]}, "validations": validations}
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    await api.ok("POST", f"{policies}ies", {"metadata": {"name": "slow"}, "spec": spec})
    binding = {"policyName": "slow", "validationActions": ["Deny"]}
    await api.ok("POST", f"{policies}ybindings", {"metadata": {"name": "slow"}, "spec": binding})
    answer = await api.rejected(422, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"text": TEXT}})
    assert "operation cancelled: it took more than 50 ms" in answer["message"]


async def test_all_matches_of_a_long_text_are_found_in_linear_time(api: API) -> None:
    rule = "self.findAll('a').size() == size(self)"
    schema = {"type": "string", "maxLength": 100_000, "x-kubernetes-validations": [{"rule": rule}]}
    await api.ok("POST", DEFINITIONS, definition(schema))
    await api.ok("POST", GIZMOS, gizmo("a" * 20_000))
    await api.rejected(422, "POST", GIZMOS, gizmo("ä" * 1_000))
