"""Good practices for bundles, and rules for the other objects of a bundle.

Follows github.com/operator-framework/api pkg/validation (GoodPracticesValidator, ObjectValidator).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from kubewright.machinery.json import JSONObject, is_array
from kubewright_cli.olm.bundle import LABELS
from kubewright_cli.olm.parts import items, mapping, text
from kubewright_cli.olm.semver import Version
from kubewright_cli.olm.validation.document import BundleDocuments, Document
from kubewright_cli.olm.validation.finding import Finding, Level, shown

_GOOD: Final = "good-practices"
_OBJECTS: Final = "bundle-objects"
_CHANNELS: Final = ("candidate", "fast", "stable")
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+)?$", re.ASCII)
_CRDS: Final = ("customresourcedefinitions", "*", "[*]")
_CREATE: Final = ("create", "*", "[*]", "patch")
_CHANGE_BUDGETS: Final = ("*", "create", "update", "patch")
_CHANGE_CONSTRAINTS: Final = ("*", "delete", "update", "patch")
_DEFAULT_CONSTRAINTS: Final = frozenset(
    ["privileged", "restricted", "anyuid", "hostaccess", "hostmount-anyuid", "hostnetwork", "node-exporter", "nonroot"]
)
"""The SecurityContextConstraints that OpenShift has from the start."""


def check_practices(bundle: BundleDocuments) -> Iterator[Finding]:
    """Yield the findings of the suite `good-practices`."""
    csv = bundle.csv
    strategy = mapping(mapping(csv.spec.get("install")).get("spec"))
    yield from _check_requests(csv, strategy)
    for relation in ("owned", "required"):
        for place, each in enumerate(items(mapping(csv.spec.get("customresourcedefinitions")).get(relation))):
            if not each.get("description"):
                path = f"spec.customresourcedefinitions.{relation}[{place}].description"
                yield _warning(csv, "description-missing", path, text(each.get("name")), "missing", "describe the kind")
    yield from _check_channels(bundle)
    yield from _check_rights(csv, strategy)
    yield from _check_name(csv)


def _warning(
    document: Document,
    rule: str,
    field: str,
    value: str,
    problem: str,
    remedy: str,
    level: Level = "warning",
    suite: str = _GOOD,
) -> Finding:
    return Finding(level, rule, document.file, field, value, problem, remedy, suite)


def _check_requests(csv: Document, strategy: JSONObject) -> Iterator[Finding]:
    path = "spec.install.spec.deployments"
    if not is_array(strategy.get("deployments")):
        yield _warning(csv, "no-deployment", path, "", "missing", "add the Deployment of the operator", "error")
    for place, each in enumerate(items(strategy.get("deployments"))):
        pod = mapping(mapping(mapping(each.get("spec")).get("template")).get("spec"))
        for number, container in enumerate(items(pod.get("containers"))):
            if not mapping(container.get("resources")).get("requests"):
                field = f"{path}[{place}].spec.template.spec.containers[{number}].resources.requests"
                why = "missing, so that a quota may reject the Pod and nodes may be overloaded"
                yield _warning(csv, "requests", field, text(container.get("name")), why, "request cpu and memory")


def _check_channels(bundle: BundleDocuments) -> Iterator[Finding]:
    named = text(bundle.annotations.get(f"{LABELS}channels.v1")).split(",")
    named.append(text(bundle.annotations.get(f"{LABELS}channel.default.v1")))
    other = sorted({each.strip() for each in named if each.strip() and not each.strip().startswith(_CHANNELS)})
    if other:
        why = "channels with other names than usual"
        remedy = "begin their names with candidate, fast or stable"
        yield Finding(
            "warning",
            "channel-names",
            "metadata/annotations.yaml",
            f"annotations.{LABELS}channels.v1",
            ",".join(other),
            why,
            remedy,
            _GOOD,
        )


def _check_rights(csv: Document, strategy: JSONObject) -> Iterator[Finding]:
    for field in ("permissions", "clusterPermissions"):
        for place, each in enumerate(items(strategy.get(field))):
            if any(_allows(rule, "apiextensions.k8s.io", _CRDS, _CREATE) for rule in items(each.get("rules"))):
                path = f"spec.install.spec.{field}[{place}].rules"
                why = "the operator may create CRDs, which are the business of OLM"
                remedy = "put the CRDs into the bundle, or depend on the operator that owns them"
                yield _warning(csv, "crd-permission", path, "", why, remedy)
                return


def _allows(rule: JSONObject, group: str, resources: Sequence[str], verbs: Sequence[str]) -> bool:
    return (
        group in _texts(rule.get("apiGroups"))
        and not _texts(rule.get("resources")).isdisjoint(resources)
        and not _texts(rule.get("verbs")).isdisjoint(verbs)
    )


def _texts(value: object) -> set[str]:
    return {each for each in value if isinstance(each, str)} if is_array(value) else set()


def _check_name(csv: Document) -> Iterator[Finding]:
    found = _VERSION.search(csv.name)
    if found is None or not _parses(found[0]):
        why = "does not end with a semantic version"
        yield _warning(
            csv, "name-version", "metadata.name", csv.name, why, 'write one like "memcached-operator.v0.1.0"'
        )
    if len(csv.name.split(".v")) != 2:
        why = "not of the form <package>.v<version>"
        yield _warning(csv, "name-form", "metadata.name", csv.name, why, 'write one like "memcached-operator.v0.1.0"')


def _parses(version: str) -> bool:
    try:
        Version.parse(version)
    except ValueError:
        return False
    return True


def check_objects(bundle: BundleDocuments) -> Iterator[Finding]:
    """Yield the findings of the suite `bundle-objects`."""
    for each in bundle.objects:
        if each.kind == "PodDisruptionBudget":
            yield from _check_budget(each)
        elif each.kind == "PriorityClass" and each.data.get("globalDefault") is True:
            why = "would be the priority of all Pods in the cluster"
            yield _object(each, "global-default", "globalDefault", "true", why, "remove the field")
        elif each.kind in ("Role", "ClusterRole"):
            yield from _check_role(each)


def _object(
    document: Document, rule: str, field: str, value: str, problem: str, remedy: str, level: Level = "error"
) -> Finding:
    return _warning(document, rule, field, value, problem, remedy, level, _OBJECTS)


def _check_budget(document: Document) -> Iterator[Finding]:
    most, least = document.spec.get("maxUnavailable"), document.spec.get("minAvailable")
    if most is not None and (isinstance(most, str) or most == 0):
        none = most in (0, "0%")
        why = (
            "no Pod could be evicted, so nodes could not be drained" if none else "OLM's validator refuses a percentage"
        )
        yield _object(document, "max-unavailable", "spec.maxUnavailable", shown(most), why, "write a number from 1 on")
    if least == "100%":
        why = "no Pod could be evicted, so nodes could not be drained"
        yield _object(document, "min-available", "spec.minAvailable", least, why, "write less than 100%")


def _check_role(document: Document) -> Iterator[Finding]:
    for place, rule in enumerate(items(document.data.get("rules"))):
        path = f"rules[{place}]"
        if _allows(rule, "policy", ("poddisruptionbudgets",), _CHANGE_BUDGETS):
            why = "allows to change PodDisruptionBudgets, which can block the draining of nodes"
            yield _object(
                document, "budget-permission", path, "", why, "remove the rule if it is not needed", "warning"
            )
        constraints = _texts(rule.get("resourceNames")) & _DEFAULT_CONSTRAINTS
        group, resources = "security.openshift.io", ("securitycontextconstraints",)
        if constraints and _allows(rule, group, resources, _CHANGE_CONSTRAINTS):
            names = ", ".join(sorted(constraints))
            why = "allows to change SecurityContextConstraints that OpenShift ships"
            yield _object(document, "constraint-permission", path, names, why, "use constraints of your own")
