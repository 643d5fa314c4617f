"""The permissions and credentials of an operator change while it runs."""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
import trustme

from integration.gizmo_operator import Gizmo, reconcile
from kubewright import Client, Config, Manager, ObjectMeta
from kubewright.apis.authentication.v1 import TokenRequest, TokenRequestSpec
from kubewright.apis.authorization.v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from kubewright.apis.core.v1 import ConfigMap, ServiceAccount
from kubewright.apis.rbac.v1 import ClusterRole, ClusterRoleBinding
from kubewright.client import MergePatch
from kubewright.machinery.errors import Unauthorized
from kubewright.models import codec
from kubewright.testing import Cluster, eventually
from robustness.faults import between
from robustness.gizmos import Gizmos, operated, operator


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_revoked_permissions_are_reported_and_used_again_once_granted(
    cluster: Cluster, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    client, gizmos = cluster.client, Gizmos(cluster.client, namespace)
    async with operated(cluster, namespace, [reconcile]) as (line, gate):
        await gizmos.populate()
        binding = await binding_of(client, namespace)
        await client.delete(binding)
        await eventually(may, client, binding, "watch", False)
        line.cut()
        before, began = gate.requests, monotonic()
        await gizmos.shake()

        async def both_watches_are_told_of() -> None:
            told = [line for line in complaints(caplog) if line.startswith("Watch failed")]
            for resource in ("configmaps", "gizmos.kubewright.test"):
                assert any(f"resource={resource} " in line and "forbidden" in line for line in told), told

        await eventually(both_watches_are_told_of)
        await asyncio.sleep(1)
        assert gate.requests - before < 30 + 2 * (monotonic() - began)
        binding.metadata = ObjectMeta(name=binding.metadata.name)
        await client.create(binding)
        await gizmos.rest(gate)


async def test_a_revoked_permission_to_write_is_reported_with_verb_and_resource(
    cluster: Cluster, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    client, gizmos = cluster.client, Gizmos(cluster.client, namespace)
    async with operated(cluster, namespace, [reconcile]) as (_, gate):
        await gizmos.populate()
        binding = await binding_of(client, namespace)
        role = await client.get(ClusterRole, binding.role_ref.name)
        rules = codec.to_dict(role)["rules"]
        weaker = [{**rule, "verbs": [verb for verb in rule["verbs"] if verb != "patch"]} for rule in rules]
        await client.patch(role, MergePatch({"rules": weaker}))
        await eventually(may, client, binding, "patch", False)
        await gizmos.shake()

        async def is_told_of() -> None:
            said = 'cannot patch resource \\"configmaps\\"'
            assert any(line.startswith("Reconcile failed") and said in line for line in complaints(caplog))

        await eventually(is_told_of)
        await client.patch(role, MergePatch({"rules": rules}))
        await gizmos.rest(gate)


async def test_a_token_that_is_revoked_before_its_replacement_exists_only_delays_work(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    await cluster.install(Gizmo)
    client, gizmos, file = cluster.client, Gizmos(cluster.client, namespace), tmp_path / "token"
    rules = Manager([reconcile]).rbac_rules()
    async with cluster.service_account(rules, namespace=namespace) as account:
        file.write_text(account.token or "")
        name = (await binding_of(client, namespace)).subjects[0].name
        rotating = replace(account, token=None, token_file=file)
        async with between(rotating) as (far, line, gate), operator(far, [reconcile]):
            await gizmos.populate()
            await client.delete(ServiceAccount, name, namespace=namespace)
            await client.create(ServiceAccount(metadata=ObjectMeta(name=name, namespace=namespace)))
            await eventually(is_revoked, account)
            line.cut()
            await gizmos.shake()

            async def is_refused() -> None:
                assert gate.codes[401] > 1

            await eventually(is_refused)
            file.write_text(await new_token(client, name, namespace))
            await gizmos.rest(gate)


async def test_a_changed_certificate_authority_is_trusted_after_its_file_changed(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    await cluster.install(Gizmo)
    gizmos, file = Gizmos(cluster.client, namespace), tmp_path / "ca.crt"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    rules = Manager([reconcile]).rbac_rules()

    def change() -> trustme.CA:
        authority = trustme.CA()
        authority.issue_cert("127.0.0.1").configure_cert(context)
        return authority

    change().cert_pem.write_to_path(str(file))
    async with (
        cluster.service_account(rules, namespace=namespace) as account,
        between(account, tls=context, ca=file) as (far, line, gate),
        operator(far, [reconcile]),
    ):
        await gizmos.populate()
        renewed = change()
        before = line.connections
        line.cut()
        await gizmos.shake()

        async def is_not_trusted() -> None:
            assert line.connections > before + 2

        await eventually(is_not_trusted)
        renewed.cert_pem.write_to_path(str(file))
        await gizmos.rest(gate)


async def binding_of(client: Client, namespace: str) -> ClusterRoleBinding:
    """Return the binding with the permissions of the operator's service account."""
    bindings = [each for each in await client.list(ClusterRoleBinding) if each.subjects]
    (found,) = [each for each in bindings if each.subjects[0].namespace == namespace]
    return found


async def may(client: Client, binding: ClusterRoleBinding, verb: str, expected: bool) -> None:
    subject = binding.subjects[0]
    spec = SubjectAccessReviewSpec(
        user=f"system:serviceaccount:{subject.namespace}:{subject.name}",
        resource_attributes=ResourceAttributes(verb=verb, resource="configmaps"),
    )
    review = await client.create(SubjectAccessReview(spec=spec))
    assert review.status is not None
    assert review.status.allowed is expected


async def is_revoked(account: Config) -> None:
    async with Client(account) as client:
        try:
            await client.list(ConfigMap)
        except Unauthorized:
            return
    raise AssertionError("the token is still good")


async def new_token(client: Client, name: str, namespace: str) -> str:
    subresource = client.subresource(ServiceAccount, name, "token", namespace=namespace)
    answer = await subresource.create(TokenRequest(spec=TokenRequestSpec(audiences=[], expiration_seconds=3600)))
    assert answer is not None
    return answer.status.token
