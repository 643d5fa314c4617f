"""The classes of the objects in templates."""

from __future__ import annotations

import importlib
from typing import Final

import msgspec

from kubewright.client import RESTMapper, decode_object
from kubewright.machinery.errors import ConfigError, DecodeError, TerminalError
from kubewright.machinery.json import JSONObject
from kubewright.models import Object
from kubewright.packages._rendering import Document

_RENAMED: Final = {
    ("policy/v1beta1", "PodDisruptionBudget"): "policy/v1",
    ("batch/v1beta1", "CronJob"): "batch/v1",
    ("storage.k8s.io/v1beta1", "StorageClass"): "storage.k8s.io/v1",
    ("scheduling.k8s.io/v1beta1", "PriorityClass"): "scheduling.k8s.io/v1",
    **{
        (f"rbac.authorization.k8s.io/{version}", kind): "rbac.authorization.k8s.io/v1"
        for version in ("v1beta1", "v1alpha1")
        for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    },
    **{
        (f"apps/{version}", kind): "apps/v1"
        for version in ("v1beta1", "v1beta2")
        for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
    },
}
"""API versions that Kubernetes no longer serves, and those with the same fields."""


def current_version(document: JSONObject) -> None:
    """Replace an API version that Kubernetes no longer serves by one with the same fields."""
    document["apiVersion"] = _RENAMED.get((document["apiVersion"], document["kind"]), document["apiVersion"])


class Kinds:
    """Finds the classes of objects: of built-in kinds in `kubewright.apis`, of others by the API server."""

    def __init__(self, mapper: RESTMapper) -> None:
        self._mapper = mapper

    async def object(self, document: Document) -> Object:
        """Return a document as an object. Raises TerminalError, and ConfigError for a kind that is not served."""
        content = document.content
        kind = await self.kind(content["apiVersion"], content["kind"])
        try:
            return decode_object(kind, msgspec.json.encode(content))
        except DecodeError as error:
            raise TerminalError(f"templates/{document.template} (line {document.line} as rendered): {error}") from error

    async def kind(self, api_version: str, kind: str) -> type[Object]:
        """Return the class of a kind. Raises ConfigError if the API server does not serve it."""
        return _built_in(api_version, kind) or await self._mapper.kind(api_version, kind)

    async def known(self, document: Document) -> Object | None:
        """Return a document as an object; None if the API server does not serve its kind."""
        try:
            return await self.object(document)
        except ConfigError:
            return None


def _built_in(api_version: str, kind: str) -> type[Object] | None:
    group, _, version = api_version.rpartition("/")
    if group and "." in group and not group.endswith(".k8s.io"):
        return None
    name = f"kubewright.apis.{group.partition('.')[0] or 'core'}.{version}"
    try:
        found = getattr(importlib.import_module(name), kind, None)
    except ModuleNotFoundError:
        return None
    if not isinstance(found, type) or not issubclass(found, Object) or found.__api__.api_version != api_version:
        return None
    return found
