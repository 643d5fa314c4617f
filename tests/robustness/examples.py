"""The operators under `examples/`, all in one namespace: their objects, and what there has to be for each of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import demovolume_operator.main
import foos
import myweb_operator.main
import podbuggertool_operator.main
import podset_operator.main
import webserver_operator.main
from demovolume_operator.api.v1.demovolume import DemoVolume, DemoVolumeSpec
from demovolume_operator.api.v1.volumeoperation import VolumeOperation, VolumeOperationSpec
from kubewright import Client, CustomResource, Model, PolicyRule
from kubewright.apis.apps.v1 import Deployment, ReplicaSet
from kubewright.apis.core.v1 import ConfigMap, PersistentVolumeClaim, Pod, Service
from kubewright.controllers import is_controlled_by
from kubewright.models import Object
from myweb_operator.api.v1.myweb import MyWeb, MyWebSpec
from podbuggertool_operator.api.v1beta1.podbuggertool import Podbuggertool, PodbuggertoolSpec
from podset_operator.api.v1.podset import PodSet, PodSetSpec
from sample_controller.api.v1alpha1.foo import Foo, FooSpec
from webserver_operator.api.v1.webserver import WebServer, WebServerSpec

T = TypeVar("T", bound=Object)

IMAGES: Final = ("nginx:1.23.0", "nginx:1.23.1")
FIRST_PORT: Final = 30100
CHILDREN: Final = (Deployment, ReplicaSet, Pod, Service, ConfigMap, PersistentVolumeClaim)


@dataclass(frozen=True)
class Example:
    """An operator."""

    module: str
    """Its program, as `python -m` takes it."""
    rules: Sequence[PolicyRule]
    """All that it may do."""
    kinds: Mapping[type[CustomResource], Callable[[int], Model]]
    """Its kinds, and the spec of the object of a number."""
    change: Callable[[int], dict[str, object]] | None
    """What of the spec of its first kind is changed, for a number."""
    are_right: Callable[[World], None]
    """Raises AssertionError as long as what there is differs from what the specs say."""
    has_manager: bool = True


@dataclass
class World:
    """Everything there is in a namespace."""

    kinds: dict[type[Object], list[Any]] = field(default_factory=dict)

    @classmethod
    async def of(cls, client: Client, namespace: str) -> World:
        kinds: list[type[Object]] = [*CHILDREN, *(kind for example in EXAMPLES for kind in example.kinds)]
        return cls({kind: list(await client.list(kind, namespace=namespace)) for kind in kinds})

    def all(self, kind: type[T]) -> list[T]:
        return cast("list[T]", self.kinds[kind])

    def one(self, kind: type[T], name: str) -> T:
        found = next((each for each in self.all(kind) if each.metadata.name == name), None)
        assert found is not None, f"there is no {kind.__name__} {name}"
        return found

    def child(self, kind: type[T], name: str, owner: Object) -> T:
        """The child of that name, which is there and is of that owner alone."""
        found = self.one(kind, name)
        assert is_controlled_by(found, owner), f"{kind.__name__} {name} has another owner"
        assert len(found.metadata.owner_references) == 1
        return found

    def children(self, kind: type[T], owner: Object) -> list[T]:
        return [each for each in self.all(kind) if is_controlled_by(each, owner)]

    def runs(self, deployment: Deployment, image: str) -> None:
        """Its Pods are as many as it says, of one ReplicaSet, and run the image."""
        assert deployment.status.observed_generation == deployment.metadata.generation
        sets = [each for each in self.children(ReplicaSet, deployment) if each.spec.replicas]
        pods = [pod for each in sets for pod in self.children(Pod, each)]
        assert len(sets) <= 1, f"{deployment.metadata.name} is rolling out"
        assert [pod.spec.containers[0].image for pod in pods] == [image] * (deployment.spec.replicas or 0)
        assert all(pod.status.phase == "Running" for pod in pods)

    def leaked(self) -> list[str]:
        """What belongs to somebody who is gone, or to nobody."""
        living = {obj.metadata.uid for objects in self.kinds.values() for obj in objects}
        return [
            f"{kind.__name__} {each.metadata.name}"
            for kind in CHILDREN
            for each in self.all(kind)
            if each.metadata.name != "kube-root-ca.crt"
            and (
                not each.metadata.owner_references
                or any(owner.uid not in living for owner in each.metadata.owner_references)
            )
        ]


def webservers_are_right(world: World) -> None:
    webs = world.all(WebServer)
    services = [each for each in world.all(Service) if each.metadata.name.startswith("webserver-")]
    holders = [web for web in webs if any(is_controlled_by(service, web) for service in services)]
    assert len(services) == len(holders) == 1
    [service], [holder] = services, holders
    assert service.metadata.name == f"{holder.metadata.name}-service"
    assert [(each.port, each.target_port, each.node_port) for each in service.spec.ports] == [(80, 80, 30010)]
    assert service.spec.selector == {"app": "webserver", "webserver_cr": holder.metadata.name}
    for web in webs:
        deployment = world.child(Deployment, web.metadata.name, web)
        assert deployment.spec.replicas == web.spec.replicas
        world.runs(deployment, web.spec.image)
        reason = "AllReplicasAvailable" if web is holder else "NodePortTaken"
        assert says(web) == ("True" if web is holder else "False", reason)
        assert web.status.available_replicas == web.spec.replicas


def volumes_are_right(world: World) -> None:
    for volume in world.all(DemoVolume):
        claim = world.child(PersistentVolumeClaim, volume.metadata.name, volume)
        assert claim.spec.access_modes == ["ReadWriteOnce"]
        assert volume.status.name == volume.spec.name
        assert says(volume) == ("False", "ClaimPending")
    for operation in world.all(VolumeOperation):
        assert says(operation) == ("True", "Rebuilt")
        assert operation.status.phase == "Succeeded"
        volume = world.one(DemoVolume, operation.spec.volume)
        claim = world.child(PersistentVolumeClaim, operation.spec.volume, volume)
        assert operation.status.replaced_claim_uid not in ("", claim.metadata.uid, operation.status.new_claim_uid)


def podsets_are_right(world: World) -> None:
    for podset in world.all(PodSet):
        pods = [pod for pod in world.children(Pod, podset) if pod.metadata.deletion_timestamp is None]
        assert len(pods) == podset.spec.replicas == podset.status.replicas == podset.status.ready_replicas
        assert podset.status.pod_names == sorted(pod.metadata.name for pod in pods)
        assert all(pod.metadata.labels == {"app": podset.metadata.name, "version": "v0.1"} for pod in pods)
        assert says(podset) == ("True", "AllPodsReady")


def mywebs_are_right(world: World) -> None:
    for web in world.all(MyWeb):
        name = web.metadata.name
        assert world.child(ConfigMap, name, web).data == {"index.html": web.spec.page_content_html}
        deployment = world.child(Deployment, name, web)
        assert deployment.spec.replicas == 1
        world.runs(deployment, web.spec.image)
        ports = world.child(Service, name, web).spec.ports
        assert [each.node_port for each in ports] == [web.spec.node_port_number]
        assert says(web) == ("True", "Completed")
        assert web.status.completed


def podbuggertools_are_right(world: World) -> None:
    for tool in world.all(Podbuggertool):
        app = tool.spec.label.partition("=")[2]
        pods = [pod for pod in world.all(Pod) if pod.metadata.labels.get("app") == app]
        pods = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        for pod in pods:
            added = [(each.name, each.image) for each in pod.spec.ephemeral_containers]
            assert added == [("ephemeral-alpine", "alpine")], f"{pod.metadata.name} has {added}"
        assert tool.status.pods == sorted(pod.metadata.name for pod in pods)
        assert says(tool) == ("True", "Installed") if pods else ("False", "NoPods")


def foos_are_right(world: World) -> None:
    for foo in world.all(Foo):
        deployment = world.child(Deployment, foo.spec.deployment_name, foo)
        assert deployment.spec.replicas == foo.spec.replicas == foo.status.available_replicas
        world.runs(deployment, "nginx:latest")
        assert says(foo) == ("True", "Synced")


def says(obj: Any) -> tuple[str, str]:
    """What it says of its present spec in its one condition."""
    assert len(obj.status.conditions) == 1, f"{obj.kind} {obj.metadata.name} says {obj.status.conditions}"
    [condition] = obj.status.conditions
    assert condition.observed_generation == obj.metadata.generation
    return condition.status, condition.reason


EXAMPLES: Final = (
    Example(
        module="webserver_operator.main",
        rules=webserver_operator.main.manager.rbac_rules(),
        kinds={WebServer: lambda number: WebServerSpec(replicas=number % 2, image=IMAGES[0])},
        change=lambda number: {"replicas": number % 3, "image": IMAGES[number % 2]},
        are_right=webservers_are_right,
    ),
    Example(
        module="demovolume_operator.main",
        rules=demovolume_operator.main.manager.rbac_rules(),
        kinds={
            DemoVolume: lambda number: DemoVolumeSpec(name=f"Volume {number}", size=1, storage_class_name="none"),
            VolumeOperation: lambda number: VolumeOperationSpec(volume=f"demovolume-{number}", type="Rebuild"),
        },
        change=lambda number: {"name": f"Called {number}"},
        are_right=volumes_are_right,
    ),
    Example(
        module="podset_operator.main",
        rules=podset_operator.main.manager.rbac_rules(),
        kinds={PodSet: lambda number: PodSetSpec(replicas=number % 3)},
        change=lambda number: {"replicas": number % 4},
        are_right=podsets_are_right,
    ),
    Example(
        module="myweb_operator.main",
        rules=myweb_operator.main.manager.rbac_rules(),
        kinds={
            MyWeb: lambda number: MyWebSpec(
                image=IMAGES[0], node_port_number=FIRST_PORT + number, page_content_html=f"<h1>{number}</h1>"
            )
        },
        change=lambda number: {"image": IMAGES[number % 2], "pageContentHtml": f"<p>{number}</p>"},
        are_right=mywebs_are_right,
    ),
    Example(
        module="podbuggertool_operator.main",
        rules=podbuggertool_operator.main.manager.rbac_rules(),
        kinds={Podbuggertool: lambda number: PodbuggertoolSpec(label=f"app=podset-{number}", image="alpine")},
        change=None,
        are_right=podbuggertools_are_right,
    ),
    Example(
        module="sample_controller.main",
        rules=foos.role(),
        kinds={Foo: lambda number: FooSpec(deployment_name=f"foo-{number}", replicas=1)},
        change=lambda number: {"replicas": 1 + number % 2},
        are_right=foos_are_right,
        has_manager=False,
    ),
)
