"""Names of containers, and names that are taken."""

import pytest
from kubewright import Manager

from podbuggertool_operator.controller.pods import container_name
from podbuggertools import Podbuggertools


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("busybox", "ephemeral-busybox"),
        ("busybox:1.36", "ephemeral-busybox"),
        ("docker.io/library/busybox:1.36@sha256:9ae97d36d26566ff84e8893c64a6dc4f", "ephemeral-busybox"),
        ("localhost:5000/busybox", "ephemeral-busybox"),
        ("registry.example.com:5000/my_team/My.Tools/net_shoot.v2:latest", "ephemeral-net-shoot-v2"),
        ("a" * 80, "ephemeral-" + "a" * 53),
        ("a" * 52 + "-b", "ephemeral-" + "a" * 52),
    ],
)
def test_a_container_is_named_after_its_image(image: str, name: str) -> None:
    assert container_name(image) == name


async def test_a_container_name_that_is_taken_is_reported(tools: Podbuggertools, operator: Manager) -> None:
    await tools.create_pod()
    await tools.create("old", image="busybox:1.35")
    await tools.installed("old")
    await tools.create("new", image="busybox:1.36")
    await tools.pending("NameTaken", "new")
    taken = "its container ephemeral-busybox has the image busybox:1.35, and cannot be changed"
    assert await tools.event_note("new", "NameTaken") == f'Pod "pod": {taken}'
    assert await tools.event_note("pod", "NameTaken") == f'Podbuggertool "new": {taken}'
    await tools.has(["ephemeral-busybox"])


async def test_two_tools_with_one_image_share_the_container(tools: Podbuggertools, operator: Manager) -> None:
    await tools.create_pod()
    await tools.create("one")
    await tools.create("two")
    await tools.installed("one")
    await tools.installed("two")
    await tools.has(["ephemeral-busybox"])


async def test_a_new_image_is_added_and_the_old_one_stays(tools: Podbuggertools, operator: Manager) -> None:
    await tools.create_pod()
    await tools.create(image="busybox")
    await tools.installed()
    await tools.change(image="alpine")
    tool = await tools.installed()
    await tools.has(["ephemeral-alpine", "ephemeral-busybox"])
    assert [(each.label, each.image) for each in tool.status.earlier] == [("app=payment", "busybox")]
    note = "Pods with app=payment keep the container with busybox: it cannot be removed"
    assert await tools.event_note("tool", "SpecChanged") == note


async def test_a_new_tag_reaches_only_new_pods(tools: Podbuggertools, operator: Manager) -> None:
    await tools.create_pod("old")
    await tools.create(image="busybox:1.35")
    await tools.installed(pods=["old"])
    await tools.change(image="busybox:1.36")
    await tools.pending("NameTaken", pod="old")
    await tools.create_pod("new")
    await tools.pods_with("busybox:1.36", ["new"])
    await tools.pods_with("busybox:1.35", ["old"])


async def test_a_new_label_reaches_other_pods_and_removes_nothing(tools: Podbuggertools, operator: Manager) -> None:
    await tools.create_pod("payment")
    await tools.create_pod("shop", app="shop")
    await tools.create()
    await tools.installed(pods=["payment"])
    await tools.change(label="app=shop")
    await tools.installed(pods=["shop"])
    for pod in ("payment", "shop"):
        await tools.has(["ephemeral-busybox"], pod=pod)


async def test_containers_stay_when_the_tool_is_deleted(tools: Podbuggertools, operator: Manager) -> None:
    await tools.create_pod()
    tool = await tools.create()
    await tools.installed()
    await tools.client.delete(tool)
    await tools.create()
    await tools.installed()
    await tools.has(["ephemeral-busybox"])
