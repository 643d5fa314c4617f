"""The names of kube-apiserver's admission plugins, and which of them this server has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

DEFAULT: Final = frozenset(
    (
        "CertificateApproval",
        "CertificateSigning",
        "CertificateSubjectRestriction",
        "ClusterTrustBundleAttest",
        "DefaultIngressClass",
        "DefaultStorageClass",
        "DefaultTolerationSeconds",
        "JobValidation",
        "LimitRanger",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionWebhook",
        "NamespaceLifecycle",
        "NodeDeclaredFeatureValidator",
        "PersistentVolumeClaimResize",
        "PodGroupProtection",
        "PodGroupWorkloadExists",
        "PodResizeValidator",
        "PodSecurity",
        "PodTopologyLabels",
        "Priority",
        "ResourceQuota",
        "RuntimeClass",
        "ServiceAccount",
        "StorageObjectInUseProtection",
        "TaintNodesByCondition",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
    )
)
"""On by default. Some concern what is off by default, or not served here: they do nothing."""
OPTIONAL: Final = frozenset(("AlwaysAdmit", "NamespaceExists", "NodeRestriction"))
"""Off by default in kube-apiserver, and available here. The first two do nothing."""
UNSUPPORTED: Final = frozenset(
    (
        "AlwaysDeny",
        "AlwaysPullImages",
        "DenyServiceExternalIPs",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "ImagePolicyWebhook",
        "LimitPodHardAntiAffinityTopology",
        "NamespaceAutoProvision",
        "OwnerReferencesPermissionEnforcement",
        "PodNodeSelector",
        "PodTolerationRestriction",
    )
)


def errors(enabled: Iterable[str], disabled: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with the names of plugins that are enabled and disabled."""
    for word, names in (("enabled", enabled), ("disabled", disabled)):
        for name in sorted(names):
            if name not in DEFAULT | OPTIONAL | UNSUPPORTED:
                yield f'{word}_admission: there is no admission plugin "{name}"'
            elif word == "enabled" and name in UNSUPPORTED:
                choice = f"choose from: {', '.join(sorted(OPTIONAL))}"
                yield f'{word}_admission: "{name}" is not supported by the embedded API server; {choice}'
