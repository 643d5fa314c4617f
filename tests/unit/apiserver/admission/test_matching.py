"""Which writes the rules of webhooks and policies match."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright_controlplane.apiserver.admission.matching import Candidates, Criteria, equivalents, is_exempt
from kubewright_controlplane.apiserver.registry.model import Attributes, Operation, Resource
from unit.apiserver.harness import API


def write(
    resource: Resource, operation: Operation = "CREATE", subresource: str = "", name: str = "a", **more: Any
) -> Attributes:
    namespace = "default" if resource.namespaced else ""
    return Attributes(operation, resource, namespace, name, subresource=subresource, **more)


def matches(api: API, criteria: Criteria, attributes: Attributes) -> Resource | None:
    resources = api.server.resources
    candidates = Candidates[str](resources)
    candidates.set([(criteria, "hook")])
    return next((found for each in candidates.of(attributes) if (found := each.match(attributes, resources))), None)


def rule(*resources: str, group: str = "*", version: str = "*", operation: str = "*", **more: Any) -> dict[str, Any]:
    return {
        "operations": [operation], "apiGroups": [group], "apiVersions": [version], "resources": list(resources), **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("resources", "subresource", "matched"),
    [
        (["pods"], "", True),
        (["pods"], "status", False),
        (["*"], "", True),
        (["*"], "status", False),
        (["*/*"], "", True),
        (["*/*"], "status", True),
        (["pods/*"], "status", True),
        (["pods/*"], "", True),  # as in a real API server
        (["*/status"], "status", True),
        (["*/status"], "", False),
        (["pods/status"], "status", True),
        (["services", "pods/exec"], "status", False),
    ],
)
async def test_resources_and_subresources(api: API, resources: list[str], subresource: str, matched: bool) -> None:
    pods = api.server.resources.registry("pods").resource
    criteria = Criteria([rule(*resources)], {})
    assert (matches(api, criteria, write(pods, subresource=subresource)) is pods) == matched


@pytest.mark.parametrize(
    ("changed", "matched"),
    [
        ({"apiGroups": ["apps"]}, False),
        ({"apiGroups": [""]}, True),
        ({"apiVersions": ["v2"]}, False),
        ({"operations": ["UPDATE", "DELETE"]}, False),
        ({"operations": ["CREATE"]}, True),
        ({"scope": "Cluster"}, False),
        ({"scope": "Namespaced"}, True),
        ({"resourceNames": ["b"]}, False),
        ({"resourceNames": ["b", "a"]}, True),
    ],
)
async def test_every_part_of_a_rule_must_match(api: API, changed: dict[str, Any], matched: bool) -> None:
    pods = api.server.resources.registry("pods").resource
    criteria = Criteria([{**rule("pods"), **changed}], {"matchPolicy": "Exact"})
    assert (matches(api, criteria, write(pods)) is not None) == matched


async def test_equivalent_resources_come_after_exact_ones_and_in_the_order_of_rules(api: API) -> None:
    resources = api.server.resources
    found = [resources.find("autoscaling", version, "horizontalpodautoscalers") for version in ("v1", "v2")]
    v1, v2 = (each.resource for each in found if each is not None)
    assert equivalents(v2, "", resources) == [v1]
    assert equivalents(v2, "nope", resources) == []
    old = rule("horizontalpodautoscalers", version="v1")
    assert matches(api, Criteria([old], {}), write(v2)) is v1
    assert matches(api, Criteria([old, rule("*", version="v2")], {}), write(v2)) is v2
    assert matches(api, Criteria([old], {"matchPolicy": "Exact"}), write(v2)) is None


async def test_events_of_both_groups_are_equivalent(api: API) -> None:
    events = api.server.resources.find("", "v1", "events")
    assert events is not None
    criteria = Criteria([rule("events", group="events.k8s.io")], {})
    matched = matches(api, criteria, write(events.resource))
    assert matched is not None
    assert matched.group == "events.k8s.io"


async def test_exclusions_come_first(api: API) -> None:
    pods = api.server.resources.registry("pods").resource
    match = {"resourceRules": [rule("*")], "excludeResourceRules": [rule("pods", resourceNames=["kept"])]}
    criteria = Criteria.of_policy(match)
    assert matches(api, criteria, write(pods, name="a")) is pods
    assert matches(api, criteria, write(pods, name="kept")) is None
    assert matches(api, Criteria.of_policy({**match, "excludeResourceRules": [rule("pods")]}), write(pods)) is None


async def test_a_binding_without_rules_matches_everything(api: API) -> None:
    pods = api.server.resources.registry("pods").resource
    assert matches(api, Criteria.of_policy(None), write(pods, subresource="status")) is pods
    assert matches(api, Criteria.of_webhook({}), write(pods)) is None


async def test_configurations_are_exempt(api: API) -> None:
    qualified = "validatingwebhookconfigurations.admissionregistration.k8s.io"
    resource = api.server.resources.registry(qualified).resource
    assert is_exempt(resource)
    assert matches(api, Criteria([rule("*/*")], {}), write(resource)) is None


async def test_selectors_of_objects_look_at_the_new_and_the_old_one(api: API) -> None:
    pods = api.server.resources.registry("pods").resource
    criteria = Criteria([rule("*/*")], {"objectSelector": {"matchLabels": {"a": "b"}}})
    labelled, plain = {"metadata": {"labels": {"a": "b"}}}, {"metadata": {}}
    assert matches(api, criteria, write(pods, object=labelled)) is pods
    assert matches(api, criteria, write(pods, "UPDATE", object=plain, old_object=labelled)) is pods
    assert matches(api, criteria, write(pods, object=plain)) is None
    assert matches(api, criteria, write(pods, "CONNECT", "exec", object={"kind": "PodExecOptions"})) is None
    absent = Criteria(
        [rule("*/*")], {"objectSelector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}}
    )
    assert matches(api, absent, write(pods, "CONNECT", "exec", object={"kind": "PodExecOptions"})) is None


async def test_what_can_match_is_found_again_when_a_kind_is_added(api: API) -> None:
    resources = api.server.resources
    pods = resources.registry("pods").resource
    candidates = Candidates[str](resources)
    assert candidates.of(write(pods)) == ()
    candidates.set([(Criteria([rule("pods")], {}), "hook")])
    (found,) = candidates.of(write(pods))
    assert candidates.of(write(pods)) == (found,)
    assert candidates.of(write(pods))[0] is found
    resources.generation += 1
    assert candidates.of(write(pods))[0] is not found
