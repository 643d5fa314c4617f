"""TaintNodesByCondition: a new Node is not ready until the node lifecycle controller has seen that it is.

Follows k8s.io/kubernetes plugin/pkg/admission/nodetaint.
"""

from __future__ import annotations

from typing import Final

from kubewright.machinery.json import JSONArray, JSONObject
from kubewright_controlplane.apiserver.admission.plugin import Plugin, concerns
from kubewright_controlplane.apiserver.registry.model import Attributes

_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class TaintNodesByCondition(Plugin):
    """Adds the taint for Nodes that are not ready to each new Node."""

    name = "TaintNodesByCondition"
    only_for = ("nodes",)

    def admit(self, attributes: Attributes) -> None:
        if not concerns(attributes, "nodes", "CREATE"):
            return
        assert attributes.object is not None
        spec: JSONObject = attributes.object.setdefault("spec", {})
        taints: JSONArray = spec.setdefault("taints", [])
        if not any(all(each.get(key) == value for key, value in _NOT_READY.items()) for each in taints):
            taints.append(dict(_NOT_READY))
