"""The nodes that a Pod allows by its `nodeSelector` and required node affinity.

Terms are alternatives. All requirements of a term have to match.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
"""

from __future__ import annotations

from collections.abc import Mapping

from kubewright.apis.core.v1 import Node, NodeSelectorRequirement, NodeSelectorTerm, Pod


def matches(pod: Pod, node: Node) -> bool:
    """Return whether the Pod allows the node."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or any(term_matches(term, node) for term in required.node_selector_terms)


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Return whether the node meets all requirements of a term. An empty term matches no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node.metadata.name}
    return all(_holds(each, node.metadata.labels) for each in term.match_expressions) and all(
        _holds(each, fields) for each in term.match_fields
    )


def _holds(requirement: NodeSelectorRequirement, values: Mapping[str, str]) -> bool:
    value = values.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator if value is not None and requirement.values:
            return _compares(value, operator, requirement.values[0])
        case _:
            return False


def _compares(value: str, operator: str, bound: str) -> bool:
    try:
        return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)
    except ValueError:
        return False
