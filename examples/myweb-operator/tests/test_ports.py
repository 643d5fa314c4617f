"""Node ports that are taken, moved and swapped."""

import pytest
from kubewright.apis.core.v1 import Service
from kubewright.models import codec
from kubewright.testing import eventually

from myweb_operator.api.v1.myweb import MyWeb
from mywebs import OTHER_IMAGE, OTHER_PAGE, PORT, MyWebs, node_ports

pytestmark = pytest.mark.usefixtures("operator")


async def test_a_port_of_another_myweb_is_reported_and_used_once_it_is_free(webs: MyWebs) -> None:
    await webs.create("first")
    await webs.completes("first")
    await webs.create("second")
    message = f'node port {PORT} is taken by Service "{webs.namespace}/first"'
    web = await eventually(webs.is_held_up, "NodePortTaken", message, "second")
    await eventually(webs.warns, "NodePortTaken", web)
    await webs.delete("first")
    await webs.completes("second")


async def test_a_port_of_another_service_is_reported(webs: MyWebs) -> None:
    other = await webs.client.create(service("other", webs.namespace, {"port": 443, "nodePort": PORT}))
    await webs.create()
    await eventually(webs.is_held_up, "NodePortTaken", f'Service "{webs.namespace}/other"')
    await webs.client.delete(other)
    await webs.completes()


async def test_a_move_to_a_taken_port_keeps_the_old_port(webs: MyWebs) -> None:
    other = await webs.client.create(service("other", webs.namespace, {"port": 443, "nodePort": PORT + 1}))
    await webs.create()
    await webs.completes()
    await webs.change(nodePortNumber=PORT + 1, pageContentHtml=OTHER_PAGE, image=OTHER_IMAGE)
    await eventually(webs.is_held_up, "NodePortTaken", f'Service "{webs.namespace}/other"')
    assert node_ports(await webs.service()) == [PORT]
    assert (await webs.config_map()).data == {"index.html": OTHER_PAGE}
    await webs.client.delete(other)
    await webs.completes(port=PORT + 1, page=OTHER_PAGE, image=OTHER_IMAGE)


async def test_two_mywebs_with_one_port_are_served_once_one_of_them_moves(webs: MyWebs) -> None:
    await webs.create("first")
    await webs.create("second")

    async def one_waits() -> str:
        waiting = [each for each in ("first", "second") if is_waiting(await webs.get(each))]
        assert len(waiting) == 1
        return waiting[0]

    loser = await eventually(one_waits)
    await webs.change(loser, nodePortNumber=PORT + 1)
    await webs.completes(loser, port=PORT + 1)
    await webs.completes("first" if loser == "second" else "second")


async def test_two_mywebs_can_swap_ports(webs: MyWebs) -> None:
    await webs.create("first", port=PORT)
    await webs.create("second", port=PORT + 1)
    await webs.completes("first", port=PORT)
    await webs.completes("second", port=PORT + 1)
    await webs.change("first", nodePortNumber=PORT + 1)
    await eventually(webs.is_held_up, "NodePortTaken", f'Service "{webs.namespace}/second"', "first")
    assert node_ports(await webs.service("first")) == [PORT]
    await webs.change("second", nodePortNumber=PORT)
    await webs.completes("first", port=PORT + 1)
    await webs.completes("second", port=PORT)


def is_waiting(web: MyWeb) -> bool:
    return any(each.reason == "NodePortTaken" for each in web.status.conditions)


def service(name: str, namespace: str, port: dict[str, int]) -> Service:
    metadata = {"name": name, "namespace": namespace}
    return codec.from_dict(Service, {"metadata": metadata, "spec": {"type": "NodePort", "ports": [port]}})
