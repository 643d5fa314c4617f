"""The controllers, scheduler, kubelet and proxy of a cluster, over one connection to an API server.

They have the names of kube-controller-manager's controllers, and each can be switched off.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from kubewright._runtime.clock import SystemClock
from kubewright.client._client import Client
from kubewright.client._transport import Transport
from kubewright.controllers import Controller
from kubewright.http.message import Handler
from kubewright.machinery.errors import ConfigError
from kubewright.manager import Manager
from kubewright.manager._events import EventWriter
from kubewright_controlplane import metricsserver
from kubewright_controlplane.common.events import ControlPlaneEvents
from kubewright_controlplane.common.network import ProcessNetwork
from kubewright_controlplane.common.permissions import unrestricted
from kubewright_controlplane.common.selection import SCOPES
from kubewright_controlplane.common.warnings import WithoutWarnings
from kubewright_controlplane.controllers.deployment.controller import deployment_controller
from kubewright_controlplane.controllers.endpoints import endpoints_controller
from kubewright_controlplane.controllers.endpointslice import endpointslice_controller
from kubewright_controlplane.controllers.endpointslicemirroring import endpointslicemirroring_controller
from kubewright_controlplane.controllers.garbage.watcher import GarbageCollector
from kubewright_controlplane.controllers.job.controller import job_controller
from kubewright_controlplane.controllers.namespace import namespace_controller
from kubewright_controlplane.controllers.nodelifecycle import node_lifecycle_controller
from kubewright_controlplane.controllers.nodettl import ttl_controller
from kubewright_controlplane.controllers.podgarbage import pod_garbage_controller
from kubewright_controlplane.controllers.replicaset import replicaset_controller
from kubewright_controlplane.controllers.serviceaccount import serviceaccount_controller
from kubewright_controlplane.controllers.storage import ephemeral, provisioner
from kubewright_controlplane.controllers.storage.claims import claim_controller
from kubewright_controlplane.controllers.storage.volumes import volume_controller
from kubewright_controlplane.controllers.storagemigration import storage_version_migrator
from kubewright_controlplane.controllers.tainteviction import taint_eviction_controller
from kubewright_controlplane.controllers.ttl import ttl_after_finished_controller
from kubewright_controlplane.dns.service import DNS, ClusterDNS
from kubewright_controlplane.kubelet.kubelet import kubelet
from kubewright_controlplane.kubelet.node import VERSION, node_controller, register
from kubewright_controlplane.kubelet.processes import ProcessPods, ProcessRuntime
from kubewright_controlplane.kubelet.sandbox import APIAddress
from kubewright_controlplane.kubelet.storage import volume_cleaner
from kubewright_controlplane.ondemand import OnDemand
from kubewright_controlplane.proxy import services
from kubewright_controlplane.proxy.services import ServiceProxy
from kubewright_controlplane.proxy.targets import Target
from kubewright_controlplane.rarekinds import NAMES as RARE
from kubewright_controlplane.rarekinds import RareKinds
from kubewright_controlplane.scheduler.scheduler import scheduler

if TYPE_CHECKING:
    from kubewright_controlplane.controllers.certificates import Sign
    from kubewright_controlplane.controllers.serviceaccounttokens import Mint

_NAME: Final = "kube-controller-manager"
GARBAGE_COLLECTOR: Final = "garbage-collector-controller"
KUBELET: Final = "kubelet"
SCHEDULER: Final = "default-scheduler"
PROXY: Final = services.NAME
PROVISIONER: Final = "simulated-provisioner"
NAMES: Final = tuple(
    sorted(
        (
            "deployment-controller",
            "endpoints-controller",
            "endpointslice-controller",
            "endpointslice-mirroring-controller",
            ephemeral.NAME,
            GARBAGE_COLLECTOR,
            "job-controller",
            "namespace-controller",
            "node-lifecycle-controller",
            "persistentvolume-binder-controller",
            "pod-garbage-collector-controller",
            "replicaset-controller",
            "serviceaccount-controller",
            "storage-version-migrator-controller",
            "taint-eviction-controller",
            "ttl-controller",
            "ttl-after-finished-controller",
            SCHEDULER,
            KUBELET,
            PROXY,
            PROVISIONER,
            *RARE,
        )
    )
)
"""The names of all controllers, by which they are switched off."""


@dataclass(frozen=True, slots=True)
class ControlPlaneOptions:
    """Which controllers run, and how."""

    disabled: Collection[str] = ()
    """Names of controllers that do not run."""
    nodes: int = 2
    """The number of simulated nodes at the start."""
    ca: str = ""
    """The cluster's CA in PEM, published to every namespace."""
    sign: Sign | None = None
    """Signs certificate requests with the key of the CA. None: requests are approved, but not signed."""
    mint: Mint | None = None
    """Issues the tokens that are kept in Secrets. None: such Secrets stay without a token."""
    version: str = VERSION
    """The version that nodes report."""
    node_grace_seconds: float = 50
    """How long a kubelet may be silent before the conditions of its node become unknown. Simulated nodes never are."""
    autoscaler_seconds: float = 15
    """How often a HorizontalPodAutoscaler looks at its metrics."""
    migrates_storage: bool = False
    """The API server serves StorageVersionMigrations, and their controller runs."""
    protects_storage: bool = True
    """The API server has the admission plugin StorageObjectInUseProtection, and its controllers run."""
    metrics: bool = False
    """Serve the metrics API, which `kubectl top` reads. `kubewright up` does."""
    processes: ProcessPods | None = None
    """The Pods that run as processes. None: all Pods are simulated."""
    api: APIAddress | None = None
    """Where those Pods find the API server. Required with `processes`."""
    network: ProcessNetwork = field(default_factory=lambda: ProcessNetwork(None))
    """The addresses of those Pods."""


class ControlPlane:
    """The controllers of a cluster, in one manager."""

    def __init__(self, transport: Transport, options: ControlPlaneOptions | None = None) -> None:
        """The user of `transport` may do anything. Raises ConfigError for an unknown name in `disabled`."""
        self._options = options or ControlPlaneOptions()
        for name in self._options.disabled:
            if name not in NAMES:
                raise ConfigError(f'there is no controller "{name}" to switch off; choose from: {", ".join(NAMES)}')
        self._clock = SystemClock()
        transport = WithoutWarnings(transport)
        self._client = Client(transport=transport, user_agent=_NAME, field_manager=_NAME)
        self._events = ControlPlaneEvents(self._client)
        self._scheduling = EventWriter(self._client, SCHEDULER, f"{SCHEDULER}-{socket.gethostname()}")
        self._metrics = metricsserver.MetricsServer(self._client, self._clock, self._options.processes)
        self._processes = self._process_runtime()
        self._dns = ClusterDNS(self._client, lambda: self._manager.client, _NAME)
        self._services = self._service_proxy()
        self._manager = Manager(
            self._controllers(),
            name=_NAME,
            transport=transport,
            scopes=SCOPES,
            health_address="0",
            metrics_address="0",
        )
        self._manager.add(self._register)
        self._manager.add(self._events.run)
        self._manager.add(self._scheduling.run)
        period = timedelta(seconds=self._options.autoscaler_seconds)
        demands = RareKinds(
            self._client,
            self._clock,
            autoscaler_period=period,
            sign=self._options.sign,
            mint=self._options.mint,
            ca=self._options.ca,
            protects_storage=self._options.protects_storage,
        ).demands()
        wanted = [demand for name, parts in demands.items() if self._runs(name) for demand in parts]
        self._manager.add(OnDemand(wanted, self._client, lambda: self._manager.client, self._events).run)
        if self._processes is not None:
            self._manager.add(self._processes.run)
        if self._services is not None:
            self._manager.add(self._services.run)
            self._manager.add(self._dns.run)
        if self._runs(GARBAGE_COLLECTOR):
            self._manager.add(GarbageCollector(self._client, self._clock, self._events.of(GARBAGE_COLLECTOR)).run)

    @property
    def metrics(self) -> Handler:
        """The metrics API, for the API server."""
        return self._metrics.handle

    async def run(self) -> None:
        """Run until cancelled, or until `stop`."""
        await self._manager.run()

    async def wait_ready(self) -> None:
        """Wait until every controller watches its objects."""
        await self._manager.wait_ready()

    def stop(self) -> None:
        """Request a graceful stop, after which `run` returns."""
        self._manager.stop()

    def _runs(self, name: str) -> bool:
        return name not in self._options.disabled

    def _process_runtime(self) -> ProcessRuntime | None:
        pods, api = self._options.processes, self._options.api
        if pods is None or api is None or not self._runs(KUBELET):
            return None
        network = self._options.network
        return ProcessRuntime(pods, self._client, api, network, self._clock, nameserver=self._nameserver)

    def _service_proxy(self) -> ServiceProxy | None:
        api = self._options.api
        if self._processes is None or api is None or not self._runs(PROXY):
            return None
        return ServiceProxy(self._options.network, api=Target(api.host, api.port), but=[DNS])

    async def _nameserver(self) -> str | None:
        """Open what only Pods that run need. Returns the address of their DNS server; None if there is none."""
        if self._services is None:
            return None
        self._services.open_api()
        return await self._dns.nameserver()

    def _controllers(self) -> list[Controller[Any]]:
        live, clock = self._client, self._clock
        grace = timedelta(seconds=self._options.node_grace_seconds)
        known: Mapping[str, Sequence[Controller[Any]]] = {
            "deployment-controller": [deployment_controller(live, clock)],
            "endpoints-controller": [endpoints_controller()],
            "endpointslice-controller": [endpointslice_controller()],
            "endpointslice-mirroring-controller": [endpointslicemirroring_controller()],
            ephemeral.NAME: [ephemeral.ephemeral_volume_controller()],
            "job-controller": [job_controller(live, clock)],
            "namespace-controller": [namespace_controller(live, clock)],
            "node-lifecycle-controller": [
                node_lifecycle_controller(live, clock, simulated=self._runs(KUBELET), grace=grace)
            ],
            "persistentvolume-binder-controller": [claim_controller(), volume_controller(live, provisioner.NAME)],
            "pod-garbage-collector-controller": [pod_garbage_controller(live, clock)],
            "replicaset-controller": [replicaset_controller(live, clock)],
            "serviceaccount-controller": [serviceaccount_controller(self._options.ca)],
            "storage-version-migrator-controller": [storage_version_migrator(live, clock)]
            if self._options.migrates_storage
            else [],
            "taint-eviction-controller": [taint_eviction_controller(clock)],
            "ttl-controller": [ttl_controller()],
            "ttl-after-finished-controller": [ttl_after_finished_controller(clock)],
            SCHEDULER: [replace(scheduler(live, clock), recorder=self._scheduling)],
            KUBELET: [
                kubelet(clock, self._processes),
                node_controller(self._options.version, clock),
                *([volume_cleaner(self._options.processes.folders)] if self._options.processes else []),
            ],
            PROXY: [services.proxy(self._services)] if self._services else [],
            PROVISIONER: [provisioner.provisioner()],
        }
        wanted = (each for name, controllers in known.items() if self._runs(name) for each in controllers)
        return self._events.reporting(unrestricted(wanted))

    async def _register(self) -> None:
        """Create what a cluster has at the start: nodes, and a default storage class."""
        if self._runs(KUBELET):
            await register(self._client, self._options.nodes)
        if self._services is not None:
            await self._dns.register()
        if self._options.metrics:
            await metricsserver.register(self._client)
        if self._runs(PROVISIONER):
            await provisioner.register_default_class(self._client)
