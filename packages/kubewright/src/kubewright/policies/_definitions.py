"""The CustomResourceDefinitions of the kinds that a policy is about, for checks and evaluations without a server."""

from __future__ import annotations

from collections.abc import Iterable

from kubewright.client._dynamic import Unstructured
from kubewright.machinery.json import JSONObject
from kubewright.models import CustomResource, Object
from kubewright.models._crd import partial_definition
from kubewright.policies._declaration import Policy


def definitions_of(policy: Policy) -> list[JSONObject]:
    """Return one CRD for each kind of the policy and of its parameters that is not built in."""
    kinds = [*policy.kinds, *((policy.params,) if policy.params is not None else ())]
    return [partial_definition(*versions) for versions in _by_kind(kinds)]


def _by_kind(kinds: Iterable[type[Object]]) -> Iterable[list[type[Object]]]:
    found: dict[tuple[str, str], dict[str, type[Object]]] = {}
    for kind in kinds:
        if issubclass(kind, (CustomResource, Unstructured)):
            api = kind.__api__
            found.setdefault((api.group, api.kind), {}).setdefault(api.version, kind)
    return [list(versions.values()) for versions in found.values()]
