"""Which Pods get a tool, and when."""

from kubewright import Manager
from kubewright.apis.core.v1 import Container, Node, Pod, PodSpec
from kubewright.client import MergePatch, StrategicPatch
from kubewright.testing import Cluster, eventually

from podbuggertools import Podbuggertools


async def test_a_running_pod_gets_the_tool(tools: Podbuggertools, operator: Manager) -> None:
    await tools.create_pod()
    await tools.ready()
    await tools.create()
    tool = await tools.installed()
    [container] = (await tools.pod()).spec.ephemeral_containers
    assert (container.name, container.image) == ("ephemeral-busybox", "busybox")
    assert (container.stdin, container.tty) == (True, True)
    assert tool.status.container == "ephemeral-busybox"


async def test_a_later_pod_and_its_replacement_get_the_tool(tools: Podbuggertools, operator: Manager) -> None:
    await tools.create()
    await tools.create_pod()
    await tools.installed()
    first = await tools.pod()
    await tools.delete_pod()

    async def is_gone() -> None:
        assert (await tools.get()).status.installed_pods == 0

    await eventually(is_gone)
    await tools.create_pod()
    await tools.installed()
    await tools.has(["ephemeral-busybox"])
    assert (await tools.pod()).metadata.uid != first.metadata.uid


async def test_a_pod_that_gets_the_label_gets_the_tool(tools: Podbuggertools, operator: Manager) -> None:
    await tools.create()
    pod = await tools.create_pod(app="shop")
    await tools.client.patch(pod, MergePatch({"metadata": {"labels": {"app": "payment"}}}))
    await tools.installed()


async def test_other_pods_get_nothing(cluster: Cluster, tools: Podbuggertools, operator: Manager) -> None:
    async with cluster.namespace() as elsewhere:
        there = Podbuggertools(cluster, elsewhere)
        await there.create_pod()
        await tools.create_pod("shop", app="shop")
        await tools.create_pod()
        await tools.create()
        await tools.installed()
        await tools.has([], pod="shop")
        await there.has([])


async def test_a_pod_gets_each_tool_that_it_matches_once(tools: Podbuggertools, operator: Manager) -> None:
    await tools.create_pod()
    for image in ("busybox", "nicolaka/netshoot:v0.13", "docker.io/library/alpine:3.20"):
        await tools.create(image.rpartition("/")[2].partition(":")[0], image=image)
    for name in ("busybox", "netshoot", "alpine"):
        await tools.installed(name)
    await tools.has(["ephemeral-alpine", "ephemeral-busybox", "ephemeral-netshoot"])


async def test_a_pod_gets_the_tool_once_it_is_ready(tools: Podbuggertools, operator: Manager) -> None:
    await tools.create()
    await tools.create_pod(gated=True)
    tool = await tools.pending("NotReady")
    assert tool.status.pending_pods == 1
    await tools.has([])
    await tools.let_start()
    await tools.installed()
    await tools.has(["ephemeral-busybox"])


async def test_a_pod_that_ended_gets_nothing(tools: Podbuggertools, operator: Manager) -> None:
    await tools.create_pod()
    pod = await tools.ready()
    await tools.client.patch(pod, MergePatch({"status": {"phase": "Succeeded"}}), subresource="status")
    await tools.create()
    await tools.create_pod("other")
    await tools.installed(pods=["other"])
    await tools.has([])


async def test_a_pod_that_is_being_deleted_gets_nothing(tools: Podbuggertools, operator: Manager) -> None:
    pod = await tools.create_pod()
    held = await tools.client.patch(pod, MergePatch({"metadata": {"finalizers": ["example.com/held"]}}))
    await tools.ready()
    await tools.client.delete(held, grace_period=0)
    await tools.create()
    await tools.create_pod("other")
    await tools.installed(pods=["other"])
    await tools.has([])
    await tools.client.patch(await tools.pod(), MergePatch({"metadata": {"finalizers": None}}))


async def test_a_static_pod_gets_nothing(tools: Podbuggertools, operator: Manager) -> None:
    node = (await tools.client.list(Node)).items[0].metadata.name
    mirror = Pod(metadata=tools.metadata("pod", app="payment"))
    mirror.metadata.annotations = {"kubernetes.io/config.mirror": "its node's file"}
    mirror.spec = PodSpec(node_name=node, containers=[Container(name="main", image="nginx")])
    await tools.client.create(mirror)
    await tools.ready()
    await tools.create()
    await tools.create_pod("other")
    await tools.installed(pods=["other"])
    await tools.has([])


async def test_a_container_that_a_user_added_counts(tools: Podbuggertools, operator: Manager) -> None:
    await tools.create_pod()
    pod = await tools.ready()
    added = {"ephemeralContainers": [{"name": "ephemeral-busybox", "image": "busybox"}]}
    await tools.client.patch(pod, StrategicPatch({"spec": added}), subresource="ephemeralcontainers")
    await tools.create()
    await tools.installed()
    await tools.has(["ephemeral-busybox"])
