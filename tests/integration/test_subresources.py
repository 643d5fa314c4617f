"""Subresources: scale, eviction, binding, tokens, ephemeral containers, logs."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from kubewright.apis.apps.v1 import Deployment, DeploymentSpec
from kubewright.apis.authentication.v1 import TokenRequest, TokenRequestSpec
from kubewright.apis.autoscaling.v1 import Scale
from kubewright.apis.core.v1 import (
    Binding,
    Container,
    EphemeralContainer,
    Node,
    ObjectReference,
    Pod,
    PodSpec,
    PodTemplateSpec,
    ServiceAccount,
)
from kubewright.apis.meta.v1 import DeleteOptions, LabelSelector, ObjectMeta
from kubewright.apis.policy.v1 import Eviction, PodDisruptionBudget, PodDisruptionBudgetSpec
from kubewright.client import Client, MergePatch, StrategicPatch
from kubewright.machinery.errors import BadRequest, Conflict, Invalid, TooManyRequests
from kubewright.testing import Cluster, eventually, gone


@pytest.fixture
def client(cluster: Cluster) -> Client:
    return cluster.client


def pod(namespace: str, *containers: str, scheduler: str | None = None, **metadata: object) -> Pod:
    spec = PodSpec(containers=[Container(name=each, image="i") for each in containers], scheduler_name=scheduler)
    return Pod(metadata=ObjectMeta(name="p", namespace=namespace, **metadata), spec=spec)  # type: ignore[arg-type]


async def test_a_scale_is_read_written_and_dry_run(client: Client, namespace: str) -> None:
    labels = {"a": "b"}
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[Container(name="c", image="i")])
    )
    spec = DeploymentSpec(replicas=1, selector=LabelSelector(match_labels=labels), template=template)
    await client.create(Deployment(metadata=ObjectMeta(name="d", namespace=namespace), spec=spec))

    async def replicas() -> int | None:
        return (await client.get(Deployment, "d", namespace=namespace)).spec.replicas

    subresource = client.subresource(Deployment, "d", "scale", namespace=namespace)
    scale = await subresource.get(Scale)
    assert (scale.spec.replicas, scale.status.selector) == (1, "a=b")
    stale, scale.metadata.resource_version = scale.metadata.resource_version, ""
    scale.spec.replicas = 2
    assert (await subresource.update(scale, dry_run=True)).spec.replicas == 2
    assert await replicas() == 1
    assert (await subresource.update(scale)).spec.replicas == 2
    assert await replicas() == 2
    scale.metadata.resource_version = stale
    with pytest.raises(Conflict):
        await subresource.update(scale)
    await subresource.patch(Scale, MergePatch({"spec": {"replicas": 1}}))
    assert await replicas() == 1


async def test_an_eviction_respects_the_disruption_budget(client: Client, namespace: str) -> None:
    await client.create(pod(namespace, "c", labels={"app": "p"}))
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="all", namespace=namespace),
        spec=PodDisruptionBudgetSpec(min_available="100%", selector=LabelSelector(match_labels={"app": "p"})),
    )
    await client.create(budget)
    # The status that the disruption controller writes. Without it, the server answers 429.
    counts = {"disruptionsAllowed": 0, "desiredHealthy": 1, "currentHealthy": 1, "expectedPods": 1}
    nothing_may_go = {"observedGeneration": 1, **counts}
    await client.patch(budget, MergePatch({"status": nothing_may_go}), subresource="status")

    async def runs() -> None:
        assert (await client.get(Pod, "p", namespace=namespace)).status.phase == "Running"

    await eventually(runs)
    subresource = client.subresource(Pod, "p", "eviction", namespace=namespace)
    now = DeleteOptions(grace_period_seconds=0)
    eviction = Eviction(metadata=ObjectMeta(name="p", namespace=namespace), delete_options=now)
    with pytest.raises(TooManyRequests, match="disruption budget"):
        await subresource.create(eviction)
    await client.delete(budget)

    async def may_go() -> None:
        try:
            await subresource.create(eviction, dry_run=True)
        except TooManyRequests as error:
            raise AssertionError from error

    await eventually(may_go)
    await client.get(Pod, "p", namespace=namespace)
    assert await subresource.create(eviction) is None
    await gone(client.get, Pod, "p", namespace=namespace)


async def test_a_binding_assigns_a_pod_to_a_node(client: Client, namespace: str) -> None:
    await client.create(pod(namespace, "c", scheduler="nobody"))
    node = (await client.list(Node)).items[0].metadata.name
    target = ObjectReference(kind="Node", name=node)
    binding = Binding(metadata=ObjectMeta(name="p", namespace=namespace), target=target)
    subresource = client.subresource(Pod, "p", "binding", namespace=namespace)
    assert await subresource.create(binding) is None
    assert (await client.get(Pod, "p", namespace=namespace)).spec.node_name == node
    with pytest.raises(Conflict, match="already assigned"):
        await subresource.create(binding)


async def test_a_requested_token_is_valid(cluster: Cluster, namespace: str) -> None:
    subresource = cluster.client.subresource(ServiceAccount, "default", "token", namespace=namespace)
    answer = await subresource.create(TokenRequest(spec=TokenRequestSpec(audiences=[], expiration_seconds=600)))
    assert answer is not None
    assert answer.status.token
    assert answer.status.expiration_timestamp > answer.metadata.creation_timestamp


async def test_ephemeral_containers_are_added_to_a_pod(client: Client, namespace: str) -> None:
    made = await client.create(pod(namespace, "c", scheduler="nobody"))
    patch = StrategicPatch({"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}})
    patched = await client.patch(made, patch, subresource="ephemeralcontainers")
    assert [each.name for each in patched.spec.ephemeral_containers] == ["debug"]
    patched.spec.ephemeral_containers.append(EphemeralContainer(name="more", image="busybox"))
    updated = await client.update(patched, subresource="ephemeralcontainers")
    assert [each.name for each in updated.spec.ephemeral_containers] == ["debug", "more"]


async def test_a_static_pod_gets_no_ephemeral_containers(client: Client, namespace: str) -> None:
    static = pod(namespace, "c", annotations={"kubernetes.io/config.mirror": "its file"})
    static.spec.node_name = (await client.list(Node)).items[0].metadata.name
    made = await client.create(static)
    patch = StrategicPatch({"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}})
    with pytest.raises(Invalid) as refused:
        await client.patch(made, patch, subresource="ephemeralcontainers")
    assert str(refused.value) == 'Pod "p" is invalid: []: Forbidden: static pods do not support ephemeral containers'


async def test_the_log_of_several_containers_needs_a_container_name(client: Client, namespace: str) -> None:
    await client.create(pod(namespace, "c", "side"))
    async with aclosing(client.logs("p", namespace=namespace)) as lines:
        with pytest.raises(BadRequest, match=r"choose one of: \[c side\]"):
            await anext(lines)


async def test_the_log_of_a_simulated_pod_is_its_annotation(
    client: Client, namespace: str, kubewright_target: str
) -> None:
    if kubewright_target != "embedded":
        pytest.skip("this control plane has no kubelet")
    annotations = {"simulation.kubewright.dev/log": "one\ntwo\n"}
    await client.create(pod(namespace, "c", annotations=annotations))

    async def logged() -> list[str]:
        return [line async for line in client.logs("p", namespace=namespace)]

    assert await eventually(logged) == ["one", "two"]


async def test_a_simulated_pod_fails_after_its_deadline(client: Client, namespace: str, kubewright_target: str) -> None:
    if kubewright_target != "embedded":
        pytest.skip("this control plane has no kubelet")
    running = pod(namespace, "c")
    running.spec.active_deadline_seconds = 100
    await client.create(running)

    async def ended() -> bool:
        found = await client.get(Pod, "p", namespace=namespace)
        return (found.status.phase, found.status.reason) == ("Failed", "DeadlineExceeded")

    async def runs() -> bool:
        return (await client.get(Pod, "p", namespace=namespace)).status.phase == "Running"

    await eventually(runs)
    await client.patch(running, MergePatch({"spec": {"activeDeadlineSeconds": 1}}))
    await eventually(ended)
