"""Level V: experiments of the author. The suite checks that each had a cause and an effect of the right sort."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubewright.health import conditions_of
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright.machinery.quantity import Quantity
from kubewright.testing.levels._declaration import Experiment
from kubewright.testing.levels._documents import at, reason_unhealthy
from kubewright.testing.levels._lab import FIELD_MANAGER, Lab, NotShown, name_of
from kubewright.testing.levels._recorder import Version


async def scales(lab: Lab) -> str:
    """Run the experiment: the size of a managed object goes up and down, while no spec is changed."""
    return await _shown(lab, lab.declaration.scales, "scales", _scaled)


def _scaled(lab: Lab, after: int) -> str:
    for (name, what), sizes in _sizes(lab, after).items():
        if max(sizes) > sizes[0] and min(sizes[sizes.index(max(sizes)) :]) < max(sizes):
            lab.saw(f"{what}: {', '.join(map(str, sizes))}", name)
            return f"{what} of {name} went from {sizes[0]} to {max(sizes)}, and down to {sizes[-1]}."
    raise AssertionError(
        "no managed object has more replicas, or requests more CPU or memory, and then fewer; an experiment has to "
        "show both"
    )


def _sizes(lab: Lab, after: int) -> dict[tuple[str, str], list[Quantity]]:
    """Return the sizes of managed objects since a revision, oldest first, by the name of the object and of the size.

    A Pod that is replaced by one with the same name is one member.
    """
    histories = [each for each in lab.recorder.all_objects(after=after) if lab.is_operand(each[-1])]
    before = [old for each in histories if (old := lab.recorder.at(each[-1].uid, after)) is not None]
    later = [version for each in histories for version in each if version.revision > after]
    versions = [*before, *sorted(later, key=lambda each: each.revision)]
    sizes: dict[tuple[str, str], list[Quantity]] = {}
    for version in versions:
        for what, size in _sizes_in(version):
            known = sizes.setdefault((version.name, what), [])
            if known[-1:] != [size]:
                known.append(size)
    return sizes


def _sizes_in(version: Version) -> Iterator[tuple[str, Quantity]]:
    """Yield the number of replicas, and what the containers request."""
    replicas = at(version.document, "spec.replicas")
    if isinstance(replicas, int):
        yield "spec.replicas", Quantity.from_int(replicas)
    found = at(version.document, "spec.containers" if version.kind == "Pod" else "spec.template.spec.containers")
    for container in found if is_array(found) else []:
        requests = at(container, "resources.requests")
        for resource, quantity in requests.items() if is_object(requests) else ():
            yield f"requests.{resource} of the container {container['name']}", Quantity.of(quantity)


async def heals(lab: Lab) -> str:
    """Run the experiment: the operator writes a managed object, and in the end all are healthy."""
    done = await _shown(lab, lab.declaration.heals, "heals", _healed)
    await lab.until_ready()
    return done


def _healed(lab: Lab, after: int) -> str:
    written = [versions[-1] for versions in _changed(lab, after) if _has_other_writer(versions, after)]
    assert written, "the operator wrote no managed object during the experiment, so it repaired nothing"
    sick = [each for each in lab.operands() if reason_unhealthy(each.document)]
    assert not sick, f"{sick[0].name} is not healthy after the experiment: {reason_unhealthy(sick[0].document)}"
    return f"The operator repaired {', '.join(sorted({each.name for each in written}))}."


async def tunes(lab: Lab) -> str:
    """Run the experiment: the operator changes the configuration of a managed object."""
    return await _shown(lab, lab.declaration.tunes, "tunes", _tuned)


def _tuned(lab: Lab, after: int) -> str:
    for versions in _changed(lab, after):
        old = lab.recorder.at(versions[0].uid, after)
        new = versions[-1]
        if old is None or new.deleted or not _has_other_writer(versions, after):
            continue
        changed = [key for key in ("spec", "data") if old.document.get(key) != new.document.get(key)]
        if changed:
            lab.saw(f"the operator changed its {changed[0]}", new.name)
            return f"The operator changed the configuration of {new.name}."
    raise AssertionError("the operator changed the configuration of no managed object during the experiment")


async def detects(lab: Lab) -> str:
    """Run the experiment: a condition or an Event of a sample reports the deviation."""
    return await _shown(lab, lab.declaration.detects, "detects", _detected)


def _detected(lab: Lab, after: int) -> str:
    uids = {each.metadata.uid: name_of(each) for each in lab.samples}
    for versions in lab.recorder.all_objects(after=after):
        newest = versions[-1]
        if newest.kind == "Event" and newest.document.get("type") == "Warning" and _about(newest) in uids:
            lab.saw(f"{newest.document.get('reason')}: {newest.document.get('note')}", newest.name)
            return f"An Event reported the deviation: {newest.document.get('note')}"
        old = lab.recorder.at(newest.uid, after)
        if newest.uid in uids and old is not None:
            news = _judgments(newest) - _judgments(old)
            if news:
                lab.saw(f"conditions: {sorted(news)}", newest.name)
                return f"A condition of {uids[newest.uid]} reported the deviation."
    raise AssertionError("neither a Warning nor a condition of a sample reported anything during the experiment")


def _about(event: Version) -> object:
    return at(event.document, "regarding.uid")


def _judgments(version: Version) -> set[tuple[str, str, str]]:
    """Return the types, values and reasons of the conditions, without their messages."""
    return {(str(e.get("type")), str(e.get("status")), str(e.get("reason"))) for e in conditions_of(version.document)}


async def _shown(lab: Lab, experiment: Experiment | None, name: str, effect: Callable[[Lab, int], str]) -> str:
    """Run an experiment, wait until `effect` finds what it shows since a revision, and return that.

    An operator may take longer than the time after which the namespace counts as quiet.
    """
    after = await _carried_out(lab, experiment, name)
    found = ""

    def check() -> None:
        nonlocal found
        found = effect(lab, after)

    await lab.until(check)
    return found


async def _carried_out(lab: Lab, experiment: Experiment | None, name: str) -> int:
    """Run an experiment, and return the revision before it. Raises AssertionError if it shows nothing on its own."""
    if experiment is None:
        raise NotShown(f"No experiment is declared for `{name}`.")
    await lab.settle()
    after = lab.recorder.revision()
    specs = _specs(lab)
    causes = lab.causes()
    await experiment(lab)
    await lab.settle()
    assert lab.causes() > causes, f"the experiment `{name}` names no cause: call lab.did(...) when it does something"
    changed = [name for name, spec in _specs(lab).items() if spec != specs.get(name)]
    assert not changed, f"the experiment changed the spec of {', '.join(changed)}; the operator has to act on its own"
    return after


def _specs(lab: Lab) -> dict[str, object]:
    versions = (lab.version_of(each) for each in lab.samples)
    return {each.name: each.document.get("spec") for each in versions if each is not None}


def _changed(lab: Lab, after: int) -> Iterator[list[Version]]:
    """Yield the versions since a revision, with the one before, of each changed operand."""
    operands = {each.uid for each in lab.operands()}
    for versions in lab.recorder.all_objects(after=after):
        document = versions[-1].document
        if versions[0].uid in operands and ("spec" in document or document["kind"] == "ConfigMap"):
            before = lab.recorder.at(versions[0].uid, after)
            yield [*([before] if before else []), *(each for each in versions if each.revision > after)]


def _has_other_writer(versions: list[Version], after: int) -> bool:
    """Return whether someone other than the experiment and Kubernetes itself wrote the object after a revision."""
    for old, new in zip([None, *versions], versions, strict=False):
        if new.revision > after and any(not each.startswith(("kube-", FIELD_MANAGER)) for each in writers(old, new)):
            return True
    return False


def writers(old: Version | None, new: Version) -> set[str]:
    """Return the managers of the fields that one write changed, without the status.

    An entry of `metadata.managedFields` has a time in whole seconds, so a manager's second write of the same fields
    within a second leaves it unchanged. Then the newest entries tell.
    """
    before = _entries(old) if old is not None else []
    entries = _entries(new)
    found = [each for each in entries if each not in before]
    if not found and old is not None and _written(old) != _written(new):
        newest = max((str(each.get("time")) for each in entries), default="")
        found = [each for each in entries if str(each.get("time")) == newest]
    return {str(each.get("manager")) for each in found}


def _entries(version: Version) -> list[JSONObject]:
    fields = at(version.document, "metadata.managedFields")
    return [each for each in fields if not each.get("subresource")] if is_array(fields) else []


def _written(version: Version) -> JSONObject:
    """Return what clients write, except for the metadata."""
    return {key: value for key, value in version.document.items() if key not in ("metadata", "status")}
