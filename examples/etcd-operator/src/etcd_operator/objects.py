"""The objects of a cluster: a Pod, a claim and a Service for each member, and a Service and a budget for all.

The address of a member's Service stays when its Pod is replaced. Members know each other by it, and the
operator finds them by it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Final

import msgspec
from kubewright import ObjectMeta
from kubewright.apis.core import v1 as core
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.apis.policy.v1 import PodDisruptionBudget, PodDisruptionBudgetSpec
from kubewright.machinery.quantity import Quantity

from etcd_operator.api.v1.etcdcluster import EtcdCluster

CLUSTER: Final = "etcd.kubewright.dev/cluster"
EPOCH: Final = "etcd.kubewright.dev/epoch"
MEMBER: Final = "etcd.kubewright.dev/member"
TASK: Final = "etcd.kubewright.dev/task"
TEMPLATE: Final = "etcd.kubewright.dev/template"
"""The hash of what a Pod was made from. A Pod with another hash is replaced."""
TRUSTED: Final = "etcd.kubewright.dev/trusted"
"""The hash of the authorities that a Pod has trusted since its start. A Pod with another hash is replaced."""
INITIAL_CLUSTER: Final = "etcd.kubewright.dev/initial-cluster"
INITIAL_STATE: Final = "etcd.kubewright.dev/initial-cluster-state"

CLIENT_PORT: Final = 2379
PEER_PORT: Final = 2380
METRICS_PORT: Final = 2381
_DATA: Final = "var/lib/etcd"
"""Paths are relative to the root folder, in which a container starts."""
DATA_FOLDER: Final = f"{_DATA}/data"
_TLS: Final = "etc/etcd/tls"
_TASK_RESOURCES: Final = core.ResourceRequirements(requests={"cpu": "50m", "memory": "128Mi"}, limits={"memory": "1Gi"})
"""Of the Pods of backups and restores, which stream a database or map it into memory."""


def labels_for(cluster: EtcdCluster) -> dict[str, str]:
    return {CLUSTER: cluster.metadata.name, EPOCH: str(cluster.status.epoch.number)}


def member_labels(cluster: EtcdCluster, name: str) -> dict[str, str]:
    return {**labels_for(cluster), MEMBER: name}


def image_for(cluster: EtcdCluster, version: str = "") -> str:
    """Return the image of a version, by default of that in the spec."""
    return f"{cluster.spec.image}:v{version or cluster.spec.version}"


def scheme_for(cluster: EtcdCluster) -> str:
    return "https" if cluster.spec.tls.enabled else "http"


def url(cluster: EtcdCluster, host: str, port: int) -> str:
    return f"{scheme_for(cluster)}://{f'[{host}]' if ':' in host else host}:{port}"


def endpoint_for(cluster: EtcdCluster) -> str:
    return url(cluster, host_for(cluster), CLIENT_PORT)


def host_for(cluster: EtcdCluster) -> str:
    return f"{cluster.metadata.name}.{cluster.metadata.namespace}.svc"


def hosts_for(cluster: EtcdCluster, name: str, address: str) -> list[str]:
    """Return the names and addresses in the certificate of a member."""
    services = [f"{each}.{cluster.metadata.namespace}.svc" for each in (cluster.metadata.name, name)]
    return ["localhost", *services, *(f"{each}.cluster.local" for each in services), address]


# ---- Services, budget and claims


def client_service(cluster: EtcdCluster) -> core.Service:
    """Return the Service for clients. It has the ready members of the current epoch."""
    spec = _service_spec(labels_for(cluster), client=CLIENT_PORT)
    return core.Service(metadata=_meta(cluster, cluster.metadata.name, labels_for(cluster)), spec=spec)


def member_service(cluster: EtcdCluster, name: str, address: str = "") -> core.Service:
    """Return the Service of one member, at `address` if it has to have that one again."""
    spec = _service_spec(member_labels(cluster, name), client=CLIENT_PORT, peer=PEER_PORT)
    spec.cluster_ip, spec.publish_not_ready_addresses = address or None, True
    return core.Service(metadata=_meta(cluster, name, member_labels(cluster, name)), spec=spec)


def repaired_service(live: core.Service, wanted: core.Service) -> core.Service | None:
    """Return a Service with what its cluster needs in its spec; None if nothing of that was changed."""
    repaired = deepcopy(live)
    for name in (
        "type",
        "external_name",
        "internal_traffic_policy",
        "ports",
        "publish_not_ready_addresses",
        "selector",
    ):
        setattr(repaired.spec, name, getattr(wanted.spec, name))
    return repaired if repaired.spec != live.spec else None


def _service_spec(labels: Mapping[str, str], **ports: int) -> core.ServiceSpec:
    return core.ServiceSpec(
        internal_traffic_policy="Cluster",
        ports=[
            core.ServicePort(name=name, port=port, protocol="TCP", target_port=port) for name, port in ports.items()
        ],
        selector={**labels, TASK: "member"},
        type="ClusterIP",
    )


def disruption_budget(cluster: EtcdCluster) -> PodDisruptionBudget:
    """Return the budget that lets one member at a time be evicted, and none that the quorum needs."""
    selector = LabelSelector(match_labels={CLUSTER: cluster.metadata.name, TASK: "member"})
    needed = cluster.spec.size // 2 + 1
    return PodDisruptionBudget(
        metadata=_meta(cluster, cluster.metadata.name, {CLUSTER: cluster.metadata.name}),
        spec=PodDisruptionBudgetSpec(min_available=max(needed, cluster.spec.size - 1), selector=selector),
    )


def volume_size(cluster: EtcdCluster, quota: int) -> Quantity:
    """Return the size of a claim: that of the spec, and two bytes for each byte that the quota has grown.

    A defragmentation writes a second copy of the database.
    """
    grown = Quantity.from_int(2 * (quota - cluster.spec.quota_bytes), "BinarySI")
    return Quantity.of(cluster.spec.storage.size) + grown


def resources_for(cluster: EtcdCluster) -> core.ResourceRequirements | None:
    """Return the resources of etcd: those of the spec, and as much memory as the quota has grown."""
    stated, grown = cluster.spec.pod_template.resources, cluster.quota_bytes - cluster.spec.quota_bytes
    if stated is None or not grown:
        return stated
    resources, more = deepcopy(stated), Quantity.from_int(grown, "BinarySI")
    for each in (resources.requests, resources.limits):
        if "memory" in each:
            each["memory"] = str(Quantity.of(each["memory"]) + more)
    return resources


def claim_for(cluster: EtcdCluster, name: str) -> core.PersistentVolumeClaim:
    storage = cluster.spec.storage
    return core.PersistentVolumeClaim(
        metadata=_meta(cluster, name, member_labels(cluster, name)),
        spec=core.PersistentVolumeClaimSpec(
            access_modes=["ReadWriteOnce"],
            resources=core.VolumeResourceRequirements(
                requests={"storage": str(volume_size(cluster, cluster.quota_bytes))}
            ),
            storage_class_name=storage.storage_class_name,
        ),
    )


# ---- Pods


def template_hash(cluster: EtcdCluster) -> str:
    """Return a hash of all of the spec that the Pods are made from, without the version."""
    spec = cluster.spec
    source = (spec.image, spec.options, cluster.quota_bytes, spec.tls.enabled, spec.pod_template)
    return hashlib.sha256(msgspec.json.encode(source, order="deterministic")).hexdigest()[:10]


def member_pod(cluster: EtcdCluster, name: str, address: str, initial: Mapping[str, str], version: str) -> core.Pod:
    """Return the Pod of a member. `initial` has the annotations for its first start: `first_start` or `later_start`."""
    template = cluster.spec.pod_template
    annotations = {**template.annotations, TEMPLATE: template_hash(cluster), **initial}
    metadata = _meta(cluster, name, {**template.labels, **member_labels(cluster, name), TASK: "member"})
    metadata.annotations = annotations
    volumes = [_claim_volume("data", name)]
    mounts = [core.VolumeMount(name="data", mount_path=f"/{_DATA}")]
    if cluster.spec.tls.enabled:
        volumes.append(core.Volume(name="tls", secret=core.SecretVolumeSource(secret_name=f"{name}-tls")))
        mounts.append(core.VolumeMount(name="tls", mount_path=f"/{_TLS}", read_only=True))
    container = core.Container(
        name="etcd",
        image=image_for(cluster, version),
        command=["etcd"],
        args=[f"--{key}={value}" for key, value in options_for(cluster, name, address).items()],
        env=[
            _from_pod("POD_IP", "status.podIP"),
            _from_pod("ETCD_INITIAL_CLUSTER", f"metadata.annotations['{INITIAL_CLUSTER}']"),
            _from_pod("ETCD_INITIAL_CLUSTER_STATE", f"metadata.annotations['{INITIAL_STATE}']"),
        ],
        ports=[
            core.ContainerPort(name="client", container_port=CLIENT_PORT),
            core.ContainerPort(name="peer", container_port=PEER_PORT),
            core.ContainerPort(name="metrics", container_port=METRICS_PORT),
        ],
        readiness_probe=_probe("/readyz", period=2, failures=3),
        liveness_probe=_probe("/livez", period=10, failures=6),
        resources=resources_for(cluster),
        security_context=_unprivileged(),
        working_dir="/",
        volume_mounts=mounts,
    )
    spec = core.PodSpec(
        affinity=template.affinity or _apart(cluster),
        automount_service_account_token=False,
        containers=[container],
        node_selector=template.node_selector,
        priority_class_name=template.priority_class_name,
        tolerations=template.tolerations,
        topology_spread_constraints=template.topology_spread_constraints,
        volumes=volumes,
    )
    return core.Pod(metadata=metadata, spec=spec)


def trust_of(bundle: bytes) -> dict[str, str]:
    """Return the annotation for a Pod that trusts these authorities."""
    return {TRUSTED: hashlib.sha256(bundle).hexdigest()[:10]}


def first_start(members: Mapping[str, str], state: str) -> dict[str, str]:
    """Return the annotations for a member that has no data yet: it begins, or joins, these members (name: URL)."""
    return {INITIAL_CLUSTER: ",".join(f"{name}={peer}" for name, peer in members.items()), INITIAL_STATE: state}


def later_start(name: str, peer_url: str) -> dict[str, str]:
    """Return the annotations for a member that has started once. etcd reads the membership from its data.

    If the data is gone, the member must not start: it would vote again on what it has voted on. With itself as the only
    peer, it finds no cluster to join, and ends.
    """
    return first_start({name: peer_url}, "existing")


def options_for(cluster: EtcdCluster, name: str, address: str) -> dict[str, str]:
    """Return the options of etcd for a member."""
    options = {
        **cluster.spec.options,
        "name": name,
        "data-dir": DATA_FOLDER,
        "listen-client-urls": url(cluster, "$(POD_IP)", CLIENT_PORT),
        "listen-peer-urls": url(cluster, "$(POD_IP)", PEER_PORT),
        "listen-metrics-urls": f"http://$(POD_IP):{METRICS_PORT}",
        "advertise-client-urls": url(cluster, address, CLIENT_PORT),
        "initial-advertise-peer-urls": url(cluster, address, PEER_PORT),
        "initial-cluster-token": token_for(cluster),
        "quota-backend-bytes": str(cluster.quota_bytes),
    }
    if cluster.spec.tls.enabled:
        for prefix in ("", "peer-"):
            options |= {
                f"{prefix}cert-file": f"{_TLS}/tls.crt",
                f"{prefix}key-file": f"{_TLS}/tls.key",
                f"{prefix}trusted-ca-file": f"{_TLS}/ca.crt",
                f"{prefix}client-cert-auth": "true",
            }
        options["peer-skip-client-san-verification"] = "true"  # a connection comes from the Pod, not from its Service
    return options


def token_for(cluster: EtcdCluster) -> str:
    return f"{cluster.metadata.uid}-{cluster.status.epoch.number}"


def restore_pod(cluster: EtcdCluster, name: str, address: str, claim: str, file: str, revisions: int) -> core.Pod:
    """Return the Pod that makes the data of the first member from the file of a backup."""
    peer = url(cluster, address, PEER_PORT)
    container = core.Container(
        name="restore",
        image=image_for(cluster),
        command=["etcdutl", "snapshot", "restore", f"backup/{file}"],
        args=[
            f"--name={name}",
            f"--data-dir={DATA_FOLDER}",
            f"--initial-cluster={name}={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster-token={token_for(cluster)}",
            f"--bump-revision={revisions}",
            "--mark-compacted",
        ],
        resources=_TASK_RESOURCES,
        security_context=_unprivileged(),
        working_dir="/",
        volume_mounts=[
            core.VolumeMount(name="data", mount_path=f"/{_DATA}"),
            core.VolumeMount(name="backup", mount_path="/backup", read_only=True),
        ],
    )
    volumes = [_claim_volume("data", name), _claim_volume("backup", claim)]
    return core.Pod(
        metadata=_meta(cluster, f"{name}-restore", {**member_labels(cluster, name), TASK: "restore"}),
        spec=_task(container, volumes),
    )


def agent_pod(metadata: ObjectMeta, image: str, arguments: Sequence[str], claim: str, secret: str = "") -> core.Pod:
    """Return a Pod that runs a command of this operator's `agent`, with the volume of `claim`, and certificates."""
    volumes = [_claim_volume("backup", claim)]
    mounts = [core.VolumeMount(name="backup", mount_path="/backup")]
    if secret:
        volumes.append(core.Volume(name="tls", secret=core.SecretVolumeSource(secret_name=secret)))
        mounts.append(core.VolumeMount(name="tls", mount_path=f"/{_TLS}", read_only=True))
    container = core.Container(
        name="agent",
        image=image,
        command=["python", "-m", "etcd_operator.agent"],
        args=[*arguments, "--folder=backup", *([f"--tls={_TLS}"] if secret else [])],
        resources=_TASK_RESOURCES,
        security_context=_unprivileged(),
        working_dir="/",
        volume_mounts=mounts,
    )
    return core.Pod(metadata=metadata, spec=_task(container, volumes))


def _task(container: core.Container, volumes: list[core.Volume]) -> core.PodSpec:
    return core.PodSpec(
        automount_service_account_token=False, containers=[container], restart_policy="Never", volumes=volumes
    )


def _meta(cluster: EtcdCluster, name: str, labels: dict[str, str]) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=cluster.metadata.namespace, labels=labels)


def _claim_volume(name: str, claim: str) -> core.Volume:
    return core.Volume(name=name, persistent_volume_claim=core.PersistentVolumeClaimVolumeSource(claim_name=claim))


def _from_pod(name: str, path: str) -> core.EnvVar:
    return core.EnvVar(name=name, value_from=core.EnvVarSource(field_ref=core.ObjectFieldSelector(field_path=path)))


def _probe(path: str, *, period: int, failures: int) -> core.Probe:
    return core.Probe(
        http_get=core.HTTPGetAction(path=path, port=METRICS_PORT),
        period_seconds=period,
        timeout_seconds=5,
        failure_threshold=failures,
    )


def _unprivileged() -> core.SecurityContext:
    return core.SecurityContext(allow_privilege_escalation=False, capabilities=core.Capabilities(drop=["ALL"]))


def _apart(cluster: EtcdCluster) -> core.Affinity:
    """Return the affinity that prefers a node for each member."""
    selector = LabelSelector(match_labels={CLUSTER: cluster.metadata.name, TASK: "member"})
    term = core.PodAffinityTerm(label_selector=selector, topology_key="kubernetes.io/hostname")
    preferred = [core.WeightedPodAffinityTerm(weight=100, pod_affinity_term=term)]
    return core.Affinity(
        pod_anti_affinity=core.PodAntiAffinity(preferred_during_scheduling_ignored_during_execution=preferred)
    )
