"""Level I: what the bundle and the API say, and whether the samples install, report, wait and change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kubewright._runtime.scratch import scratch_folder
from kubewright.client import Unstructured
from kubewright.health import find_condition, observed_generation
from kubewright.machinery.json import JSONObject, copied, is_array, is_object
from kubewright.testing.levels._documents import WORKLOADS, at, available, nested, reason_unhealthy, wanted
from kubewright.testing.levels._lab import Lab, NotApplicable, NotShown, counted, name_of
from kubewright.testing.levels._recorder import Version, first

if TYPE_CHECKING:
    from kubewright_cli.olm.validation import Finding

# ---- the bundle and the API, as operator-sdk's scorecard checks them


async def samples(lab: Lab) -> str:
    """Each owned kind has a sample, and each sample has a spec."""
    shown = {each["kind"] for each in lab.operator.samples}
    missing = [kind for kind in _kinds(lab) if kind not in shown]
    assert not missing, f"there is no sample of {', '.join(missing)}"
    for each in lab.operator.samples:
        assert is_object(each.get("spec")), f"the sample {each['kind']}/{each['metadata']['name']} has no spec"
    return f"All samples have a spec, and there is one of {counted(len(shown), 'kind')}."


async def bundle(lab: Lab) -> str:
    """Validate the bundle by the rules of OLM: there is no error."""
    if lab.operator.bundle is None:
        raise NotShown("The operator has no bundle.")
    findings = _findings(lab.operator.bundle)
    for each in findings:
        lab.saw(f"{each.level}: {each}")
    errors = [each for each in findings if each.level == "error"]
    assert not errors, f"{counted(len(errors), 'error')}, the first: {errors[0]}"
    return f"OLM's rules find no error and {counted(len(findings), 'warning')}."


def _findings(bundle: Path | Mapping[str, str]) -> Sequence[Finding]:
    try:
        from kubewright_cli.olm.validation import validate_bundle
    except ModuleNotFoundError as error:
        raise NotShown("Validation needs the package kubewright-cli: pip install 'kubewright[dev]'.") from error
    if isinstance(bundle, Path):
        return validate_bundle(bundle)
    with scratch_folder() as folder:
        for name, text in bundle.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return validate_bundle(folder)


async def schema(lab: Lab) -> str:
    """Each field of the samples is in the schema of its CRD."""
    for each in lab.operator.samples:
        known = _schema(lab, each)
        unknown = list(_unknown({"spec": each.get("spec") or {}}, known, ""))
        assert not unknown, f"{each['kind']}: the schema has no field {', '.join(unknown)}"
    return "All fields of the samples are in the schemas."


async def resources(lab: Lab) -> str:
    """Each owned kind of the bundle names resources."""
    bare = [each["kind"] for each in _owned(lab) if not each.get("resources")]
    assert not bare, f"the bundle names no resources of {', '.join(bare)}"
    return "The bundle names the resources of each kind."


async def descriptors(lab: Lab) -> str:
    """Each top-level field of the samples' spec, and of the observed status, has a descriptor."""
    owned = {(each["kind"], each["version"]): each for each in _owned(lab)}
    for each in _documents(lab):
        described = owned.get((each["kind"], each["apiVersion"].rpartition("/")[2])) or {}
        for part in ("spec", "status"):
            paths = {item["path"].partition(".")[0] for item in described.get(f"{part}Descriptors") or []}
            missing = sorted((each.get(part) or {}).keys() - paths)
            assert not missing, f"{each['kind']}: the bundle does not describe {part}.{', '.join(missing)}"
    return "The bundle describes the fields of each spec and status."


async def documented(lab: Lab) -> str:
    """Each field of the CRDs has a description."""
    bare = [
        f"{crd['spec']['names']['kind']} {path}"
        for crd in lab.operator.crds
        for version in crd["spec"]["versions"]
        if version.get("served")
        for part in ("spec", "status")
        for path in _undescribed(version["schema"]["openAPIV3Schema"].get("properties", {}).get(part) or {}, part)
    ]
    for each in bare:
        lab.saw("has no description", each)
    assert not bare, f"no description: {', '.join(bare[:5])}"
    return "Each field of each served version has a description."


def _kinds(lab: Lab) -> list[str]:
    return [each["spec"]["names"]["kind"] for each in lab.operator.crds]


def _owned(lab: Lab) -> list[JSONObject]:
    csv = lab.operator.service_version
    if csv is None:
        raise NotShown("The operator has no bundle.")
    return [each for each in csv["spec"]["customresourcedefinitions"].get("owned") or [] if is_object(each)]


def _documents(lab: Lab) -> Iterator[JSONObject]:
    """Yield the samples as they are now, with their status; as they were written if they do not exist."""
    if not lab.samples:
        yield from lab.operator.samples
    for each in lab.samples:
        version = lab.version_of(each)
        if version is not None:
            yield version.document


def _schema(lab: Lab, document: JSONObject) -> JSONObject:
    group, _, version = document["apiVersion"].rpartition("/")
    for crd in lab.operator.crds:
        if (crd["spec"]["group"], crd["spec"]["names"]["kind"]) == (group, document["kind"]):
            for each in crd["spec"]["versions"]:
                if each["name"] == version:
                    return dict(each["schema"]["openAPIV3Schema"])
    raise AssertionError(f"no CRD defines the kind {document['kind']} of {document['apiVersion']}")


def _unknown(value: object, known: JSONObject, path: str) -> Iterator[str]:
    if known.get("x-kubernetes-preserve-unknown-fields"):
        return
    if is_object(value):
        properties, others = known.get("properties") or {}, known.get("additionalProperties")
        for key, item in value.items():
            if key in properties:
                yield from _unknown(item, properties[key], f"{path}.{key}")
            elif is_object(others):
                yield from _unknown(item, others, f"{path}.{key}")
            elif not others:
                yield f"{path}.{key}".lstrip(".")
    elif is_array(value):
        for item in value:
            yield from _unknown(item, known.get("items") or {}, f"{path}[]")


def _undescribed(known: JSONObject, path: str) -> Iterator[str]:
    """Yield the fields without a description, down to those whose structure is described as a whole."""
    for name, each in (known.get("properties") or {}).items():
        if not each.get("description"):
            yield f"{path}.{name}"


# ---- installation


async def install(lab: Lab) -> str:
    """Create the samples while Pods are held back, then let these start: all samples become ready."""
    await lab.prepare()
    await lab.start()
    async with lab.pods_on_hold():
        lab.facts["installed"] = lab.recorder.revision()
        for each in lab.operator.samples:
            lab.samples.append(await lab.create(each))
        await lab.settle()
        lab.facts["held"] = lab.recorder.revision()
        lab.saw("; ".join(_states(lab)))
    began = lab.elapsed()
    try:
        await lab.until_ready()
    finally:
        lab.saw("; ".join(_states(lab)))
        lab.facts["ready"] = lab.recorder.revision()
    for operand in lab.operands():
        lab.saw("exists", operand.name)
    waited = lab.elapsed() - began
    return f"{counted(len(lab.samples), 'sample')} became ready {waited:.1f} s after their Pods could start."


def _states(lab: Lab) -> Iterator[str]:
    for each in lab.samples:
        reason = lab.reason_not_ready(each)
        yield f"{name_of(each)}: {reason or 'ready'}"


async def status(lab: Lab) -> str:
    """Each sample has a condition for its current generation."""
    for each in lab.samples:
        version = lab.version_of(each)
        assert version is not None, f"{name_of(each)} does not exist"
        kind = lab.readiness.condition_of(version.document)
        found = find_condition(version.document, kind)
        assert found is not None, f"{name_of(each)} has no condition that says whether it is ready"
        observed = observed_generation(version.document, found)
        assert observed is not None, (
            f"{name_of(each)}: neither the status nor the condition {kind} has an observedGeneration, so nobody can "
            "tell whether it describes the current spec"
        )
        generation = version.document["metadata"]["generation"]
        assert observed == generation, f"{name_of(each)}: observedGeneration is {observed}, not {generation}"
        lab.saw(f"{kind} is {found['status']} for generation {observed}: {found.get('reason')}", version.name)
    return "Each sample reports in a condition whether it is ready, and for which generation."


async def health(lab: Lab) -> str:
    """No sample was ready before a managed object that it owns was healthy."""
    judged = 0
    for sample in lab.samples:
        for operand in _owned_by(lab, sample):
            versions = lab.recorder.history(operand.uid)
            if not any(reason_unhealthy(each.document) for each in versions):
                continue
            judged += 1
            _check_waited(lab, sample, operand, versions)
    if not judged:
        raise NotApplicable("The operator manages nothing that takes time to become healthy.")
    return f"Ready came after the health of {counted(judged, 'managed object')}, in the order of the API server."


def _owned_by(lab: Lab, sample: Unstructured) -> list[Version]:
    """Return the operands that a sample owns directly or indirectly."""
    known = {sample.metadata.uid}
    found: list[Version] = []
    operands = lab.operands()
    while True:
        more = [
            each
            for each in operands
            if each not in found and known & {o["uid"] for o in each.document["metadata"].get("ownerReferences") or []}
        ]
        if not more:
            return found
        found += more
        known |= {each.uid for each in more}


def _check_waited(lab: Lab, sample: Unstructured, operand: Version, versions: list[Version]) -> None:
    """Raise AssertionError if the sample was reported as ready although the operand was not healthy.

    What has Pods could not be healthy while these were held back. Other objects are not healthy until they first are.
    """
    after = versions[0].revision
    healthy = first(versions, lambda each: not reason_unhealthy(each.document))
    until = healthy.revision if healthy is not None else lab.recorder.revision()
    if operand.kind in (*WORKLOADS, "ReplicaSet", "Pod", "Job"):
        after, until = lab.facts["installed"], lab.facts["held"]
    reports = lab.recorder.history(sample.metadata.uid or "", after=after)
    early = [each for each in reports if each.revision < until and not lab.readiness.reason_not_ready(each.document)]
    lab.saw(f"healthy since revision {healthy.revision}" if healthy is not None else "never healthy", operand.name)
    assert not early, (
        f"{name_of(sample)} reported that it was ready before {operand.name} was: "
        f"{reason_unhealthy(versions[0].document)}"
    )


# ---- changes


async def change(lab: Lab) -> str:
    """Change the spec of a sample under load: it is carried out, the status shows it, and nothing is down."""
    changes = [(each.kind, {"spec": each.spec}) for each in lab.declaration.changes] or list(_default_changes(lab))
    if not changes:
        raise NotShown("No change of a spec is known: no kind has a number of replicas, and none is declared.")
    for kind, patch in changes:
        await carry_out(lab, lab.sample(kind), patch)
    return f"{counted(len(changes), 'change')} of a spec led to no outage."


def _default_changes(lab: Lab) -> Iterator[tuple[str, JSONObject]]:
    for kind, path in scalable(lab):
        current = lab.version_of(lab.sample(kind))
        number = at(current.document, path) if current else None
        yield kind, nested(path, (number if isinstance(number, int) else 1) + 1)


def scalable(lab: Lab) -> Iterator[tuple[str, str]]:
    """Yield the kinds with a number of members, and the path of this number: declared, that of the subresource
    `scale`, or `spec.replicas`.
    """
    if lab.declaration.scaling is not None:
        yield lab.declaration.scaling.kind, lab.declaration.scaling.field
        return
    for crd in lab.operator.crds:
        kind = crd["spec"]["names"]["kind"]
        if any(each.__api__.kind == kind for each in lab.samples):
            paths = filter(None, (_replicas_of(each) for each in crd["spec"]["versions"] if each.get("served")))
            yield from ((kind, path) for path in list(paths)[:1])


def _replicas_of(version: JSONObject) -> str:
    path = at(version, "subresources.scale.specReplicasPath")
    if isinstance(path, str):
        return path.strip(".")
    is_integer = at(version, "schema.openAPIV3Schema.properties.spec.properties.replicas.type") == "integer"
    return "spec.replicas" if is_integer else ""


async def carry_out(lab: Lab, sample: Unstructured, patch: JSONObject) -> None:
    """Patch a sample, wait until it is ready again, and check that the change was real and no outage came with it."""
    await lab.settle()
    before = lab.recorder.revision()
    async with lab.under_load() as failures:
        lab.did(f"patched it: {patch}", name_of(sample))
        changed = await lab.patch(sample, patch)
        generation = changed.metadata.generation
        await lab.until(lambda: _check_observed(lab, sample, generation or 0))
        await lab.until_ready()
        await lab.settle()
        await lab.until_ready()
    assert not failures, f"a client could not use the operand during the change: {failures[0]}"
    check_no_outage(lab, before)
    touched = [versions[-1] for versions in lab.recorder.all_objects(after=before)]
    named = sorted({each.name for each in touched if lab.is_other(each)})
    assert named, f"{name_of(sample)}: the change {patch} changed no managed object"
    lab.saw(f"changed: {', '.join(named)}")


def _check_observed(lab: Lab, sample: Unstructured, generation: int) -> None:
    version = lab.version_of(sample)
    assert version is not None, f"{name_of(sample)} does not exist"
    kind = lab.readiness.condition_of(version.document)
    found = find_condition(version.document, kind) or {}
    observed = observed_generation(version.document, found)
    assert observed is None or observed >= generation, (
        f"{name_of(sample)}: the status is still of generation {observed}, the spec of generation {generation}"
    )


def check_no_outage(lab: Lab, after: int) -> None:
    """Raise AssertionError if a workload had no available Pod at some time since a revision."""
    for versions in lab.recorder.all_objects(after=after):
        before = lab.recorder.at(versions[0].uid, after)
        if before is None or before.kind not in WORKLOADS or not available(before.document):
            continue
        for each in versions:
            if each.revision > after and (each.deleted or (wanted(each.document) and not available(each.document))):
                what = "was deleted" if each.deleted else "had no available Pod"
                raise AssertionError(f"{each.name} {what} during the change: an outage")
        lab.saw("had an available Pod at all times", before.name)


# ---- images


async def images(lab: Lab) -> str:
    """Each image of the operands comes from the spec, or is an image that the bundle lists."""
    used = {
        container["image"]: each.name
        for each in lab.pods()
        for key in ("containers", "initContainers")
        for container in each.document["spec"].get(key) or []
    }
    if not used:
        raise NotApplicable("The operator runs no Pods of its own.")
    chosen = set(_texts([each["spec"] for each in _documents(lab) if "spec" in each]))
    listed = _listed_images(lab)
    for image, pod in used.items():
        known = "the spec" if image in chosen else "the related images of the bundle" if image in listed else ""
        lab.saw(f"the image {image} is that of {known or 'neither a spec nor the bundle'}", pod)
    fixed = [each for each in used if each not in chosen | listed]
    assert not fixed, f"the image {fixed[0]} of {used[fixed[0]]} cannot be replaced, and the bundle does not list it"
    return f"Images from a spec or from the related images of the bundle: {', '.join(sorted(used))}."


def _listed_images(lab: Lab) -> set[str]:
    csv = lab.operator.service_version or {}
    related = at(csv, "spec.relatedImages")
    return {each["image"] for each in related if is_object(each)} if is_array(related) else set()


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for each in value.values():
            yield from _texts(each)
    elif is_array(value):
        for each in value:
            yield from _texts(each)


def restored(document: JSONObject, paths: JSONObject) -> JSONObject:
    """Return the merge patch that takes the fields of a patch back to their values in a document."""
    found: JSONObject = {}
    for key, value in paths.items():
        old = document.get(key)
        found[key] = restored(old, value) if is_object(old) and is_object(value) else copied(old)
    return found
