"""ServiceAccounts, and their token subresource.

Follows k8s.io/kubernetes pkg/registry/core/serviceaccount.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kubewright._runtime.clock import Clock
from kubewright.machinery import time
from kubewright.machinery.errors import BadRequest, Conflict, Invalid, StatusDetails
from kubewright.machinery.fields import FieldError, invalid
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.authentication.serviceaccount import BoundObject, ServiceAccountTokens
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy, existing
from kubewright_controlplane.apiserver.registry.model import Action, Attributes, Subresource
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

_KIND: Final = GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest")
_MIN_SECONDS: Final = 600
_DEFAULT_SECONDS: Final = 3600
_BINDABLE: Final = {("v1", "Pod"): "pods", ("v1", "Secret"): "secrets", ("v1", "Node"): "nodes"}


class ServiceAccountStrategy(PlainStrategy):
    delete_answers_object = True

    def __init__(self, resources: ResourceSet, tokens: ServiceAccountTokens, clock: Clock) -> None:
        self._token = Token(resources=resources, tokens=tokens, clock=clock)

    @property
    def subresources(self) -> Mapping[str, Subresource]:
        return {"token": self._token}


@dataclass(frozen=True, kw_only=True)
class Token(Action):
    """Issues a token of a ServiceAccount."""

    kind: GroupVersionKind | None = _KIND
    resources: ResourceSet
    tokens: ServiceAccountTokens
    clock: Clock

    def create(self, body: JSONObject, attributes: Attributes) -> JSONObject:
        account = existing(self.resources, "serviceaccounts", attributes.name, attributes.namespace)
        metadata, spec = self._metadata(body, account, attributes), body.get("spec") or {}
        audiences = spec.get("audiences") or list(self.tokens.audiences)
        seconds = spec.get("expirationSeconds", _DEFAULT_SECONDS)
        errors = _expiration_errors(seconds)
        if errors:
            raise Invalid.of("TokenRequest", "authentication.k8s.io", "", errors)
        reference = spec.get("boundObjectRef")
        bound = self._bound(reference, attributes) if reference else None
        now = self.clock.now()
        metadata["creationTimestamp"] = time.format(now)
        return {
            "kind": "TokenRequest",
            "apiVersion": _KIND.api_version,
            "metadata": metadata,
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
            "status": {
                "token": self.tokens.mint(account, audiences, seconds, bound),
                "expirationTimestamp": time.format(now + timedelta(seconds=seconds)),
            },
        }

    def _metadata(self, body: JSONObject, account: JSONObject, attributes: Attributes) -> JSONObject:
        """Return the ServiceAccount's name, namespace and uid. Rejects a request that names others."""
        given, own = body.get("metadata") or {}, account["metadata"]
        for field, what in (("name", "name"), ("namespace", "namespace")):
            if given.get(field) and given[field] != own[field]:
                error = invalid(
                    f"metadata.{field}", given[field], f"must match the service account {what} if specified"
                )
                raise Invalid.of("TokenRequest", "authentication.k8s.io", attributes.name, [error])
        if given.get("uid") and given["uid"] != own["uid"]:
            why = (
                f"the UID in the token request ({given['uid']}) does not match "
                f"the UID of the service account ({own['uid']})"
            )
            raise _conflict("TokenRequest", "authentication.k8s.io", attributes.name, why)
        return {"name": own["name"], "namespace": own["namespace"], "uid": own["uid"]}

    def _bound(self, reference: JSONObject, attributes: Attributes) -> BoundObject:
        api_version, kind, name = (reference.get(field) or "" for field in ("apiVersion", "kind", "name"))
        resource = _BINDABLE.get((api_version, kind))
        if resource is None:
            raise BadRequest(f"cannot bind token to object of type {_shown(api_version)}, Kind={kind}")
        found = existing(self.resources, resource, name, "" if resource == "nodes" else attributes.namespace)
        uid, node = found["metadata"]["uid"], None
        if resource == "pods":
            if found["spec"].get("serviceAccountName") != attributes.name:
                raise BadRequest(
                    f'cannot bind token for serviceaccount "{attributes.name}" '
                    "to pod running with different serviceaccount name."
                )
            node = self._node(found["spec"].get("nodeName") or "")
        if reference.get("uid") and reference["uid"] != uid:
            why = (
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise _conflict(kind, "", name, why)
        return BoundObject(resource, name, uid, node)

    def _node(self, name: str) -> tuple[str, str] | None:
        if not name:
            return None
        node = self.resources.registry("nodes").read(name)
        return name, node["metadata"]["uid"] if node else ""


def _expiration_errors(seconds: int) -> list[FieldError]:
    path = "spec.expirationSeconds"
    if seconds < _MIN_SECONDS:
        return [invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > 1 << 32:
        return [invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


def _shown(api_version: str) -> str:
    return api_version if "/" in api_version else f"/{api_version}"


def _conflict(kind: str, group: str, name: str, why: str) -> Conflict:
    qualified = f"{kind}.{group}" if group else kind
    details = StatusDetails(name=name, group=group, kind=kind)
    return Conflict(f'Operation cannot be fulfilled on {qualified} "{name}": {why}', details=details)
