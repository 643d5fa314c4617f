"""The value of the variable `authorizer` in expressions: what the user of a request may do."""

from __future__ import annotations

from dataclasses import dataclass

from kubewright.cel.library.authorization import Access, Decision, ResourceCheck
from kubewright_controlplane.apiserver.authorization.attributes import AccessAttributes
from kubewright_controlplane.apiserver.authorization.attributes import Authorizer as RequestAuthorizer
from kubewright_controlplane.apiserver.user import (
    UserInfo,
    service_account_groups,
    service_account_name,
)


@dataclass(frozen=True, slots=True)
class UserAccess:
    """Asks the server's authorizer what one user may do."""

    user: UserInfo
    authorizer: RequestAuthorizer

    def decide_path(self, verb: str, path: str) -> Decision:
        return self._decide(AccessAttributes(self.user, verb, path=path))

    def decide_resource(self, verb: str, check: ResourceCheck) -> Decision:
        access = AccessAttributes(
            self.user, verb, check.group, "*", check.resource, check.subresource, check.namespace, check.name
        )
        return self._decide(access)

    def of_service_account(self, namespace: str, name: str) -> Access:
        groups = service_account_groups(namespace)  # as in a real server, it is not in system:authenticated
        return UserAccess(UserInfo(service_account_name(namespace, name), groups), self.authorizer)

    def _decide(self, access: AccessAttributes) -> Decision:
        return Decision(self.authorizer.authorize(access).allowed, self.authorizer.explain(access))
