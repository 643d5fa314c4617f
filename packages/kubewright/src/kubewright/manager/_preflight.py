"""The checks before anything runs: the kinds are served, and this user has the declared permissions.

A problem found here is one clear line. Found later it would be a cache that never syncs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from kubewright.cache._store import Namespaces, each_of
from kubewright.client._client import Client
from kubewright.client._dynamic import PartialObjectMetadata
from kubewright.machinery.errors import APIError, ConfigError, ConnectionFailed, DecodeError, Forbidden, NotFound
from kubewright.models import APIResource, Object
from kubewright.models._rbac import PolicyRule

if TYPE_CHECKING:
    from kubewright.apis.authorization.v1 import ResourceAttributes

_NAMESPACE: Final = APIResource("", "v1", "Namespace", "namespaces", namespaced=False)
"""Without its class, which would load all of core/v1."""
_ANONYMOUS: Final = "system:anonymous"
_REVIEWS_AT_ONCE: Final = 4
"""The number of concurrent access reviews. Each takes a connection, which costs more than several reviews."""
_PAUSES: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds before a check is retried."""

T = TypeVar("T")


class Permission(msgspec.Struct, frozen=True):
    """One verb on one resource, in one namespace (None: in all)."""

    verb: str
    group: str
    resource: str
    namespace: str | None

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}{where}"

    def attributes(self) -> ResourceAttributes:
        """Return the permission in the form of an access review."""
        from kubewright.apis.authorization.v1 import ResourceAttributes

        resource, _, subresource = self.resource.partition("/")
        return ResourceAttributes(
            verb=self.verb,
            group=self.group,
            resource=resource,
            subresource=subresource or None,
            namespace=self.namespace,
        )


async def missing_kinds(client: Client, kinds: Iterable[type[Object]], namespaces: Namespaces) -> list[type[Object]]:
    """Return the kinds that the server does not serve. Raises ConnectionFailed if it does not answer."""
    kinds = list(kinds)
    namespace = each_of(namespaces)[0]
    served = await asyncio.gather(*(_is_served(client, kind, namespace) for kind in kinds))
    return [kind for kind, is_there in zip(kinds, served, strict=True) if not is_there]


def not_served(missing: Sequence[type[Object]]) -> str:
    """Return one line that says which kinds are missing and what to do."""
    names = ", ".join(f"{api.plural}.{api.group}/{api.version}" for api in (kind.__api__ for kind in missing))
    return (
        f"the API server does not serve {names}: install the CustomResourceDefinition (kubewright install, or "
        f"kubectl apply -k config/crd) and start again"
    )


async def _is_served(client: Client, kind: type[Object], namespace: str | None) -> bool:
    within = namespace if kind.__api__.namespaced else None
    try:
        await _answered(lambda: client.list_page(kind, limit=1, namespace=within), although_lost=False)
    except NotFound:
        return False
    except Forbidden:  # the check of the rules reports all of it
        return True
    except DecodeError:  # the kind is served; the object is reported when it is reconciled
        return True
    return True


async def missing_namespaces(client: Client, namespaces: Namespaces) -> list[str]:
    """Return the chosen namespaces that do not exist, as far as this user may know."""
    chosen = [each for each in each_of(namespaces) if each is not None]
    return [each for each in chosen if await _is_missing(client, PartialObjectMetadata.of(_NAMESPACE), each)]


async def _is_missing(client: Client, kind: type[Object], name: str) -> bool:
    try:
        await _answered(lambda: client.get(kind, name), although_lost=True)
    except NotFound:
        return True
    except Forbidden:  # roles in namespaces do not allow it
        return False
    return False


async def missing_permissions(client: Client, rules: Sequence[PolicyRule], namespaces: Namespaces) -> list[Permission]:
    """Return the permissions in `rules` that this user does not have, according to SelfSubjectAccessReviews."""
    reviews = asyncio.Semaphore(_REVIEWS_AT_ONCE)
    missing = await asyncio.gather(*(_missing_in(client, rules, each, reviews) for each in each_of(namespaces)))
    return [permission for each in missing for permission in each]


async def _missing_in(
    client: Client, rules: Sequence[PolicyRule], namespace: str | None, reviews: asyncio.Semaphore
) -> list[Permission]:
    async def is_allowed(permission: Permission) -> bool:
        async with reviews:
            return await _is_allowed(client, permission)

    if await _is_allowed(client, Permission("*", "*", "*", namespace)):  # an administrator has all of them
        return []
    asked = list(dict.fromkeys(each for rule in rules for each in permissions_of(rule, namespace)))
    answers = await asyncio.gather(*(is_allowed(each) for each in asked))
    return [each for each, allowed in zip(asked, answers, strict=True) if not allowed]


def described(missing: Sequence[Permission]) -> str:
    """Return one line that says which permissions are missing and what to do."""
    return (
        f"RBAC: not allowed to {', '.join(map(str, missing))}: apply the role that is generated from the controllers "
        f"(kubewright generate writes config/rbac/role.yaml) and bind it to this user or ServiceAccount"
    )


def permissions_of(rule: PolicyRule, namespace: str | None) -> Iterable[Permission]:
    """Yield the permissions of a rule; none for a rule with resource names, which cannot be checked in general."""
    for group in rule.api_groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                if not rule.resource_names:
                    yield Permission(verb, group, resource, namespace)


async def _is_allowed(client: Client, permission: Permission) -> bool:
    from kubewright.apis.authorization.v1 import SelfSubjectAccessReview, SelfSubjectAccessReviewSpec

    spec = SelfSubjectAccessReviewSpec(resource_attributes=permission.attributes())
    try:
        answer = await _answered(lambda: client.create(SelfSubjectAccessReview(spec=spec)), although_lost=True)
    except Forbidden as error:
        if _ANONYMOUS in str(error):
            raise ConfigError(
                f"the API server treats this process as {_ANONYMOUS}: the kubeconfig has no credentials (a token, or a "
                "client certificate, which needs https), or the server does not know them"
            ) from error
        return True  # reported when the permission is used
    return answer.status is not None and answer.status.allowed


async def _answered(ask: Callable[[], Awaitable[T]], *, although_lost: bool) -> T:
    """Return the result of `ask`. Retries while the server is overloaded or starting.

    `although_lost`: retries lost connections, too. Raises the error of the last try.
    """
    for pause in _PAUSES:
        try:
            return await ask()
        except APIError as error:
            if error.status.code != 429 and error.status.code < 500:
                raise
        except ConnectionFailed:
            if not although_lost:
                raise
        await asyncio.sleep(pause)
    return await ask()
