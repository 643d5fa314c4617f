"""The real kube-controller-manager, kube-scheduler and kwok against `kubewright up --bare`."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from integration.command import cluster_of, up
from kubewright import Client
from kubewright.apis.apps.v1 import (
    DaemonSet,
    DaemonSetSpec,
    Deployment,
    DeploymentSpec,
    StatefulSet,
    StatefulSetSpec,
)
from kubewright.apis.autoscaling.v2 import (
    CrossVersionObjectReference,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
)
from kubewright.apis.batch.v1 import CronJob, CronJobSpec, Job, JobSpec, JobTemplateSpec
from kubewright.apis.core.v1 import (
    Container,
    HostPathVolumeSource,
    Namespace,
    Node,
    NodeStatus,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    PodSpec,
    PodTemplateSpec,
    Service,
    ServicePort,
    ServiceSpec,
    VolumeResourceRequirements,
)
from kubewright.apis.discovery.v1 import EndpointSlice
from kubewright.apis.meta.v1 import LabelSelector, ObjectMeta
from kubewright.machinery.errors import ConfigError
from kubewright.testing import eventually
from kubewright_controlplane.real import find_binaries

PROGRAMS = ("kube-controller-manager", "kube-scheduler", "kwok")
NAMESPACE = "work"
EXPECTED = re.compile(
    "the object has been modified"  # a controller is faster than its cache
    "|because it is being terminated"  # StatefulSets and the deletion of their namespace
    "|metrics API|metrics.k8s.io"  # no metrics server runs
    "|The manifest file is empty"  # kwok's own configuration
)
"""Errors that these programs log on a real API server, too."""


@contextmanager
def running(programs: Path, folder: Path, kubeconfig: Path) -> Iterator[None]:
    """Run the programs. Their logs are in `folder`."""
    common = (f"--kubeconfig={kubeconfig}", "--leader-elect=true", "--secure-port=0")
    data = folder / "data"
    stages = [f"--config={stage}" for stage in sorted((programs.parent / "stages").glob("*.yaml"))]
    commands: dict[str, Sequence[str]] = {
        "kube-controller-manager": (
            *common,
            f"--root-ca-file={data / 'ca.crt'}",
            f"--service-account-private-key-file={data / 'service-account.key'}",
            f"--cluster-signing-cert-file={data / 'ca.crt'}",
            f"--cluster-signing-key-file={data / 'ca.key'}",
            "--use-service-account-credentials",
        ),
        "kube-scheduler": common,
        "kwok": (f"--kubeconfig={kubeconfig}", "--manage-all-nodes", "--node-lease-duration-seconds=40", *stages),
    }
    with ExitStack() as stack:
        for name, arguments in commands.items():
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen((programs / name, *arguments), stdout=log, stderr=log, cwd=folder)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def errors(folder: Path) -> list[str]:
    """Return the errors in the logs of the programs, except expected ones."""
    lines = [line for name in PROGRAMS for line in (folder / f"{name}.log").read_text(errors="replace").splitlines()]
    return [line for line in lines if re.match("[EF][0-9]|panic", line) and not EXPECTED.search(line)]


@pytest.mark.long
async def test_the_real_controllers_run_against_the_bare_server(tmp_path: Path) -> None:
    try:
        programs = find_binaries(*PROGRAMS)
    except ConfigError as error:
        pytest.skip(str(error))
    with (
        up(tmp_path, "--bare", "--data", tmp_path / "data") as started,
        running(programs, tmp_path, started.kubeconfig),
    ):
        async with cluster_of(started) as cluster:
            client = cluster.client
            for number in range(2):
                capacity = {"cpu": "8", "memory": "32Gi", "pods": "100"}
                await client.create(
                    Node(
                        metadata=ObjectMeta(name=f"node-{number}"),
                        status=NodeStatus(capacity=capacity, allocatable=capacity),
                    )
                )
            await client.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
            await roll_out(client)
            await client.delete(Namespace, NAMESPACE)

            async def is_gone() -> None:
                assert await client.get_or_none(Namespace, NAMESPACE) is None

            await eventually(is_gone)
    assert errors(tmp_path) == []


async def roll_out(client: Client) -> None:
    """Create workloads, and wait until all of them do what they should."""
    selector, template = LabelSelector(match_labels={"app": "web"}), pods("Always")
    job = JobSpec(template=pods("Never"))
    for obj in (
        Deployment(metadata=meta("web"), spec=DeploymentSpec(replicas=2, selector=selector, template=template)),
        Service(metadata=meta("web"), spec=ServiceSpec(selector={"app": "web"}, ports=[ServicePort(port=80)])),
        StatefulSet(
            metadata=meta("db"),
            spec=StatefulSetSpec(replicas=2, service_name="web", selector=selector, template=template),
        ),
        DaemonSet(metadata=meta("agent"), spec=DaemonSetSpec(selector=selector, template=template)),
        Job(metadata=meta("once"), spec=job),
        CronJob(metadata=meta("often"), spec=CronJobSpec(schedule="* * * * *", job_template=JobTemplateSpec(spec=job))),
        HorizontalPodAutoscaler(
            metadata=meta("web"),
            spec=HorizontalPodAutoscalerSpec(
                min_replicas=3,
                max_replicas=5,
                scale_target_ref=CrossVersionObjectReference(api_version="apps/v1", kind="Deployment", name="web"),
            ),
        ),
        PersistentVolume(
            metadata=ObjectMeta(name="disk"),
            spec=PersistentVolumeSpec(
                capacity={"storage": "1Gi"},
                access_modes=["ReadWriteOnce"],
                host_path=HostPathVolumeSource(path="/tmp/disk"),
            ),
        ),
        PersistentVolumeClaim(
            metadata=meta("data"),
            spec=PersistentVolumeClaimSpec(
                access_modes=["ReadWriteOnce"],
                storage_class_name="",
                resources=VolumeResourceRequirements(requests={"storage": "1Gi"}),
            ),
        ),
    ):
        await client.create(obj)

    async def is_rolled_out() -> None:
        deployment = await client.get(Deployment, "web", namespace=NAMESPACE)
        assert deployment.status.available_replicas == 3  # the autoscaler's minimum
        assert (await client.get(StatefulSet, "db", namespace=NAMESPACE)).status.ready_replicas == 2
        assert (await client.get(DaemonSet, "agent", namespace=NAMESPACE)).status.number_ready == 2
        assert (await client.get(Job, "once", namespace=NAMESPACE)).status.succeeded == 1
        assert (await client.get(CronJob, "often", namespace=NAMESPACE)).status.last_successful_time
        assert (await client.get(PersistentVolumeClaim, "data", namespace=NAMESPACE)).status.phase == "Bound"
        slices = await client.list(EndpointSlice, namespace=NAMESPACE)
        assert sum(len(each.endpoints) for each in slices) == 7

    await eventually(is_rolled_out)


def pods(restart_policy: str) -> PodTemplateSpec:
    containers = [Container(name="main", image="nginx")]
    metadata = ObjectMeta(labels={"app": "web"} if restart_policy == "Always" else {})
    return PodTemplateSpec(metadata=metadata, spec=PodSpec(containers=containers, restart_policy=restart_policy))


def meta(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=NAMESPACE)
