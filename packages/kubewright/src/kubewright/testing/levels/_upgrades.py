"""Level II: restarts and upgrades of the operator, upgrades of the operand."""

from __future__ import annotations

from kubewright.client import Unstructured
from kubewright.health import conditions_of
from kubewright.machinery.errors import APIError, Invalid
from kubewright.machinery.json import JSONObject, is_object
from kubewright.testing.levels._basic import carry_out, restored
from kubewright.testing.levels._declaration import Upgrade
from kubewright.testing.levels._documents import at, nested
from kubewright.testing.levels._lab import Lab, NotApplicable, NotShown, counted, name_of
from kubewright.testing.levels._recorder import Version


async def restart(lab: Lab) -> str:
    """Kill the operator and start it again, twice: no operand has another version, and all Pods are the same."""
    before: dict[str, Version] = {}
    for _ in range(2):
        await lab.settle()
        before = {each.uid: each for each in lab.operands()}
        await lab.kill()
        await lab.start()
        await lab.settle()
        _check_unchanged(lab, before)
    return f"{counted(len(before), 'managed object')} kept the version over two restarts."


def _check_unchanged(lab: Lab, before: dict[str, Version]) -> None:
    after = {each.uid: each for each in lab.operands()}
    for uid, old in before.items():
        new = after.get(uid)
        assert new is not None, f"{old.name} was deleted"
        if new.revision != old.revision:
            fields = ", ".join(_differences(old.document, new.document)) or "only its version"
            raise AssertionError(f"{old.name} was rewritten: {fields}")
    added = [each.name for uid, each in after.items() if uid not in before]
    assert not added, f"new objects appeared: {', '.join(added)}"
    lab.saw(f"{counted(len(before), 'managed object')} unchanged")


def _differences(old: JSONObject, new: JSONObject, path: str = "") -> list[str]:
    found: list[str] = []
    for key in sorted({*old, *new}):
        left, right = old.get(key), new.get(key)
        where = f"{path}.{key}".lstrip(".")
        if left == right or where in ("metadata.resourceVersion", "metadata.managedFields"):
            continue
        if is_object(left) and is_object(right):
            found += _differences(left, right, where)
        else:
            found.append(where)
    return found


async def catch_up(lab: Lab) -> str:
    """Delete a managed object while the operator is down: it is back after the start."""
    candidates = [each for each in lab.managed() if each.kind not in ("PersistentVolumeClaim", "Pod")]
    victims = [each for each in candidates or lab.managed() if each.kind != "PersistentVolumeClaim"]
    if not victims:
        raise NotApplicable("The operator manages no object that could be lost without its data.")
    victim = victims[0]
    await lab.stop()
    await lab.delete(victim)
    await lab.settle()
    await lab.start()

    def check() -> None:
        back = [each for each in lab.managed() if each.kind == victim.kind and each.uid != victim.uid]
        assert back, f"{victim.name}, deleted while the operator was down, is not back"

    await lab.until(check)
    await lab.until_ready()
    lab.saw("is back", victim.name)
    return f"{victim.name}, deleted while the operator was down, was created again."


async def operator(lab: Lab) -> str:
    """Run the previous release, then this one: no operand is rewritten without need, and all stay ready."""
    previous = lab.declaration.previous
    if previous is None:
        if not lab.operator.upgrades:
            raise NotApplicable("This is the first release: there is nothing to upgrade from.")
        raise NotShown("There is an earlier release, and no way to run it is declared.")
    await lab.stop()
    await lab.start(previous)
    await lab.settle()
    await lab.until_ready()
    before = {each.uid: each for each in lab.operands() if each.kind == "Pod"}
    await lab.stop()
    await lab.start()
    await lab.settle()
    await lab.until_ready()
    after = {each.uid for each in lab.operands()}
    lost = [each.name for uid, each in before.items() if uid not in after]
    assert not lost, f"the new operator restarted {', '.join(lost)}"
    return (
        f"This release took over the objects of the previous one, and replaced none of {counted(len(before), 'Pod')}."
    )


async def operand(lab: Lab) -> str:
    """Set the old version, then the new one: the operand follows, without an outage."""
    upgrade, sample = _upgrade(lab)
    if _value(lab, sample, upgrade) != upgrade.old:
        await carry_out(lab, sample, nested(upgrade.field, upgrade.old))
    await lab.settle()
    lab.facts["upgrade"] = lab.recorder.revision()
    await carry_out(lab, sample, nested(upgrade.field, upgrade.new))
    version = lab.version_of(sample)
    reported = at(version.document, "status.version") if version else None
    if reported is not None:
        assert reported == upgrade.new, f"status.version is {reported}, not {upgrade.new}"
        lab.saw(f"status.version is {reported}", name_of(sample))
    return f"{upgrade.field} went from {upgrade.old} to {upgrade.new}, and the operand followed."


async def unsupported(lab: Lab) -> str:
    """Set a version that the operator does not support: it says so, and the operand runs on."""
    upgrade, sample = _upgrade(lab)
    if not upgrade.unsupported:
        raise NotShown("No unsupported version is declared.")
    await lab.settle()
    before = lab.version_of(sample)
    pods = {each.uid for each in lab.pods()}
    assert before is not None, f"{name_of(sample)} does not exist"
    patch = nested(upgrade.field, upgrade.unsupported)
    lab.did(f"patched it: {patch}", name_of(sample))
    try:
        await lab.patch(sample, patch)
    except (Invalid, APIError) as error:
        lab.saw(f"the API server rejected it: {error}", name_of(sample))
        return f"The version {upgrade.unsupported} is rejected: {error}"
    try:
        await lab.until(lambda: _check_told(lab, sample, upgrade.unsupported))
        await lab.settle()
        lost = pods - {each.uid for each in lab.pods()}
        assert not lost, f"{counted(len(lost), 'Pod')} were replaced for a version that is not supported"
    finally:
        await lab.patch(sample, restored(before.document, patch))
    await lab.until_ready()
    return f"The status reports that {upgrade.unsupported} is not supported, and the operand runs on."


def _check_told(lab: Lab, sample: Unstructured, version: str) -> None:
    now = lab.version_of(sample)
    found = conditions_of(now.document) if now is not None else []
    told = [each for each in found if version in str(each.get("message"))]
    assert told, f"no condition of {name_of(sample)} mentions the unsupported version {version}"
    assert lab.reason_not_ready(sample), f"{name_of(sample)} is ready with the unsupported version {version}"
    lab.saw(f"{told[0].get('type')} is {told[0].get('status')}: {told[0].get('message')}", name_of(sample))


def _upgrade(lab: Lab) -> tuple[Upgrade, Unstructured]:
    upgrade = lab.declaration.upgrade
    if upgrade is None:
        raise NotShown("No upgrade of the operand is declared.")
    return upgrade, lab.sample(upgrade.kind)


def _value(lab: Lab, sample: Unstructured, upgrade: Upgrade) -> object:
    version = lab.version_of(sample)
    return at(version.document, upgrade.field) if version is not None else None
