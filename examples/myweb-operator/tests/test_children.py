"""ConfigMap, Deployment and Service are created, updated and deleted with the MyWeb."""

from typing import TypeVar

import pytest
from kubewright.apis.apps.v1 import Deployment, ReplicaSet
from kubewright.apis.core.v1 import ConfigMap, Pod, Service
from kubewright.client import MergePatch
from kubewright.models import Object, codec
from kubewright.testing import eventually, gone

from myweb_operator.api.v1.myweb import MyWeb
from mywebs import OTHER_IMAGE, OTHER_PAGE, PAGE, PORT, MyWebs

pytestmark = pytest.mark.usefixtures("operator")

T = TypeVar("T", bound=Object)
LABELS = {"app.kubernetes.io/name": "myweb", "app.kubernetes.io/instance": "web"}


async def test_the_page_is_mounted_in_the_document_root(webs: MyWebs) -> None:
    await webs.create()
    await webs.completes()
    template = (await webs.deployment()).spec.template.spec
    [container], [volume] = template.containers, template.volumes
    [mount] = container.volume_mounts
    assert (mount.name, mount.mount_path, mount.read_only) == (volume.name, "/usr/share/nginx/html", True)
    assert volume.config_map is not None
    assert volume.config_map.name == "web"
    assert (await webs.config_map()).data == {"index.html": PAGE}


async def test_the_service_exposes_the_pods_on_the_node_port(webs: MyWebs) -> None:
    await webs.create()
    await webs.completes()
    service, [pod] = await webs.service(), await webs.pods()
    assert service.spec.type == "NodePort"
    assert service.spec.selector == LABELS
    assert LABELS.items() <= pod.metadata.labels.items()
    [port] = service.spec.ports
    assert (port.port, port.target_port, port.node_port) == (80, "http", PORT)
    assert [(each.name, each.container_port) for each in pod.spec.containers[0].ports] == [("http", 80)]


async def test_the_myweb_owns_its_children(webs: MyWebs) -> None:
    web = await webs.create()
    await webs.completes()
    for child in (await webs.config_map(), await webs.deployment(), await webs.service()):
        [owner] = child.metadata.owner_references
        described = (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller)
        assert described == ("operator.k8s-summit.org/v1", "MyWeb", "web", web.metadata.uid, True)


async def test_a_new_page_is_rolled_out(webs: MyWebs) -> None:
    await webs.create()
    await webs.completes()
    [old] = await webs.pods()
    await webs.change(pageContentHtml=OTHER_PAGE)
    await webs.completes(page=OTHER_PAGE)
    [new] = await webs.pods()
    assert new.metadata.uid != old.metadata.uid


async def test_a_new_image_is_rolled_out(webs: MyWebs) -> None:
    await webs.create()
    await webs.completes()
    await webs.change(image=OTHER_IMAGE)
    await webs.completes(image=OTHER_IMAGE)


async def test_a_new_port_changes_only_the_service(webs: MyWebs) -> None:
    await webs.create()
    await webs.completes()
    before, [pod] = await webs.service(), await webs.pods()
    await webs.change(nodePortNumber=PORT + 1)
    await webs.completes(port=PORT + 1)
    after, [still] = await webs.service(), await webs.pods()
    assert (after.metadata.uid, after.spec.cluster_ip) == (before.metadata.uid, before.spec.cluster_ip)
    assert still.metadata.uid == pod.metadata.uid


async def test_the_whole_spec_can_change_at_once(webs: MyWebs) -> None:
    await webs.create()
    await webs.completes()
    await webs.change(image=OTHER_IMAGE, nodePortNumber=PORT + 1, pageContentHtml=OTHER_PAGE)
    await webs.completes(image=OTHER_IMAGE, port=PORT + 1, page=OTHER_PAGE)


@pytest.mark.parametrize("kind", [ConfigMap, Deployment, Service])
async def test_a_deleted_child_is_recreated(webs: MyWebs, kind: type[Object]) -> None:
    await webs.create()
    await webs.completes()
    lost = await webs.client.get(kind, "web", namespace=webs.namespace)
    await webs.client.delete(lost)

    async def is_back() -> None:
        now = await webs.client.get(kind, "web", namespace=webs.namespace)
        assert now.metadata.uid != lost.metadata.uid

    await eventually(is_back)
    await webs.completes()


TWO_PORTS = [{"name": "http", "port": 80, "nodePort": PORT}, {"name": "https", "port": 443}]


@pytest.mark.parametrize(
    ("kind", "edit"),
    [
        pytest.param(ConfigMap, {"data": {"index.html": "<h1>Owned</h1>"}}, id="page"),
        pytest.param(ConfigMap, {"data": None}, id="no page"),
        pytest.param(Deployment, {"spec": {"replicas": 3}}, id="replicas"),
        pytest.param(Deployment, {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "busybox"}]}}}},
                     id="container"),
        pytest.param(Deployment, {"spec": {"template": {"metadata": {"annotations": None}}}}, id="page hash"),
        pytest.param(Service, {"spec": {"type": "ClusterIP"}}, id="type"),
        pytest.param(Service, {"spec": {"selector": {"app": "another"}}}, id="selector"),
        pytest.param(Service, {"spec": {"ports": [{"port": 80, "targetPort": 8080, "nodePort": PORT}]}}, id="target"),
        pytest.param(Service, {"spec": {"ports": [{"port": 80, "nodePort": PORT + 1}]}}, id="node port"),
        pytest.param(Service, {"spec": {"ports": [{"port": 81, "nodePort": PORT}]}}, id="port"),
        pytest.param(Service, {"spec": {"ports": TWO_PORTS}}, id="one more port"),
        pytest.param(Service, {"spec": {"ports": [{"name": "http", "port": 80, "protocol": "UDP"}]}}, id="protocol"),
        pytest.param(Service, {"metadata": {"ownerReferences": None}}, id="owner"),
    ],
)  # fmt: skip
async def test_an_edited_child_is_restored(webs: MyWebs, kind: type[Object], edit: dict[str, object]) -> None:
    await webs.create()
    await webs.completes()
    before = await webs.client.get(kind, "web", namespace=webs.namespace)
    edited = await webs.client.patch(before, MergePatch(edit))

    async def is_put_right() -> None:
        await webs.is_complete()
        now = await webs.client.get(kind, "web", namespace=webs.namespace)
        assert now.metadata.uid == edited.metadata.uid
        assert wanted_of(now) == wanted_of(before)
        assert now.metadata.owner_references == before.metadata.owner_references

    await eventually(is_put_right)


async def test_all_children_are_deleted_with_the_myweb(webs: MyWebs) -> None:
    await webs.create()
    await webs.completes()
    await webs.delete()
    for get in (webs.config_map, webs.deployment, webs.service):
        await gone(get)

    async def no_pods() -> None:
        assert not await webs.client.list(ReplicaSet, namespace=webs.namespace)
        assert not await webs.client.list(Pod, namespace=webs.namespace)

    await eventually(no_pods)


@pytest.mark.parametrize("kind", [ConfigMap, Deployment, Service])
async def test_a_foreign_object_is_left_alone_and_reported(webs: MyWebs, kind: type[Object]) -> None:
    mine = await webs.client.create(foreign_object(kind, webs.namespace))
    await webs.create()
    await eventually(webs.is_held_up, "NameTaken", f'{kind.__name__} "{webs.namespace}/web" exists and has no')
    still = await webs.client.get(kind, "web", namespace=webs.namespace)
    assert wanted_of(still) == wanted_of(mine)
    assert not still.metadata.owner_references
    await webs.client.delete(still)
    await webs.completes()


async def test_orphaned_children_are_adopted_again(webs: MyWebs) -> None:
    await webs.create()
    await webs.completes()
    before = await webs.service()
    await webs.client.delete(MyWeb, "web", namespace=webs.namespace, propagation="Orphan")
    await gone(webs.get)
    web = await webs.create()
    await webs.completes()
    service = await webs.service()
    assert service.metadata.uid == before.metadata.uid
    assert [owner.uid for owner in service.metadata.owner_references] == [web.metadata.uid]


def foreign_object(kind: type[T], namespace: str) -> T:
    """Return an object with the name of a MyWeb's child."""
    labels = {"app": "other"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "other", "image": "other"}]}}
    contents: dict[type[Object], dict[str, object]] = {
        ConfigMap: {"data": {"index.html": "mine"}},
        Deployment: {"spec": {"selector": {"matchLabels": labels}, "template": template}},
        Service: {"spec": {"ports": [{"port": 443}]}},
    }
    return codec.from_dict(kind, {"metadata": {"name": "web", "namespace": namespace}, **contents[kind]})


def wanted_of(child: Object) -> object:
    """Return a child without metadata and status."""
    if isinstance(child, ConfigMap):
        return child.data
    if isinstance(child, Service):
        return child.spec.type, child.spec.selector, [(p.port, p.target_port, p.node_port) for p in child.spec.ports]
    assert isinstance(child, Deployment)
    template = child.spec.template
    images = [each.image for each in template.spec.containers]
    return child.spec.replicas, template.metadata.annotations, images
