"""What a StatefulSet does next with its pods."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.apis.apps.v1 import StatefulSet
from kubewright.apis.core.v1 import Pod
from kubewright_controlplane.controllers.history import REVISION_HASH
from kubewright_controlplane.controllers.statefulset import identity
from kubewright_controlplane.controllers.statefulset.plan import Members, Plan, Step

from .objects import NOW, pod, stateful_set

OLD, NEW = "web-old", "web-new"


def member(ordinal: int, revision: str = NEW, **fields: Any) -> Pod:
    labels = {"app": "web", REVISION_HASH: revision}
    return pod(f"web-{ordinal}", meta={"labels": labels}, **({"ready": 60} | fields))


def step(of: StatefulSet, *present: Pod) -> Step:
    return Plan(of, Members.of(of, present), NEW, NOW).next()


def names(found: Step) -> list[str]:
    return [each.metadata.name for each in found.delete]


def test_pods_are_created_one_after_the_other() -> None:
    assert step(stateful_set()).create == [0]
    assert step(stateful_set(), member(0)).create == [1]


def test_an_unready_pod_delays_the_pods_after_it() -> None:
    assert step(stateful_set(), member(0, ready=None)) == Step()


def test_min_ready_seconds_delay_the_next_pod() -> None:
    slow = stateful_set(minReadySeconds=30)
    assert step(slow, member(0, ready=10)) == Step()
    assert step(slow, member(0, ready=30)).create == [1]


def test_a_parallel_set_creates_all_pods_at_once() -> None:
    assert step(stateful_set(podManagementPolicy="Parallel")).create == [0, 1, 2]


def test_a_finished_pod_is_deleted_and_replaced() -> None:
    assert names(step(stateful_set(1), member(0, ready=None, status={"phase": "Failed"}))) == ["web-0"]


def test_a_missing_pod_is_created_first() -> None:
    assert step(stateful_set(2), member(0), member(2)).create == [1]


def test_surplus_pods_are_deleted_from_the_highest_ordinal_down() -> None:
    assert names(step(stateful_set(1), member(0), member(1), member(2))) == ["web-2"]
    assert step(stateful_set(1), member(0), member(1), member(2, deleting=True)) == Step()


def test_a_parallel_set_shrinks_at_once() -> None:
    parallel = stateful_set(1, podManagementPolicy="Parallel")
    assert sorted(names(step(parallel, member(0), member(1), member(2)))) == ["web-1", "web-2"]


def test_scaling_down_waits_until_the_remaining_pods_are_available() -> None:
    assert step(stateful_set(1), member(0, ready=None), member(1)) == Step()


def test_an_update_replaces_the_highest_old_pod_and_waits_for_it() -> None:
    old = [member(0, OLD), member(1, OLD)]
    assert names(step(stateful_set(), *old, member(2, OLD))) == ["web-2"]
    assert step(stateful_set(), *old, member(2, NEW, ready=None)) == Step()
    assert names(step(stateful_set(), *old, member(2))) == ["web-1"]


def test_pods_below_the_partition_stay_old() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    held = stateful_set(updateStrategy=strategy)
    assert step(held, member(0, OLD), member(1, OLD), member(2)) == Step()


def test_at_most_max_unavailable_pods_are_replaced_at_a_time() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    found = step(stateful_set(updateStrategy=strategy), *(member(each, OLD) for each in range(3)))
    assert names(found) == ["web-2", "web-1"]


def test_on_delete_leaves_old_pods_alone() -> None:
    assert step(stateful_set(1, updateStrategy={"type": "OnDelete"}), member(0, OLD)) == Step()


def test_ordinals_start_at_the_configured_number() -> None:
    shifted = stateful_set(2, ordinals={"start": 5})
    assert step(shifted).create == [5]
    assert names(step(shifted, member(5), member(6), member(0))) == ["web-0"]


@pytest.mark.parametrize(("name", "ordinal"), [("web-0", 0), ("web-12", 12), ("web-x", None), ("other-1", None)])
def test_the_ordinal_of_a_pod_is_in_its_name(name: str, ordinal: int | None) -> None:
    assert identity.ordinal_of(stateful_set(), pod(name)) == ordinal


def test_a_claim_replaces_the_volume_of_the_template() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    owner = stateful_set(1, volumeClaimTemplates=[claim])
    template = owner.spec.template
    made = identity.build_pod(owner, template, NEW, 0)
    [volume] = made.spec.volumes
    assert volume.persistent_volume_claim is not None
    assert volume.persistent_volume_claim.claim_name == "data-web-0"
    assert not template.spec.volumes
