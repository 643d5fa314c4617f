"""The rules for a ClusterServiceVersion.

Follows github.com/operator-framework/api pkg/validation (ClusterServiceVersionValidator).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, TypeAlias

from kubewright.machinery import names
from kubewright.machinery.json import is_array, is_object
from kubewright_cli.manifests.olmsettings import INSTALL_MODES
from kubewright_cli.olm.parts import items, mapping, text
from kubewright_cli.olm.semver import Version
from kubewright_cli.olm.validation.document import Document
from kubewright_cli.olm.validation.finding import Finding, Level, shown

GVK: TypeAlias = tuple[str, str, str]
"""Group, version and kind."""

_EXAMPLES: Final = ("alm-examples", "olm.examples")
_CASE_SENSITIVE: Final = {
    each.lower(): each
    for each in (
        "olm.operatorGroup",
        "olm.operatorNamespace",
        "olm.targetNamespaces",
        "olm.providedAPIs",
        "olm.skipRange",
    )
}
_ALL: Final = "AllNamespaces"


def check_service_version(csv: Document) -> Iterator[Finding]:
    """Yield the findings of the default rules."""
    yield from _check_name(csv, "csv-name", "metadata.name", csv.metadata.get("name"))
    if replaced := csv.spec.get("replaces"):
        yield from _check_name(csv, "csv-replaces", "spec.replaces", replaced)
    yield from _check_examples(csv)
    yield from _check_install_modes(csv)
    yield from check_min_kube_version(csv, "default")
    yield from _check_required(csv)
    yield from check_annotation_names(csv)
    if not csv.api_version.rpartition("/")[2]:
        yield _finding(csv, "csv-api-version", "apiVersion", "", "missing", 'write "operators.coreos.com/v1alpha1"')


def check_min_kube_version(csv: Document, suite: str) -> Iterator[Finding]:
    """Yield the findings about `spec.minKubeVersion`."""
    path, version = "spec.minKubeVersion", text(csv.spec.get("minKubeVersion"))
    if not version.strip():
        why = "missing, so the operator is offered to clusters of any version"
        remedy = "name the oldest version that it works with"
        yield _finding(csv, "min-kube-version-missing", path, "", why, remedy, "warning", suite)
        return
    try:
        Version.parse(version)
    except ValueError:
        why = "not a semantic version"
        yield _finding(csv, "min-kube-version", path, version, why, 'write one like "1.30.0"', suite=suite)


def check_annotation_names(document: Document) -> Iterator[Finding]:
    """Yield the annotations of OLM whose names have the wrong case, and the deprecated ones."""
    for name, value in mapping(document.metadata.get("annotations")).items():
        path, right = f'metadata.annotations["{name}"]', _CASE_SENSITIVE.get(name.lower(), name)
        if name != right:
            why = "OLM does not read an annotation of this case"
            yield _finding(document, "annotation-case", path, shown(value), why, f'write "{right}"')
        if name == "olm.properties":
            why = "deprecated in favor of a file"
            remedy = "move the properties to metadata/properties.yaml"
            yield _finding(document, "properties-annotation", path, shown(value), why, remedy, "warning")


def group_of(definition: str) -> str:
    """Return the group in the name of a CRD; the whole name if it has no dot."""
    return definition.partition(".")[2] if "." in definition else definition


def _finding(
    csv: Document,
    rule: str,
    field: str,
    value: str,
    problem: str,
    remedy: str,
    level: Level = "error",
    suite: str = "default",
) -> Finding:
    return Finding(level, rule, csv.file, field, value, problem, remedy, suite)


def _check_name(csv: Document, rule: str, field: str, value: object) -> Iterator[Finding]:
    name = text(value)
    wrong = names.dns1123_subdomain(name) + names.label_value(name)
    if wrong:
        remedy = 'write <package>.v<version>, like "memcached-operator.v1.2.0", with at most 63 characters'
        yield _finding(csv, rule, field, name, ", ".join(wrong), remedy)


# ---- examples


def _check_examples(csv: Document) -> Iterator[Finding]:
    annotations = mapping(csv.metadata.get("annotations"))
    path, remedy = f'metadata.annotations["{_EXAMPLES[0]}"]', "write a JSON list with an object of each owned kind"
    if not annotations:
        why = "missing, and so are the examples in them"
        yield _finding(csv, "annotations-missing", "metadata.annotations", "", why, remedy, "warning")
        return
    present = [each for each in _EXAMPLES if each in annotations]
    if not present:
        yield _finding(csv, "examples-missing", path, "", "missing", remedy, "warning")
        return
    if len(present) == 2:
        why = "both annotations with examples are present, and only alm-examples counts"
        yield _finding(csv, "examples-twice", path, "", why, "remove olm.examples", "warning")
    path, given = f'metadata.annotations["{present[0]}"]', text(annotations[present[0]])
    try:
        examples: object = json.loads(given) if given.strip() else None
    except ValueError as error:
        yield _finding(csv, "examples-json", path, given, f"not JSON: {error}", remedy)
        return
    if not _are_objects(examples):
        yield _finding(csv, "examples-objects", path, given, "not a list of objects with a kind", remedy)
        return
    yield from _match_examples(csv, path, {_gvk(each) for each in items(examples)})


def _are_objects(examples: object) -> bool:
    return examples is None or (
        is_array(examples) and all(is_object(each) and text(each.get("kind")) for each in examples)
    )


def _gvk(example: object) -> GVK:
    document = mapping(example)
    group, _, version = text(document.get("apiVersion")).rpartition("/")
    return group, version, text(document.get("kind"))


def _match_examples(csv: Document, path: str, examples: set[GVK]) -> Iterator[Finding]:
    owned: set[GVK] = set()
    for place, each in enumerate(items(mapping(csv.spec.get("customresourcedefinitions")).get("owned"))):
        name = text(each.get("name"))
        if "." in name:
            owned.add((group_of(name), text(each.get("version")), text(each.get("kind"))))
        else:
            field = f"spec.customresourcedefinitions.owned[{place}].name"
            yield _finding(csv, "owned-name", field, name, "not <plural>.<group>", "write the name of the CRD")
    for each in items(mapping(csv.spec.get("apiservicedefinitions")).get("owned")):
        owned.add((text(each.get("group")), text(each.get("version")), text(each.get("kind"))))
    for gvk in sorted(examples - owned):
        why = "an example of a kind that the operator does not own"
        remedy = "remove the example, or add the kind to spec.customresourcedefinitions.owned"
        yield _finding(csv, "example-not-owned", path, gvk_text(gvk), why, remedy)
    for gvk in sorted(owned - examples):
        why, remedy = "an owned kind without an example", "add an object of the kind to the examples"
        yield _finding(csv, "example-missing", path, gvk_text(gvk), why, remedy, "warning")


def gvk_text(gvk: GVK) -> str:
    """Return `<group>/<version>, Kind=<kind>`."""
    return f"{gvk[0]}/{gvk[1]}, Kind={gvk[2]}"


# ---- install modes and required fields


def _check_install_modes(csv: Document) -> Iterator[Finding]:
    path, modes = "spec.installModes", items(csv.spec.get("installModes"))
    known = ", ".join(INSTALL_MODES)
    if not modes:
        remedy = f"state which of these the operator supports: {known}"
        yield _finding(csv, "install-modes-missing", path, "", "missing", remedy)
        return
    supported = {text(each.get("type")) for each in modes if each.get("supported") is True}
    refused = {text(each.get("type")) for each in modes if each.get("supported") is not True}
    for place, webhook in enumerate(items(csv.spec.get("webhookdefinitions"))):
        if webhook.get("conversionCRDs") and (supported - {_ALL} or _ALL in refused):
            field = f"spec.webhookdefinitions[{place}].conversionCRDs"
            why = "a conversion webhook works for all namespaces, and the bundle supports other install modes"
            yield _finding(
                csv, "conversion-modes", field, shown(webhook["conversionCRDs"]), why, f"support only {_ALL}"
            )
    if not supported:
        yield _finding(
            csv, "install-modes-unsupported", path, "", "none is supported", f"support at least one of {known}"
        )


def _check_required(csv: Document) -> Iterator[Finding]:
    install = mapping(csv.spec.get("install"))
    strategy = mapping(install.get("spec"))
    missing = {
        "metadata": not csv.metadata,
        "spec": not csv.spec,
        "spec.install": bool(csv.spec) and not install,
        "spec.install.strategy": bool(install) and not install.get("strategy"),
        "spec.install.spec.deployments": bool(strategy) and strategy.get("deployments") is None,
        "spec.displayName": bool(csv.spec) and not csv.spec.get("displayName"),
    }
    for path, is_missing in missing.items():
        if is_missing:
            yield _finding(csv, "field-missing", path, "", "missing", "add the field, which OLM requires")
