"""The parameters of a policy: objects that a binding names or selects.

Follows CollectParams in k8s.io/apiserver pkg/admission/plugin/policy/generic/policy_dispatcher.go.
"""

from __future__ import annotations

from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject
from kubewright.machinery.selectors import Selector
from kubewright_controlplane.apiserver.admission.policies.policy import PolicyError
from kubewright_controlplane.apiserver.registry.failures import kind_text
from kubewright_controlplane.apiserver.registry.objects import from_stored
from kubewright_controlplane.apiserver.registry.registry import Registry
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet


def param_registry(kind: GroupVersionKind, resources: ResourceSet) -> Registry:
    """Return the registry of a policy's `paramKind`. Raises PolicyError if the kind is not served."""
    resource = resources.of_kind(kind)
    found = resources.find(resource.group, resource.version, resource.plural) if resource is not None else None
    if found is None:
        raise PolicyError(f"failed to find resource referenced by paramKind: '{kind_text(kind)}'")
    return found


def collect_params(registry: Registry, reference: JSONObject, namespace: str) -> list[JSONObject]:
    """Return the objects that a binding's `paramRef` names or selects, in the order of their names.

    `namespace` is that of the write: where the reference has none, it holds the parameters. Raises PolicyError if
    there are none and `parameterNotFoundAction` is Deny.
    """
    given = reference.get("namespace") or ""
    if not registry.resource.namespaced:
        if given:
            raise PolicyError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        namespace = ""
    else:
        namespace = given or namespace
        if not namespace:
            raise PolicyError("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
    found = _found(registry, reference, namespace)
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        raise PolicyError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


def _found(registry: Registry, reference: JSONObject, namespace: str) -> list[JSONObject]:
    if name := reference.get("name"):
        named = registry.read(name, namespace)
        return [] if named is None else [named]
    selector = Selector.from_dict(reference.get("selector"))
    entries = registry.entries(namespace)
    return [from_stored(registry.resource, each.data) for each in entries if selector.matches(each.labels)]
