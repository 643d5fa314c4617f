"""The default objects of each namespace: the ServiceAccount `default`, and the ConfigMap `kube-root-ca.crt` with the
cluster's CA.

Follows kubernetes/pkg/controller/serviceaccount and pkg/controller/certificates/rootcacertpublisher.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubewright.apis.core.v1 import ConfigMap, Namespace, ServiceAccount
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.cache._store import Lister
from kubewright.controllers import Context, Controller, Request, Watch, controller
from kubewright.machinery.errors import AlreadyExists, NotFound
from kubewright.models import Object

DEFAULT: Final = "default"
ROOT_CA: Final = "kube-root-ca.crt"
_DESCRIPTION: Final = "kubernetes.io/description"
_WHAT_FOR: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class NamespaceContents:
    """Creates the default objects in each active namespace."""

    def __init__(self, ca: str) -> None:
        self._ca = ca

    async def reconcile(self, ctx: Context[Namespace]) -> None:
        namespace = ctx.object
        if namespace.metadata.deletion_timestamp is not None:
            return
        name = namespace.metadata.name
        await self._ensure_account(ctx, name)
        if self._ca:
            await self._ensure_ca(ctx, name)

    async def _ensure_account(self, ctx: Context[Namespace], namespace: str) -> None:
        if await ctx.get_or_none(ServiceAccount, DEFAULT, namespace=namespace) is None:
            await _create(ctx, ServiceAccount(metadata=ObjectMeta(name=DEFAULT, namespace=namespace)))

    async def _ensure_ca(self, ctx: Context[Namespace], namespace: str) -> None:
        data = {"ca.crt": self._ca}
        try:
            present = await ctx.get(ConfigMap, ROOT_CA, namespace=namespace)
        except NotFound:
            metadata = ObjectMeta(name=ROOT_CA, namespace=namespace, annotations={_DESCRIPTION: _WHAT_FOR})
            await _create(ctx, ConfigMap(metadata=metadata, data=data))
            return
        if present.data != data:
            present.data = data
            await ctx.client.update(present)


async def _create(ctx: Context[Namespace], obj: Object) -> None:
    try:
        await ctx.create(obj)
    except AlreadyExists:
        return
    except NotFound:
        return  # the namespace was deleted meanwhile


def _namespace_of(obj: Object, _: Lister[Namespace]) -> Iterable[Request]:
    return [Request(None, obj.metadata.namespace)] if obj.metadata.name in (DEFAULT, ROOT_CA) else []


def serviceaccount_controller(ca: str) -> Controller[Namespace]:
    """Return the controller `serviceaccount-controller`. `ca` is in PEM; if it is empty, none is published."""
    declare = controller(
        Namespace,
        name="serviceaccount-controller",
        watches=[Watch.mapped(ServiceAccount, _namespace_of), Watch.mapped(ConfigMap, _namespace_of)],
        writes=[ServiceAccount, ConfigMap],
        one_pass=True,
        namespace_ending="stop",
        workers=2,
    )
    return declare(NamespaceContents(ca))
