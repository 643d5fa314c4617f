"""DefaultIngressClass: the class of an Ingress without one.

Follows k8s.io/kubernetes plugin/pkg/admission/network/defaultingressclass.
"""

from __future__ import annotations

from typing import Final

from kubewright_controlplane.apiserver.admission.defaultclass import newest_default
from kubewright_controlplane.apiserver.admission.plugin import Plugin
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

_INGRESSES: Final = "ingresses.networking.k8s.io"
_CLASSES: Final = "ingressclasses.networking.k8s.io"
_CLASS: Final = "kubernetes.io/ingress.class"
_IS_DEFAULT: Final = ("ingressclass.kubernetes.io/is-default-class",)


class DefaultIngressClass(Plugin):
    """Sets the class of a new Ingress without one to the newest class that is marked as default."""

    name = "DefaultIngressClass"
    only_for = (_INGRESSES,)

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources

    def admit(self, attributes: Attributes) -> None:
        if attributes.operation != "CREATE" or attributes.subresource:
            return
        assert attributes.object is not None
        spec = attributes.object.setdefault("spec", {})
        has_class = _CLASS in (attributes.object["metadata"].get("annotations") or {})
        if has_class or spec.get("ingressClassName") is not None:
            return
        name = newest_default(self._resources.registry(_CLASSES), _IS_DEFAULT)
        if name is not None:
            spec["ingressClassName"] = name
