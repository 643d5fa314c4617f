"""The control plane: the controllers that every cluster has, over one connection to an API server.

Names are kube-controller-manager's, and the scheduler's and kubelet's. Each can be switched off; without any, the API
server is a bare one, as envtest's is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubewright.client.client import Client
from kubewright.client.transport import Transport
from kubewright.controller import Controller
from kubewright.controlplane.daemonset.controller import daemonset_controller
from kubewright.controlplane.deployment.controller import deployment_controller
from kubewright.controlplane.endpoints import endpoints_controller
from kubewright.controlplane.endpointslice import endpointslice_controller
from kubewright.controlplane.garbage.watcher import GarbageCollector
from kubewright.controlplane.namespace import namespace_controller
from kubewright.controlplane.nodes import node
from kubewright.controlplane.nodes.kubelet import kubelet
from kubewright.controlplane.nodes.scheduler import scheduler
from kubewright.controlplane.replicaset import replicaset_controller
from kubewright.controlplane.selection import SCOPES
from kubewright.controlplane.serviceaccount import serviceaccount_controller
from kubewright.controlplane.statefulset.controller import statefulset_controller
from kubewright.machinery.clock import Clock, SystemClock
from kubewright.machinery.errors import ConfigError
from kubewright.manager import Manager

GARBAGE_COLLECTOR: Final = "garbage-collector-controller"
KUBELET: Final = "kubelet"
NAMES: Final = (
    "daemonset-controller",
    "deployment-controller",
    "endpoints-controller",
    "endpointslice-controller",
    GARBAGE_COLLECTOR,
    "namespace-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "default-scheduler",
    KUBELET,
)
"""All controllers, by the names by which they are switched off."""

USER: Final = "system:kube-controller-manager"


@dataclass(frozen=True, slots=True)
class ControlPlaneOptions:
    """What runs, and how."""

    disabled: Collection[str] = ()
    """Names of controllers that do not run."""
    nodes: int = 2
    """How many simulated nodes there are."""
    ca: str = ""
    """The cluster's CA in PEM, published to every namespace."""
    version: str = "v1.36.1"
    """The version that nodes report."""


class ControlPlane:
    """The controllers beside an API server."""

    def __init__(
        self, transport: Transport, options: ControlPlaneOptions | None = None, *, clock: Clock | None = None
    ) -> None:
        """`transport` acts as a user that may do anything. Raises ConfigError for a name that is no controller's."""
        self._options = options or ControlPlaneOptions()
        for name in self._options.disabled:
            if name not in NAMES:
                raise ConfigError(f'there is no controller "{name}" to switch off; there are: {", ".join(NAMES)}')
        self._clock = clock or SystemClock()
        self._client = Client(transport, user_agent="kube-controller-manager", field_manager="kube-controller-manager")
        self._nodes = node.addresses(self._options.nodes) if self._runs(KUBELET) else {}
        self._manager = Manager(
            self._controllers(),
            name="kube-controller-manager",
            config=transport,
            scopes=SCOPES,
            health_address="0",
            metrics_address="0",
        )
        self._manager.add(self._register_nodes)
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

    def _controllers(self) -> list[Controller[Any]]:
        known: Mapping[str, Controller[Any]] = {
            each.name: each
            for each in (
                daemonset_controller(self._client, self._clock),
                deployment_controller(self._client, self._clock),
                endpoints_controller(),
                endpointslice_controller(),
                namespace_controller(self._client, self._clock),
                replicaset_controller(self._client, self._clock),
                serviceaccount_controller(self._options.ca),
                statefulset_controller(self._client, self._clock),
                scheduler(self._clock),
                kubelet(self._clock, self._nodes),
            )
        }
        return [each for name, each in known.items() if self._runs(name)]

    async def _register_nodes(self) -> None:
        await node.register(self._client, self._nodes, self._options.version, self._clock.now())
