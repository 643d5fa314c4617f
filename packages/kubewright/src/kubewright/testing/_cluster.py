"""A control plane as a test sees it: the same whether it is the embedded one, a real one, or somebody's cluster."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from kubewright._runtime.scratch import scratch_folder
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.authentication.v1 import TokenRequest, TokenRequestSpec
from kubewright.apis.core.v1 import Namespace, ServiceAccount
from kubewright.apis.rbac.v1 import ClusterRole, ClusterRoleBinding, RoleRef, Subject
from kubewright.client._client import Client
from kubewright.client._config import Config
from kubewright.client._crds import until_established
from kubewright.client._dynamic import PartialObjectMetadata
from kubewright.client._kubeconfig import write
from kubewright.machinery.errors import NotFound
from kubewright.manager._preflight import described, missing_permissions
from kubewright.models import CustomResource, codec
from kubewright.models._crd import custom_resource_definitions
from kubewright.models._kinds import kinds_of
from kubewright.models._meta import ObjectMeta
from kubewright.models._rbac import PolicyRule, cluster_role
from kubewright.testing._waiting import eventually

if TYPE_CHECKING:
    from kubewright_controlplane.kubelet.images import Image


@asynccontextmanager
async def connected(admin: Config) -> AsyncGenerator[Cluster]:
    """A Cluster by way of `admin`, for as long as the block lasts; what it has written to files goes with it."""
    with scratch_folder() as folder:
        cluster = Cluster(admin, folder)
        try:
            yield cluster
        finally:
            await cluster.close()


async def _until_in_force(account: Config, rules: Sequence[PolicyRule]) -> None:
    """An API server's authorizer learns of roles and bindings a moment after they are written."""
    client = Client(account)

    async def check() -> None:
        missing = await missing_permissions(client, rules, None)
        assert not missing, described(missing)

    try:
        await eventually(check)
    finally:
        await client.close()


_RBAC_GROUP = "rbac.authorization.k8s.io"


class Cluster:
    """Access to a control plane, and what tests of operators do there again and again."""

    def __init__(self, admin: Config, folder: Path) -> None:
        """`admin` may do anything. Files are written to `folder`, which the caller removes."""
        self.config = admin
        self.client = Client(admin, user_agent="kubewright-test", field_manager="kubewright-test")
        self._folder = folder

    async def close(self) -> None:
        """Close the client's connections. What was created stays."""
        await self.client.close()

    def kubeconfig(self, config: Config | None = None) -> Path:
        """A kubeconfig file for `config`, by default the admin's."""
        path = self._folder / f"{secrets.token_hex(4)}.kubeconfig"
        write(config or self.config, path)
        return path

    async def install(self, *what: type[CustomResource] | ModuleType) -> None:
        """Apply the CRDs of these kinds, or of all kinds that a package declares, and wait until they are served.

        Of a kind in several versions, give all. Raises ConfigError when another definition has their names.
        """
        kinds = [kind for each in what for kind in (kinds_of(each) if isinstance(each, ModuleType) else [each])]
        for document in custom_resource_definitions(kinds):
            crd = await self.client.apply(codec.from_dict(CustomResourceDefinition, document))
            await until_established(self.client, crd.metadata.name)
        for kind in kinds:
            await eventually(self.client.list, PartialObjectMetadata.of(kind))  # some may be of before a change of it

    @asynccontextmanager
    async def namespace(self, prefix: str = "test") -> AsyncGenerator[str]:
        """A new namespace, deleted at the end with all that is in it."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        await self.client.create(Namespace(metadata=ObjectMeta(name=name)))
        await eventually(self.client.get, ServiceAccount, "default", namespace=name)
        try:
            yield name
        finally:
            await self.client.delete(Namespace, name)

    @asynccontextmanager
    async def images(self, images: Mapping[str, Image]) -> AsyncGenerator[None]:
        """As long as the block lasts, new Pods of `images` run as processes of this machine: `STAND_INS`, or your own.

        On an embedded control plane, or on a real one of `RealControlPlane`: there a `ProcessNode` joins, to which all
        new Pods go. Raises ConfigError for any other cluster.
        """
        from kubewright_controlplane.images import installed  # not part of an operator's image

        async with installed(images, self.config, self.client):
            yield

    @asynccontextmanager
    async def service_account(self, rules: Sequence[PolicyRule], *, namespace: str) -> AsyncGenerator[Config]:
        """The credentials of a new ServiceAccount that may do what `rules` say in the whole cluster, and no more."""
        name = f"operator-{secrets.token_hex(4)}"
        account = ServiceAccount(metadata=ObjectMeta(name=name, namespace=namespace))
        role = codec.from_dict(ClusterRole, cluster_role(name, rules))
        binding = ClusterRoleBinding(
            metadata=ObjectMeta(name=name),
            role_ref=RoleRef(api_group=_RBAC_GROUP, kind="ClusterRole", name=name),
            subjects=[Subject(kind="ServiceAccount", name=name, namespace=namespace)],
        )
        await self.client.create(account)
        await self.client.create(role)
        await self.client.create(binding)
        try:
            config = await self._config_of(name, namespace)
            await _until_in_force(config, rules)
            yield config
        finally:
            for kind in (ClusterRoleBinding, ClusterRole):
                await self.client.delete(kind, name)

    async def _config_of(self, account: str, namespace: str) -> Config:
        request = TokenRequest(spec=TokenRequestSpec(audiences=[], expiration_seconds=3600))
        tokens = self.client.subresource(ServiceAccount, account, "token", namespace=namespace)
        answer = await tokens.create(request)
        if answer is None or not answer.status.token:
            raise NotFound(f'the API server gave no token for the ServiceAccount "{namespace}/{account}"')
        return replace(self.config, token=answer.status.token, client_cert=None, client_key=None, namespace=namespace)
