"""A manager of this process registers its policies with the API server on this machine, and they act as in tests.

The same requests are evaluated without a server and sent to one: the answers are the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from kubewright import APIError, ConfigError, CustomResource, Invalid, Manager, Model, ObjectMeta
from kubewright.apis.admissionregistration.v1 import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from kubewright.apis.core.v1 import ConfigMap
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.client import Client
from kubewright.client._transport import HTTPTransport, Transport
from kubewright.http.message import Request, Response
from kubewright.models import PolicyRule
from kubewright.policies import (
    ApplyConfiguration,
    Binding,
    JSONPatch,
    LocalPolicies,
    MutatingPolicy,
    ParamRef,
    Policy,
    Rule,
    ValidatingPolicy,
    Validation,
)
from kubewright.testing import Cluster, Evaluation, evaluate, eventually

KINDS = (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
)
MANAGERS = ("crates", "users", "documents", "params", "killed", "restricted", "both")


class CrateSpec(Model):
    size: int = 1
    owner: str = ""


class Crate(CustomResource, group="policies.example.com", version="v1"):
    spec: CrateSpec


class SmallestSpec(Model):
    size: int


class Smallest(CustomResource, group="policies.example.com", version="v1", plural="smallest"):
    spec: SmallestSpec


LIMITED = ValidatingPolicy(
    "limited",
    Crate,
    operations=["CREATE", "UPDATE", "DELETE"],
    variables={"crate": "request.operation == 'DELETE' ? oldObject : object"},
    validations=[
        Validation("variables.crate.spec.size <= 10", message_expression="'size is ' + string(object.spec.size)"),
        Validation("variables.crate.spec.size != 7", message="seven is reserved", reason="Forbidden"),
        Validation("request.operation != 'DELETE' || variables.crate.spec.owner == ''", message="owned"),
        Validation("object == null || object.metadata.labels.stage != 'test'"),
        Validation("object == null || object.metadata.namespace == request.namespace"),
    ],
    match_conditions={"not-free": "object == null || object.metadata.name != 'free'"},
    exclude=[Rule.of(Crate, names=["legacy"])],
)
SMALL = ValidatingPolicy(
    "small",
    Crate,
    object_selector=LabelSelector(match_labels={"small": "yes"}),
    params=Smallest,
    validations=[Validation("object.spec.size >= params.spec.size", message="too small")],
    bindings=[
        Binding(params=ParamRef(selector=LabelSelector(), parameter_not_found_action="Allow")),
        Binding(
            name="small-warned", actions=["Warn"], params=ParamRef(name="warned", parameter_not_found_action="Allow")
        ),
    ],
)
OWNED = MutatingPolicy(
    "owned",
    Crate,
    match_conditions={"has-no-owner": "object.spec.owner == ''"},
    mutations=[
        ApplyConfiguration("Object{spec: Object.spec{owner: request.userInfo.username}}"),
        JSONPatch(
            "[JSONPatch{op: 'test', path: '/spec/size', value: 3}, JSONPatch{op: 'add', path: '/spec/size', value: 4}]"
        ),
    ],
)
POLICIES: list[Policy] = [LIMITED, SMALL, OWNED]


def crate(name: str, namespace: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Crate:
    metadata = ObjectMeta(name=name, namespace=namespace, labels={"stage": "live", **(labels or {})})
    return Crate(metadata=metadata, spec=CrateSpec(**{"owner": "ann"} | spec))


@pytest_asyncio.fixture
async def crates(cluster: Cluster) -> AsyncIterator[Cluster]:
    await cluster.install(Crate, Smallest)
    yield cluster


async def local_names(client: Client) -> list[str]:
    """Return the names of the policies and bindings of local runs of this module's managers."""
    found = [each for kind in KINDS for each in await client.list(kind)]
    return sorted(each.metadata.name for each in found if each.metadata.name.partition(".local-")[0] in MANAGERS)


async def test_requests_are_answered_as_they_are_evaluated_without_a_server(crates: Cluster, namespace: str) -> None:
    client = crates.client
    async with Manager(policies=POLICIES, name="crates", config=crates.config):
        for given in (
            crate("ok", namespace),
            crate("big", namespace, size=11),
            crate("seven", namespace, size=7),
            crate("free", namespace, size=99),
            crate("legacy", namespace, size=99),
            crate("test", namespace, labels={"stage": "test"}),
            Crate(metadata=ObjectMeta(name="bare", namespace=namespace), spec=CrateSpec(owner="ann")),
        ):
            expected = evaluate(LIMITED, create=given)
            assert await answer(client, given) == shown(expected, "limited")


async def test_users_permissions_and_namespaces_are_evaluated_as_without_a_server(
    crates: Cluster, namespace: str
) -> None:
    policy = ValidatingPolicy(
        "approved",
        Crate,
        validations=[
            Validation(
                "object.spec.size < 5 || "
                "authorizer.group('policies.example.com').resource('crates').namespace(request.namespace)"
                ".check('approve').allowed()",
                message_expression="request.userInfo.username + ' may not approve'",
            ),
            Validation("namespaceObject.metadata.name == request.namespace"),
            Validation("!(request.dryRun && object.metadata.name == 'never')"),
        ],
    )
    create = PolicyRule(api_groups=["policies.example.com"], resources=["crates"], verbs=["create"])
    approve = PolicyRule(api_groups=["policies.example.com"], resources=["crates"], verbs=["approve"])
    async with Manager(policies=[policy], name="users", config=crates.config):
        for rules in ([create], [create, approve]):
            async with crates.service_account(rules, namespace=namespace) as account, Client(account) as client:
                for given in (crate("a", namespace), crate("b", namespace, size=5), crate("never", namespace)):
                    expected = evaluate(policy, create=given, permissions=rules, dry_run=True)
                    found = await answer(client, given)
                    assert bool(found) == (not expected.allowed), found
                    assert ("may not approve" in found) == ("may not approve" in expected.message)


async def test_values_of_built_in_kinds_are_those_of_the_document(crates: Cluster, namespace: str) -> None:
    policy = ValidatingPolicy(
        "documents",
        ConfigMap,
        object_selector=LabelSelector(match_labels={"checked": namespace}),
        validations=[
            Validation("object.binaryData['a'] == 'aGV5'", message="a is not hey"),
            Validation("type(oldObject.metadata.creationTimestamp) == string", message="the time is not text"),
            Validation("timestamp(oldObject.metadata.creationTimestamp) < timestamp('2099-01-01T00:00:00Z')"),
            Validation("object.metadata.namespace == request.namespace"),
        ],
        operations=["UPDATE"],
    )
    metadata = ObjectMeta(name="a", namespace=namespace, labels={"checked": namespace})
    client = crates.client
    config_map = await client.create(ConfigMap(metadata=metadata, binary_data={"a": b"hey"}))
    async with Manager(policies=[policy], name="documents", config=crates.config):
        assert evaluate(policy, update=config_map, old=config_map).allowed
        await client.update(config_map)
        config_map.binary_data = {"a": b"ho"}
        assert evaluate(policy, update=config_map, old=config_map).messages == ["a is not hey"]
        with pytest.raises(Invalid, match="a is not hey"):
            await client.update(config_map)


async def test_parameters_and_bindings_act_as_they_are_evaluated_without_a_server(
    crates: Cluster, namespace: str
) -> None:
    client = crates.client
    params = [
        Smallest(metadata=ObjectMeta(name="low", namespace=namespace), spec=SmallestSpec(size=2)),
        Smallest(metadata=ObjectMeta(name="warned", namespace=namespace), spec=SmallestSpec(size=3)),
    ]
    for each in params:
        await client.create(each)
    async with Manager(policies=[SMALL], name="params", config=crates.config):

        async def are_known() -> None:
            assert await answer(client, crate("x", namespace, labels={"small": "yes"})) != ""

        await eventually(are_known)
        for size in (1, 2, 3):
            given = crate(f"c{size}", namespace, labels={"small": "yes"}, size=size)
            expected = evaluate(SMALL, create=given, params=params)
            assert await answer(client, given) == shown(expected, "small", "small-warned", prefix="params")
        assert await answer(client, crate("other", namespace, size=1)) == ""


async def test_objects_are_changed_as_without_a_server(crates: Cluster, namespace: str) -> None:
    client = crates.client
    async with Manager(policies=POLICIES, name="crates", config=crates.config):
        for size in (3, 5):
            given = crate(f"c{size}", namespace, owner="", size=size)
            created = await client.create(given, dry_run=True)
            from_evaluation = evaluate(OWNED, create=given).object
            assert created.spec.size == from_evaluation.spec.size == (4 if size == 3 else 5)
            assert created.spec.owner != from_evaluation.spec.owner == "test"
        deleted = await client.create(crate("kept", namespace))
        with pytest.raises(APIError, match="denied request: owned"):
            await client.delete(deleted)
        assert "denied request: owned" in evaluate(LIMITED, delete=crate("kept", namespace)).message
    assert await local_names(client) == []


async def answer(client: Client, given: Crate) -> str:
    """Return the message with which a create is denied; "" if it is not."""
    try:
        await client.create(given, dry_run=True)
    except APIError as error:
        return f"{error.status.code} {error.status.message}"
    return ""


def shown(expected: Evaluation[Crate], *names: str, prefix: str = "crates") -> str:
    """Return a denial with the names of a local run."""
    if expected.status is None:
        return ""
    message = expected.status.message
    for name in names:
        message = message.replace(f"'{name}'", f"'{prefix}.local-{name}'")
    return f"{expected.status.code} {message}"


async def test_what_a_killed_run_left_is_replaced_by_the_next_run(crates: Cluster, namespace: str) -> None:
    client = crates.client
    never = ValidatingPolicy("never", Crate, validations=[Validation("false", message="never")])
    killed = asyncio.create_task(Manager(policies=[never, LIMITED], name="killed", config=crates.config).run())

    async def is_registered() -> None:
        assert "killed.local-never" in await local_names(client)
        assert "never" in await answer(client, crate("a", namespace))

    await eventually(is_registered)
    left = [
        each for kind in KINDS for each in await client.list(kind) if each.metadata.name.startswith("killed.local-")
    ]
    killed.cancel()
    await asyncio.wait({killed})
    assert await local_names(client) == []
    for each in left:  # as after SIGKILL
        each.metadata = ObjectMeta(name=each.metadata.name, annotations=each.metadata.annotations)
        await client.create(each)
    async with Manager(policies=[LIMITED], name="killed", config=crates.config):
        assert await local_names(client) == ["killed.local-limited"] * 2 + ["killed.local-probe.kubewright.dev"] * 2

        async def is_gone() -> None:
            assert await answer(client, crate("a", namespace)) == ""

        await eventually(is_gone)
    assert await local_names(client) == []


class NoticedLate(Transport):
    """A transport to an API server that uses the bindings of mutating policies only after some probes."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self._held: list[Request] = []
        self._probes = 0

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:
        if request.method == "PATCH" and "/mutatingadmissionpolicybindings/" in request.path:
            self._held.append(request)
            request = replace(request, target=f"{request.target}&dryRun=All")
        elif request.method == "POST" and request.path.endswith("/configmaps"):
            self._probes += 1
            if self._probes == 5:
                for each in self._held:
                    await self._inner.send(each)
        return await self._inner.send(request, timeout=timeout, stream=stream)

    async def close(self) -> None:
        await self._inner.close()


async def test_a_manager_is_ready_when_both_types_of_policies_are_evaluated(crates: Cluster, namespace: str) -> None:
    transport = NoticedLate(HTTPTransport(crates.config))
    both = Manager(policies=[LIMITED, OWNED], name="both", transport=transport, policy_registration=LocalPolicies())
    async with both:
        made = await crates.client.create(crate("a", namespace, owner="", size=3), dry_run=True)
        assert made.spec.owner
        assert made.spec.size == 4


async def test_a_run_without_permissions_says_what_it_needs(crates: Cluster, namespace: str) -> None:
    manager = Manager(policies=[LIMITED], name="restricted")
    async with crates.service_account(manager.rbac_rules(), namespace=namespace) as account:
        with pytest.raises(ConfigError, match=r"the policies cannot be registered: .*LocalPolicies\(config=\.\.\.\)"):
            async with manager.replace(config=account):
                pass
        registration = LocalPolicies(config=crates.config)
        async with manager.replace(config=account, policy_registration=registration):
            assert "restricted.local-limited" in await local_names(crates.client)
    assert await local_names(crates.client) == []
