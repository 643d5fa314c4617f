"""The control plane: the controllers that every cluster has, over one connection to an API server.

Names are kube-controller-manager's, and the scheduler's and kubelet's. Each can be switched off; without any, the API
server is a bare one, as envtest's is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubewright._runtime.clock import SystemClock
from kubewright.client._client import Client
from kubewright.client._transport import Transport
from kubewright.controllers import Controller
from kubewright.machinery.errors import ConfigError
from kubewright.manager import Manager
from kubewright_controlplane.controllers.cronjob.controller import cronjob_controller
from kubewright_controlplane.controllers.daemonset.controller import daemonset_controller
from kubewright_controlplane.controllers.deployment.controller import deployment_controller
from kubewright_controlplane.controllers.endpoints import endpoints_controller
from kubewright_controlplane.controllers.endpointslice import endpointslice_controller
from kubewright_controlplane.controllers.garbage.watcher import GarbageCollector
from kubewright_controlplane.controllers.job.controller import job_controller
from kubewright_controlplane.controllers.namespace import namespace_controller
from kubewright_controlplane.controllers.podgarbage import pod_garbage_controller
from kubewright_controlplane.controllers.replicaset import replicaset_controller
from kubewright_controlplane.controllers.rights import unrestricted
from kubewright_controlplane.controllers.selection import SCOPES
from kubewright_controlplane.controllers.serviceaccount import serviceaccount_controller
from kubewright_controlplane.controllers.statefulset.controller import statefulset_controller
from kubewright_controlplane.controllers.storage import provisioner
from kubewright_controlplane.controllers.storage.claims import claim_controller
from kubewright_controlplane.controllers.storage.volumes import volume_controller
from kubewright_controlplane.controllers.ttl import ttl_after_finished_controller
from kubewright_controlplane.controllers.unwarned import Unwarned
from kubewright_controlplane.kubelet.addresses import ProcessNetwork
from kubewright_controlplane.kubelet.kubelet import kubelet
from kubewright_controlplane.kubelet.node import VERSION, node_controller, register
from kubewright_controlplane.kubelet.processes.environment import APIAddress
from kubewright_controlplane.kubelet.processes.kubelet import ProcessKubelet
from kubewright_controlplane.kubelet.processes.runtime import ProcessRuntime
from kubewright_controlplane.proxy import nodeports
from kubewright_controlplane.scheduler.scheduler import scheduler

GARBAGE_COLLECTOR: Final = "garbage-collector-controller"
KUBELET: Final = "kubelet"
PROVISIONER: Final = "simulated-provisioner"
NAMES: Final = (
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "endpoints-controller",
    "endpointslice-controller",
    GARBAGE_COLLECTOR,
    "job-controller",
    "namespace-controller",
    "persistentvolume-binder-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "ttl-after-finished-controller",
    "default-scheduler",
    KUBELET,
    nodeports.NAME,
    PROVISIONER,
)
"""All controllers, by the names by which they are switched off."""


@dataclass(frozen=True, slots=True)
class ControlPlaneOptions:
    """What runs, and how."""

    disabled: Collection[str] = ()
    """Names of controllers that do not run."""
    nodes: int = 2
    """How many simulated nodes there are from the start."""
    ca: str = ""
    """The cluster's CA in PEM, published to every namespace."""
    version: str = VERSION
    """The version that nodes report."""
    processes: ProcessRuntime | None = None
    """Runs the Pods whose images have a command; None: all Pods are simulated."""
    api: APIAddress | None = None
    """Where those Pods find the API server. Goes with `processes`."""


class ControlPlane:
    """The controllers beside an API server."""

    def __init__(self, transport: Transport, options: ControlPlaneOptions | None = None) -> None:
        """`transport` acts as a user that may do anything. Raises ConfigError for a name that is no controller's."""
        self._options = options or ControlPlaneOptions()
        for name in self._options.disabled:
            if name not in NAMES:
                raise ConfigError(f'there is no controller "{name}" to switch off; there are: {", ".join(NAMES)}')
        self._clock = SystemClock()
        transport = Unwarned(transport)
        self._client = Client(
            transport=transport, user_agent="kube-controller-manager", field_manager="kube-controller-manager"
        )
        network = ProcessNetwork.embedded()
        self._processes = self._process_kubelet(network)
        self._node_ports = nodeports.NodePorts(network) if self._processes and self._runs(nodeports.NAME) else None
        self._manager = Manager(
            self._controllers(),
            name="kube-controller-manager",
            config=transport,
            scopes=SCOPES,
            health_address="0",
            metrics_address="0",
        )
        self._manager.add(self._register)
        if self._processes is not None:
            self._manager.add(self._processes.run)
        if self._node_ports is not None:
            self._manager.add(self._node_ports.run)
        if self._runs(GARBAGE_COLLECTOR):
            self._manager.add(GarbageCollector(self._client, self._clock).run)

    async def run(self) -> None:
        """Run until cancelled, or until `stop`."""
        await self._manager.run()

    async def wait_ready(self) -> None:
        """Until every controller watches."""
        await self._manager.wait_ready()

    def stop(self) -> None:
        """Ask for a graceful stop; `run` returns when it is done."""
        self._manager.stop()

    def _runs(self, name: str) -> bool:
        return name not in self._options.disabled

    def _process_kubelet(self, network: ProcessNetwork) -> ProcessKubelet | None:
        runtime, api = self._options.processes, self._options.api
        if runtime is None or api is None or not self._runs(KUBELET):
            return None
        return ProcessKubelet(runtime, self._client, api, network, self._clock)

    def _controllers(self) -> list[Controller[Any]]:
        live, clock = self._client, self._clock
        known: Mapping[str, Sequence[Controller[Any]]] = {
            "cronjob-controller": [cronjob_controller(clock)],
            "daemonset-controller": [daemonset_controller(live, clock)],
            "deployment-controller": [deployment_controller(live, clock)],
            "endpoints-controller": [endpoints_controller()],
            "endpointslice-controller": [endpointslice_controller()],
            "job-controller": [job_controller(live, clock)],
            "namespace-controller": [namespace_controller(live, clock)],
            "persistentvolume-binder-controller": [claim_controller(), volume_controller(live, provisioner.NAME)],
            "pod-garbage-collector-controller": [pod_garbage_controller(live, clock)],
            "replicaset-controller": [replicaset_controller(live, clock)],
            "serviceaccount-controller": [serviceaccount_controller(self._options.ca)],
            "statefulset-controller": [statefulset_controller(live, clock)],
            "ttl-after-finished-controller": [ttl_after_finished_controller(clock)],
            "default-scheduler": [scheduler(clock)],
            KUBELET: [kubelet(clock, self._processes), node_controller(self._options.version, clock)],
            nodeports.NAME: [nodeports.proxy(self._node_ports)] if self._node_ports else [],
            PROVISIONER: [provisioner.provisioner()],
        }
        return unrestricted(each for name, controllers in known.items() if self._runs(name) for each in controllers)

    async def _register(self) -> None:
        """What a cluster has from the start: nodes, and a default class of volumes."""
        if self._runs(KUBELET):
            await register(self._client, self._options.nodes)
        if self._runs(PROVISIONER):
            await provisioner.register_default_class(self._client)
