"""A control plane, as tests see it: the embedded one, a real one, or a cluster."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
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
from kubewright.client._config import Config, write_kubeconfig
from kubewright.client._crds import until_established
from kubewright.client._dynamic import PartialObjectMetadata
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
    """Yield a Cluster that `admin` reaches. Its client and its files are removed at the end."""
    with scratch_folder() as folder:
        cluster = Cluster(admin, folder)
        try:
            yield cluster
        finally:
            await cluster.close()


async def _until_in_force(account: Config, rules: Sequence[PolicyRule]) -> None:
    """Wait until the API server's authorizer knows a new role and its binding: it watches them.

    A role is in force as a whole, so one permission of each rule is checked.
    """
    client = Client(account)
    samples = [
        PolicyRule(
            api_groups=each.api_groups[:1],
            resources=each.resources[:1],
            resource_names=each.resource_names,
            verbs=each.verbs[:1],
        )
        for each in rules
    ]

    async def check() -> None:
        missing = await missing_permissions(client, samples, None)
        assert not missing, described(missing)

    try:
        await eventually(check)
    finally:
        await client.close()


_RBAC_GROUP = "rbac.authorization.k8s.io"


class Cluster:
    """Access to a control plane, and what tests of operators need often."""

    def __init__(self, admin: Config, folder: Path) -> None:
        """Create a Cluster; `admin` has all permissions. Files are written to `folder`, which the caller removes."""
        self.config = admin
        self.client = Client(admin, user_agent="kubewright-test", field_manager="kubewright-test")
        self._folder = folder

    async def close(self) -> None:
        """Close the client's connections. Objects stay."""
        await self.client.close()

    def kubeconfig(self, config: Config | None = None) -> Path:
        """Write a kubeconfig file for `config`, by default the admin's, and return its path."""
        path = self._folder / f"{secrets.token_hex(4)}.kubeconfig"
        write_kubeconfig(config or self.config, path)
        return path

    async def install(self, *what: type[CustomResource] | ModuleType) -> None:
        """Apply the CRDs of these kinds, or of all kinds that a package declares, and wait until they are served.

        If a kind has several versions, pass all of them. Raises ConfigError if another definition has their names.
        """
        kinds = [kind for each in what for kind in (kinds_of(each) if isinstance(each, ModuleType) else [each])]
        for document in custom_resource_definitions(kinds):
            crd = await self.client.apply(codec.from_dict(CustomResourceDefinition, document))
            await until_established(self.client, crd.metadata.name)
        for kind in kinds:
            if kind.__served_as__.served:
                # metadata only: old objects may not match the class
                await eventually(self.client.list, PartialObjectMetadata.of(kind))

    @asynccontextmanager
    async def namespace(self, prefix: str = "test") -> AsyncGenerator[str]:
        """Create a namespace, and delete it at the end with everything in it, unless the block has deleted it."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        await self.client.create(Namespace(metadata=ObjectMeta(name=name)))
        await eventually(self.client.get, ServiceAccount, "default", namespace=name)
        try:
            yield name
        finally:
            with suppress(NotFound):  # the block may have deleted it
                await self.client.delete(Namespace, name)

    @asynccontextmanager
    async def images(self, images: Mapping[str, Image]) -> AsyncGenerator[None]:
        """Run new Pods with `images` as processes on this machine while the block runs: `STAND_INS`, or your own.

        Works on an embedded control plane and on a `RealControlPlane`, which a `ProcessNode` then joins for all new
        Pods. Raises ConfigError for any other cluster.
        """
        from kubewright_controlplane.images import installed  # part of kubewright-controlplane

        async with installed(images, self.config, self.client):
            yield

    @asynccontextmanager
    async def service_account(self, rules: Sequence[PolicyRule], *, namespace: str) -> AsyncGenerator[Config]:
        """Create a ServiceAccount with the permissions of `rules` in the whole cluster, and yield its credentials."""
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
            raise NotFound(f'the API server returned no token for the ServiceAccount "{namespace}/{account}"')
        return replace(self.config, token=answer.status.token, client_cert=None, client_key=None, namespace=namespace)
