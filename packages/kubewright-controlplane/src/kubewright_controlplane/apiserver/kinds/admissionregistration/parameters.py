"""Whether the author of a policy or binding may read the parameters it uses.

Otherwise a user could read objects by their effect on the requests of others. Follows the `authz.go` of each resource
in k8s.io/kubernetes pkg/registry/admissionregistration.
"""

from __future__ import annotations

from kubewright.machinery.errors import Invalid
from kubewright.machinery.fields import forbidden
from kubewright.machinery.gvk import GroupVersion, GroupVersionKind
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.authorization.attributes import AccessAttributes
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.registry.model import Attributes, Resource
from kubewright_controlplane.apiserver.user import UserInfo


class ParameterAccess:
    """Checks permissions to read parameters."""

    def __init__(self, server: ServerParts) -> None:
        self._resources = server.resources
        self._authorizer = server.authorizer

    def resource(self, kind: JSONObject) -> Resource | None:
        """Return the resource of a `paramKind`; None if it is not served."""
        return self._resources.of_kind(GroupVersionKind.parse(kind["apiVersion"], kind["kind"]))

    def allows(self, access: AccessAttributes) -> bool:
        return self._authorizer.authorize(access).allowed

    def reason_denied(self, kind: JSONObject, user: UserInfo) -> str:
        """Return why a user may not use a `paramKind` in a policy; empty if the user may."""
        found, group_version = self.resource(kind), GroupVersion.parse(kind["apiVersion"])
        plural = found.plural if found is not None else "*"
        access = AccessAttributes(
            user, "get", group_version.group, group_version.version, plural, namespace="*", name="*"
        )  # fmt: skip
        if self.allows(access):
            return ""
        needed = f"(kind={kind['kind']}, apiVersion={kind['apiVersion']})"
        return f'user {self.shown(user)} must have "get" permission on all objects of the referenced paramKind {needed}'

    def denied(self, attributes: Attributes, field: str, why: str) -> Invalid:
        resource = attributes.resource
        return Invalid.of(resource.kind, resource.group, attributes.name, [forbidden(field, why)])

    def shown(self, user: UserInfo) -> str:
        """Return a user as the API server shows it: as Go prints the struct."""
        extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra.items()))
        return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
