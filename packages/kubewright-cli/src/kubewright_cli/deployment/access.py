"""The permissions that the program needs and the manager's ServiceAccount lacks, according to the API server.

Source: https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec

from kubewright.apis.authorization.v1 import SubjectAccessReview, SubjectAccessReviewSpec
from kubewright.client import Client
from kubewright.manager._preflight import Permission, permissions_of
from kubewright.models import PolicyRule
from kubewright_cli.deployment.objects import names_of
from kubewright_cli.manifests import Manifests
from kubewright_cli.manifests.rbac import watched_namespaces

_AT_ONCE = 16


async def denied(client: Client, manifests: Manifests, account: str) -> list[Permission]:
    """Return the permissions that the ServiceAccount lacks. Raises Forbidden if this client may not ask."""
    namespace = manifests.settings.namespace
    needed = list(dict.fromkeys(_needed(manifests)))
    gate = asyncio.Semaphore(_AT_ONCE)

    async def ask(permission: Permission) -> bool:
        async with gate:
            answer = await client.create(_review(permission, account, namespace))
            return answer.status is not None and answer.status.allowed

    answers = await asyncio.gather(*(ask(each) for each in needed))
    return [each for each, allowed in zip(needed, answers, strict=True) if not allowed]


def _needed(manifests: Manifests) -> Iterator[Permission]:
    program, settings = manifests.program, manifests.settings
    manager = program.manager
    namespaces = watched_namespaces(program, settings, names_of(manifests))
    if namespaces:
        within, cluster = program.rules_by_scope()
        for namespace in namespaces:
            yield from _all(within, namespace)
        yield from _all(cluster, None)
    else:
        yield from _all(program.rules(), None)
    webhooks = manifests.webhooks
    for role in webhooks.roles() if webhooks is not None and manifests.certificate_source == "manager" else ():
        yield from _all(msgspec.convert(role["rules"], list[PolicyRule]), role["metadata"].get("namespace"))
    if settings.leader_election:
        yield from _all(manager.leader_election_rules(), program.lease_namespace or settings.namespace)
    if settings.metrics == "https":
        yield from _all(manager.metrics_auth_rules(), None)


def _all(rules: list[PolicyRule], namespace: str | None) -> Iterator[Permission]:
    for rule in rules:
        yield from permissions_of(rule, namespace)


def _review(permission: Permission, account: str, namespace: str) -> SubjectAccessReview:
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    user = f"system:serviceaccount:{namespace}:{account}"
    spec = SubjectAccessReviewSpec(user=user, groups=groups, resource_attributes=permission.attributes())
    return SubjectAccessReview(spec=spec)
