"""Level III: backups, rolling changes, members that come, go, die and lose their volumes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kubewright.machinery.errors import APIError
from kubewright.machinery.json import JSONObject, is_object
from kubewright.machinery.selectors import Selector
from kubewright.testing.levels._basic import carry_out, scalable
from kubewright.testing.levels._documents import at, available, nested, reason_unhealthy, wanted
from kubewright.testing.levels._lab import Lab, NotApplicable, NotShown, counted, name_of, owners_of
from kubewright.testing.levels._recorder import Version


async def backup(lab: Lab) -> str:
    """Write data, back it up, lose it, restore it and read it; then change the restored object."""
    steps = lab.declaration.backup
    if steps is None:
        raise NotShown("No backup is declared.")
    lab.did("write data")
    await steps.write(lab)
    written = await steps.read(lab)
    assert written, "nothing can be read after data was written; `read` of the declaration returns no data"
    lab.saw(f"read {written!r}")
    lab.did("back up")
    await steps.take(lab)
    lab.did("lose the data")
    await steps.lose(lab)
    left = await _read_or_none(lab)
    assert left != written, "the data is still there after it was lost; `lose` of the declaration destroys nothing"
    lab.saw(f"read {left!r}")
    lab.did("restore")
    await steps.restore(lab)
    restored = await _read_or_none(lab)
    lab.saw(f"read {restored!r}")
    assert restored == written, f"the restored data is {restored!r}, not {written!r}: the backup does not have it"
    await lab.settle()
    await lab.until_ready()
    return "What was written, backed up and lost is there after the restore, and the objects are ready."


async def _read_or_none(lab: Lab) -> str | None:
    steps = lab.declaration.backup
    assert steps is not None
    try:
        return await steps.read(lab)
    except (AssertionError, APIError, OSError) as error:
        lab.saw(f"reading failed: {error}")
        return None


async def rolling(lab: Lab) -> str:
    """In the history of the upgrade, or of a declared change, no more than one member is missing at any time."""
    after = lab.facts.get("upgrade")
    if after is None:
        raise NotShown("No upgrade of the operand was carried out, so no member was replaced.")
    judged: list[str] = []
    for versions in lab.recorder.all_objects(after=after):
        before = lab.recorder.at(versions[0].uid, after)
        if before is None or before.kind not in ("Deployment", "StatefulSet") or wanted(before.document) < 2:
            continue
        fewest = min((available(each.document) for each in versions if each.revision > after), default=0)
        needed = min(wanted(before.document), wanted(versions[-1].document)) - 1
        lab.saw(f"had at least {fewest} of {wanted(before.document)} available Pods", before.name)
        assert fewest >= needed, f"{before.name} had only {fewest} available Pods; at least {needed} are needed"
        judged.append(before.name)
    judged += _rolling_pods(lab, after)
    if not judged:
        raise NotShown("The upgrade concerned no workload with two or more members.")
    return f"During the upgrade, no more than one member of {', '.join(judged)} was missing at a time."


def _rolling_pods(lab: Lab, after: int) -> list[str]:
    """Check the members that the operator creates itself, without a workload; return the names of those replaced."""
    histories = [versions for versions in lab.recorder.all_objects() if versions[-1].kind == "Pod"]
    own = [each for each in histories if not _has_workload(each[-1])]
    ready = [
        each for each in own if (old := lab.recorder.at(each[0].uid, after)) and not reason_unhealthy(old.document)
    ]
    if len(ready) < 2:
        return []
    for moment in sorted(each.revision for versions in own for each in versions if each.revision > after):
        now = [lab.recorder.at(versions[0].uid, moment) for versions in own]
        fewest = sum(each is not None and not reason_unhealthy(each.document) for each in now)
        assert fewest >= len(ready) - 1, f"at revision {moment}, only {fewest} of {len(ready)} Pods were ready"
    return [each[-1].name for each in ready]


def _has_workload(pod: Version) -> bool:
    return any(each["kind"] in ("ReplicaSet", "StatefulSet", "DaemonSet", "Job") for each in owners_of(pod))


async def scale(lab: Lab) -> str:
    """Add a member and remove it again."""
    targets = list(scalable(lab))
    if not targets:
        raise NotShown("No kind has the subresource scale or a field spec.replicas, and no scaling is declared.")
    for kind, path in targets:
        sample = lab.sample(kind)
        await lab.settle()
        current = lab.version_of(sample)
        stated = at(current.document, path) if current is not None else None
        size = stated if isinstance(stated, int) else 1
        pods = len(lab.pods())
        await carry_out(lab, sample, nested(path, size + 1))
        more = len(lab.pods())
        assert more > pods, f"{name_of(sample)}: {path} went from {size} to {size + 1}, but there are still {pods} Pods"
        await carry_out(lab, sample, nested(path, size))
        await lab.until(partial(_check_count, lab, pods))
    return "A member was added and removed: " + ", ".join(f"{path} of {kind}" for kind, path in targets) + "."


def _check_count(lab: Lab, pods: int) -> None:
    assert len(lab.pods()) == pods, f"there are {len(lab.pods())} Pods, not {pods} as before"


async def killed(lab: Lab) -> str:
    """Delete a Pod: another one becomes ready, and so do all samples."""
    await lab.settle()
    victim = _member(lab)
    others = {each.uid for each in lab.pods()}
    await lab.delete(victim)

    def check() -> None:
        new = [each for each in lab.pods() if each.uid not in others and not reason_unhealthy(each.document)]
        assert new, f"{victim.name} was killed, and no other Pod has become ready"

    await lab.until(check)
    await lab.until_ready()
    return f"{victim.name} was killed, and another Pod took its place."


async def outage(lab: Lab) -> str:
    """Delete a Pod while new ones are held back: its sample reports that, and recovers."""
    await lab.settle()
    victim = _member(lab)
    async with lab.pods_on_hold():
        await lab.delete(victim)
        await lab.until(lambda: _check_reports(lab, victim))
    await lab.until_ready()
    return f"The status reported that {victim.name} was missing, and that it was back."


def _check_reports(lab: Lab, victim: Version) -> None:
    reasons = {name_of(each): lab.reason_not_ready(each) for each in lab.samples}
    told = {name: reason for name, reason in reasons.items() if reason}
    assert told, f"every object is still reported as ready, although {victim.name} is missing"
    for name, reason in told.items():
        lab.saw(reason, name)


def _member(lab: Lab) -> Version:
    pods = [each for each in lab.pods() if at(each.document, "status.phase") == "Running" and not _of_job(each)]
    if not pods:
        raise NotApplicable("The operator runs no Pods that stay.")
    return pods[-1]


def _of_job(pod: Version) -> bool:
    return any(each["kind"] == "Job" for each in owners_of(pod))


async def budget(lab: Lab) -> str:
    """Each Pod of a group of two or more is selected by a PodDisruptionBudget."""
    members = [each for each in lab.pods() if not _of_job(each)]
    if not members:
        raise NotApplicable("The operator runs no Pods that stay.")
    budgets = [each for each in lab.operands() if each.kind == "PodDisruptionBudget"]
    for pod in members:
        labels = pod.document["metadata"].get("labels") or {}
        found = [each for each in budgets if _selects(each.document, labels)]
        assert found, f"no PodDisruptionBudget selects {pod.name}"
        lab.saw(f"is protected by {found[0].name}", pod.name)
    return f"PodDisruptionBudgets protect {counted(len(members), 'Pod')}."


def _selects(document: JSONObject, labels: dict[str, str]) -> bool:
    selector = at(document, "spec.selector")
    return is_object(selector) and Selector.from_dict(selector).matches(labels)


async def requests(lab: Lab) -> str:
    """Each container requests CPU and memory, and limits its memory."""
    count = 0
    for pod, container in _containers(lab, also=("initContainers",)):
        stated = container.get("resources") or {}
        for part, resource in (("requests", "cpu"), ("requests", "memory"), ("limits", "memory")):
            present = resource in (stated.get(part) or {})
            assert present, f"the container {container['name']} of {pod.name} has no resources.{part}.{resource}"
        count += 1
    return f"Requests and a limit of memory are set for {counted(count, 'container')}."


async def probes(lab: Lab) -> str:
    """Each container that stays has a liveness and a readiness probe."""
    count = 0
    for pod, container in _containers(lab):
        if _of_job(pod):
            continue
        for probe in ("livenessProbe", "readinessProbe"):
            assert container.get(probe), f"the container {container['name']} of {pod.name} has no {probe}"
        count += 1
    return f"Both probes are set for {counted(count, 'container')}."


def _containers(lab: Lab, also: tuple[str, ...] = ()) -> Iterator[tuple[Version, JSONObject]]:
    pods = lab.pods()
    if not pods:
        raise NotApplicable("The operator runs no Pods of its own.")
    for pod in pods:
        for key in ("containers", *also):
            for container in pod.document["spec"].get(key) or []:
                yield pod, container


async def volume(lab: Lab) -> str:
    """Delete the claim of a member, and the member: both come back, and all samples become ready."""
    await lab.settle()
    claims = {
        each.document["metadata"]["name"]: each for each in lab.operands() if each.kind == "PersistentVolumeClaim"
    }
    if not claims:
        raise NotApplicable("The operator uses no volumes.")
    victim = sorted(claims.values(), key=lambda each: each.name)[-1]
    users = [pod for pod in lab.pods() if victim.document["metadata"]["name"] in _claims_of(pod)]
    await lab.delete(victim)
    for pod in users:
        await lab.delete(pod)

    def check() -> None:
        names = {each.name: each for each in lab.operands()}
        back = names.get(victim.name, victim)
        assert back.uid != victim.uid, f"{victim.name} was lost, and no new claim has replaced it"

    await lab.until(check)
    await lab.until_ready()
    return f"{victim.name} and its {counted(len(users), 'Pod')} were lost, and came back."


def _claims_of(pod: Version) -> set[str]:
    volumes = pod.document["spec"].get("volumes") or []
    return {str(at(each, "persistentVolumeClaim.claimName")) for each in volumes if is_object(each)}
