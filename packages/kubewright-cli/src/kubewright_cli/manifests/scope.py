"""The built-in cluster-scoped resources. A Role cannot grant them."""

from __future__ import annotations

from typing import Final

_BY_GROUP: Final = {
    "": "componentstatuses namespaces nodes persistentvolumes",
    "admissionregistration.k8s.io": "mutatingadmissionpolicies mutatingadmissionpolicybindings "
    "mutatingwebhookconfigurations validatingadmissionpolicies validatingadmissionpolicybindings "
    "validatingwebhookconfigurations",
    "apiextensions.k8s.io": "customresourcedefinitions",
    "apiregistration.k8s.io": "apiservices",
    "authentication.k8s.io": "selfsubjectreviews tokenreviews",
    "authorization.k8s.io": "selfsubjectaccessreviews selfsubjectrulesreviews subjectaccessreviews",
    "certificates.k8s.io": "certificatesigningrequests",
    "flowcontrol.apiserver.k8s.io": "flowschemas prioritylevelconfigurations",
    "networking.k8s.io": "ingressclasses ipaddresses servicecidrs",
    "node.k8s.io": "runtimeclasses",
    "rbac.authorization.k8s.io": "clusterrolebindings clusterroles",
    "resource.k8s.io": "deviceclasses resourceslices",
    "scheduling.k8s.io": "priorityclasses",
    "storage.k8s.io": "csidrivers csinodes storageclasses volumeattachments volumeattributesclasses",
    "storagemigration.k8s.io": "storageversionmigrations",
}

CLUSTER_SCOPED: Final = frozenset((group, plural) for group, plurals in _BY_GROUP.items() for plural in plurals.split())
"""The group and the plural of each."""
