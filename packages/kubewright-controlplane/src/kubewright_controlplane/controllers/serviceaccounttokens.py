"""Puts tokens into Secrets of the type `kubernetes.io/service-account-token`, and deletes such Secrets with their
ServiceAccounts.

Follows kubernetes/pkg/controller/serviceaccount (tokens_controller.go).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from kubewright.apis.core.v1 import Secret, ServiceAccount
from kubewright.cache._store import Lister
from kubewright.client._client import Client
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context, Controller, Request, Watch, controller
from kubewright.controllers.predicates import AnyEvent, Predicate

NAME: Final = "serviceaccount-token-controller"
TYPE: Final = "kubernetes.io/service-account-token"
_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
_ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
_CA, _NAMESPACE, _TOKEN = "ca.crt", "namespace", "token"
_MARK: Final = f'"{TYPE}"'.encode()

Mint: TypeAlias = Callable[[ServiceAccount, str], str]
"""Returns the token of a ServiceAccount for the Secret with a name."""


class TokenReconciler:
    """Completes one Secret."""

    def __init__(self, live: Client, ca: str, mint: Mint) -> None:
        """`live` reads from the server, because a cache may not show a ServiceAccount yet."""
        self._live = live
        self._ca = ca.encode()
        self._mint = mint

    async def reconcile(self, ctx: Context[Secret]) -> None:
        secret = ctx.object
        name = _account_of(secret)
        if not name:
            return
        account = await self._find(ctx, name)
        if account is None:
            await ctx.delete(secret)
            return
        data = self._missing(secret, account)
        if data:
            change = {
                "metadata": {
                    "resourceVersion": secret.metadata.resource_version,
                    "annotations": {_ACCOUNT_NAME: name, _ACCOUNT_UID: account.metadata.uid},
                },
                "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
            }
            await ctx.patch(secret, MergePatch(change))

    async def _find(self, ctx: Context[Secret], name: str) -> ServiceAccount | None:
        """Return the ServiceAccount of a Secret. A later one of the same name is another one."""
        account = await ctx.get_or_none(ServiceAccount, name)
        if account is None:
            account = await self._live.get_or_none(ServiceAccount, name, namespace=ctx.request.namespace)
        uid = ctx.object.metadata.annotations.get(_ACCOUNT_UID)
        return account if account is not None and uid in (None, "", account.metadata.uid) else None

    def _missing(self, secret: Secret, account: ServiceAccount) -> dict[str, bytes]:
        data: dict[str, bytes] = {}
        if self._ca and secret.data.get(_CA) != self._ca:
            data[_CA] = self._ca
        if not secret.data.get(_NAMESPACE):
            data[_NAMESPACE] = (secret.metadata.namespace or "").encode()
        if not secret.data.get(_TOKEN):
            data[_TOKEN] = self._mint(account, secret.metadata.name).encode()
        return data


def _account_of(secret: Secret) -> str:
    return secret.metadata.annotations.get(_ACCOUNT_NAME, "") if secret.type == TYPE else ""


def _secrets_of(account: ServiceAccount, secrets: Lister[Secret]) -> Iterable[Request]:
    """Return the Secrets with tokens in the namespace of a ServiceAccount, without decoding them."""
    entries = (each for each in secrets.entries() if each.key.namespace == account.metadata.namespace)
    return [each.key for each in entries if _MARK in each.data]


def _may_have_token(event: AnyEvent) -> bool:
    return event.new is not None and _MARK in event.new.data


def token_controller(live: Client, ca: str, mint: Mint) -> Controller[Secret]:
    """Return the controller `serviceaccount-token-controller`. `ca` is in PEM."""
    declare = controller(
        Secret,
        name=NAME,
        predicate=Predicate(_may_have_token),
        watches=[Watch.mapped(ServiceAccount, _secrets_of)],
        workers=2,
    )
    return declare(TokenReconciler(live, ca, mint))
