"""How many replicas each ReplicaSet of a Deployment gets next."""

from __future__ import annotations

import pytest

from kubewright_controlplane.controllers.deployment import replicasets, rollout

from .objects import NOW, deployment, replica_set


def sizes(found: rollout.Sizes) -> dict[str, int]:
    return found.by_name


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "most", "least"),
    [
        (10, "25%", "25%", 13, 8),
        (1, "25%", "25%", 2, 1),
        (4, 1, 0, 5, 4),
        (3, 0, "10%", 3, 2),
        (0, "25%", "25%", 0, 0),
        (2, 0, 5, 2, 0),
    ],
)
def test_bounds_round_surge_up_and_unavailable_down_and_leave_room(
    replicas: int, surge: int | str, unavailable: int | str, most: int, least: int
) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    bounds = rollout.Bounds.of(deployment(replicas, strategy=strategy))
    assert (bounds.most, bounds.least_available) == (most, least)


def test_a_new_set_starts_as_large_as_the_surge_allows() -> None:
    assert rollout.size_at_birth(deployment(10), [replica_set("old", 10)]) == 3
    assert rollout.size_at_birth(deployment(10), []) == 10


def test_a_rolling_update_grows_the_new_set_before_it_shrinks_old_ones() -> None:
    step = rollout.roll(deployment(10), replica_set("new", 0, age=1), [replica_set("old", 10, age=9)])
    assert sizes(step) == {"old": 10, "new": 3}


def test_old_sets_shrink_by_what_the_new_one_has_available() -> None:
    step = rollout.roll(deployment(10), replica_set("new", 3, available=0), [replica_set("old", 10, age=9)])
    assert sizes(step) == {"old": 8, "new": 3}
    step = rollout.roll(deployment(10), replica_set("new", 5, available=3), [replica_set("old", 8, age=9)])
    assert sizes(step) == {"old": 5, "new": 5}


def test_unavailable_pods_are_removed_first_from_the_oldest_set() -> None:
    olds = [replica_set("sick", 4, available=0, age=9), replica_set("well", 6, age=5)]
    step = rollout.roll(deployment(10), replica_set("new", 3, available=3), olds)
    assert sizes(step) == {"sick": 0, "well": 5, "new": 3}


def test_a_rollout_ends_with_the_new_set_alone() -> None:
    new, old = replica_set("new", 0, available=0), replica_set("old", 10, age=9)
    for _ in range(20):
        step = rollout.roll(deployment(10), new, [old])
        for each in (new, old):
            assert sum(step.by_name.values()) <= 13
            each.spec.replicas = step.of(each)
            each.status.replicas = each.status.available_replicas = step.of(each)
        assert rollout.available([new, old]) >= 8
    assert (new.spec.replicas, old.spec.replicas) == (10, 0)


def test_a_recreate_waits_until_the_last_old_pod_has_stopped() -> None:
    recreating = deployment(2, strategy={"type": "Recreate"})
    new = replica_set("new", 0)
    assert sizes(rollout.roll(recreating, new, [replica_set("old", 2)])) == {"old": 0, "new": 0}
    stopping = replica_set("old", 0, terminatingReplicas=1)
    assert sizes(rollout.roll(recreating, new, [stopping])) == {"old": 0, "new": 0}
    assert sizes(rollout.roll(recreating, new, [replica_set("old", 0)])) == {"old": 0, "new": 2}


def test_scaling_during_a_rollout_keeps_the_proportions() -> None:
    new, old = replica_set("new", 5, age=1), replica_set("old", 8, age=9)
    assert rollout.is_scaling(deployment(20), [new, old])
    assert sizes(rollout.scale(deployment(20), new, [old])) == {"old": 15, "new": 10}
    assert sizes(rollout.scale(deployment(5), new, [old])) == {"old": 4, "new": 3}


def test_scaling_ends_when_every_set_has_recorded_it() -> None:
    """A set whose size does not change is written too, or scaling would never end."""
    new, old = replica_set("new", 1, age=1), replica_set("old", 10, age=9)
    larger = deployment(11, strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})
    changes = rollout.scale(larger, new, [old]).changes
    assert {each.metadata.name for each, _ in changes} == {"new", "old"}


def test_the_only_active_set_gets_all_replicas() -> None:
    assert sizes(rollout.scale(deployment(4), replica_set("new", 10), [replica_set("old", 0)])) == {"old": 0, "new": 4}


def test_the_name_of_a_replica_set_depends_on_the_template_alone() -> None:
    first = replicasets.template_hash(deployment(1).spec.template, 0)
    assert first == replicasets.template_hash(deployment(9).spec.template, 0)
    assert first != replicasets.template_hash(deployment(1).spec.template, 1)
    other = deployment(1)
    other.spec.template.spec.containers[0].image = "nginx:2"
    assert first != replicasets.template_hash(other.spec.template, 0)


def test_the_replica_set_of_a_template_is_found_again() -> None:
    made = replicasets.build(deployment(3), [], 1)
    made.metadata.creation_timestamp = NOW
    assert replicasets.new_of(deployment(3), [made]) is made
    assert made.spec.replicas == 3
    assert made.metadata.labels["pod-template-hash"] == made.metadata.name.removeprefix("web-")


def test_a_restored_revision_keeps_its_history() -> None:
    back = replicasets.annotations_for(deployment(3), {replicasets.REVISION: "1"}, 3)
    assert (back[replicasets.REVISION], back[replicasets.REVISION_HISTORY]) == ("3", "1")
    again = replicasets.annotations_for(deployment(3), back, 5)
    assert again[replicasets.REVISION_HISTORY] == "1,3"


def test_the_last_applied_annotation_is_not_copied_to_replica_sets() -> None:
    marked = deployment(3, annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "a"})
    copied = replicasets.annotations_for(marked, {}, 1)
    assert copied["team"] == "a"
    assert "kubectl.kubernetes.io/last-applied-configuration" not in copied


def test_only_empty_sets_beyond_the_history_limit_are_surplus() -> None:
    olds = [replica_set(name, size) for name, size in (("a", 0), ("b", 2), ("c", 0))]
    for revision, each in enumerate(olds, 1):
        each.metadata.annotations[replicasets.REVISION] = str(revision)
    surplus = replicasets.surplus(deployment(3, revisionHistoryLimit=1), olds)
    assert [each.metadata.name for each in surplus] == ["a", "c"]
    assert not replicasets.surplus(deployment(3, revisionHistoryLimit=3), olds)
