"""APIs in a bundle that newer versions of Kubernetes no longer serve.

An error if the bundle is for such a version, by `spec.minKubeVersion` or by the version that the caller names; else a
warning. Follows github.com/operator-framework/api pkg/validation (AlphaDeprecatedAPIsValidator).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kubewright.machinery.json import is_array
from kubewright_cli.olm.parts import items, mapping, text
from kubewright_cli.olm.semver import Version
from kubewright_cli.olm.validation.document import BundleDocuments, Document
from kubewright_cli.olm.validation.finding import Finding, Level

_REMOVED: Final[Mapping[str, Mapping[str, str]]] = {
    "1.22.0": {
        "scheduling.k8s.io/v1beta1": "PriorityClass",
        "rbac.authorization.k8s.io/v1beta1": "Role ClusterRole RoleBinding ClusterRoleBinding",
        "apiregistration.k8s.io/v1beta1": "APIService",
        "authentication.k8s.io/v1beta1": "TokenReview",
        "authorization.k8s.io/v1beta1": "LocalSubjectAccessReview SelfSubjectAccessReview SubjectAccessReview",
        "admissionregistration.k8s.io/v1beta1": "MutatingWebhookConfiguration ValidatingWebhookConfiguration",
        "coordination.k8s.io/v1beta1": "Lease",
        "extensions/v1beta1": "Ingress",
        "networking.k8s.io/v1beta1": "Ingress IngressClass",
        "storage.k8s.io/v1beta1": "CSIDriver CSINode StorageClass VolumeAttachment",
        "certificates.k8s.io/v1beta1": "CertificateSigningRequest",
        "apiextensions.k8s.io/v1beta1": "CustomResourceDefinition",
    },
    "1.25.0": {
        "batch/v1beta1": "CronJob",
        "discovery.k8s.io/v1beta1": "EndpointSlice",
        "events.k8s.io/v1beta1": "Event",
        "autoscaling/v2beta1": "HorizontalPodAutoscaler",
        "policy/v1beta1": "PodDisruptionBudget PodSecurityPolicy",
        "node.k8s.io/v1beta1": "RuntimeClass",
    },
    "1.26.0": {"autoscaling/v2beta2": "HorizontalPodAutoscaler"},
}
"""The version of Kubernetes, the `apiVersion`, and the kinds."""
_DESCRIBED: Final = "1.25.0"
"""The version whose APIs are also looked for in what the ClusterServiceVersion describes."""
_GONE: Final = {("policy", "podsecuritypolicies")}
"""Resources that no supported version serves."""
_SUITE: Final = "alpha-deprecated-apis"
_REMEDY: Final = "use the API that replaces it: https://kubernetes.io/docs/reference/using-api/deprecation-guide"


def check_removed_apis(bundle: BundleDocuments, kubernetes: str = "", suite: str = _SUITE) -> Iterator[Finding]:
    """Yield the findings. kubernetes: the version that the bundle is checked for, in addition to its own."""
    csv = bundle.csv
    lowest = text(csv.spec.get("minKubeVersion"))
    if kubernetes and _tolerant(kubernetes) is None:
        why = "not a version of Kubernetes"
        yield Finding("error", "kubernetes-version", csv.file, "", kubernetes, why, 'write one like "1.30"', suite)
    if lowest and _tolerant(lowest) is None:
        why = "not a version of Kubernetes, so removed APIs cannot be judged"
        yield Finding(
            "error", "min-kube-version", csv.file, "spec.minKubeVersion", lowest, why, 'write one like "1.30.0"', suite
        )
    targets = [found for each in (kubernetes, lowest) if (found := _tolerant(each)) is not None]
    for version, kinds in _REMOVED.items():
        is_target = any(each >= Version.parse(version) for each in targets)
        yield from _objects(bundle, version, kinds, "error" if is_target else "warning", suite)
        if version == _DESCRIBED:
            yield from _rules(csv, suite)


def _tolerant(version: str) -> Version | None:
    try:
        return Version.parse_tolerant(version) if version else None
    except ValueError:
        return None


def _objects(
    bundle: BundleDocuments, version: str, kinds: Mapping[str, str], level: Level, suite: str
) -> Iterator[Finding]:
    for each in bundle.objects:
        if each.kind in kinds.get(each.api_version, "").split():
            why = f"Kubernetes {version.removesuffix('.0')} and later serve no {each.kind} of this version"
            yield Finding(level, "removed-api", each.file, "apiVersion", each.api_version, why, _REMEDY, suite)
    if version != _DESCRIBED:
        return
    for path, kind, api_version in _resources(bundle.csv):
        if kind in kinds.get(api_version, "").split():
            why = f"Kubernetes {version.removesuffix('.0')} and later serve no {kind} of this version"
            yield Finding(level, "removed-resource", bundle.csv.file, path, api_version, why, _REMEDY, suite)


def _resources(csv: Document) -> Iterator[tuple[str, str, str]]:
    """Yield path, kind and version of the resources of owned and required kinds."""
    definitions = mapping(csv.spec.get("customresourcedefinitions"))
    for relation in ("owned", "required"):
        for place, each in enumerate(items(definitions.get(relation))):
            for number, resource in enumerate(items(each.get("resources"))):
                path = f"spec.customresourcedefinitions.{relation}[{place}].resources[{number}].version"
                yield path, text(resource.get("kind")), text(resource.get("version"))


def _rules(csv: Document, suite: str) -> Iterator[Finding]:
    described = {f"{kind.lower()}s" for _, kind, _ in _resources(csv)}
    strategy = mapping(mapping(csv.spec.get("install")).get("spec"))
    for field in ("clusterPermissions", "permissions"):
        for place, each in enumerate(items(strategy.get(field))):
            for number, rule in enumerate(items(each.get("rules"))):
                for group, resource in _granted(rule):
                    if (group, resource) in _GONE and resource not in described:
                        path = f"spec.install.spec.{field}[{place}].rules[{number}].resources"
                        why = "no supported version of Kubernetes serves this resource"
                        yield Finding(
                            "warning", "removed-permission", csv.file, path, resource, why, "remove it", suite
                        )


def _granted(rule: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    groups, resources = rule.get("apiGroups"), rule.get("resources")
    for group in groups if is_array(groups) else ():
        for resource in resources if is_array(resources) else ():
            yield group, resource
