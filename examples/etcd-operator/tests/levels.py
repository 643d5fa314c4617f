"""What `kubewright levels` cannot know of this operator: versions, backups, and experiments with real etcds.

The members run as processes on this machine: `make controlplane` in the root of Kubewright builds etcd.
"""

import asyncio
import os
import signal
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from kubewright.apis.core.v1 import PersistentVolumeClaim, Pod, Service
from kubewright.client import Unstructured
from kubewright.testing import eventually
from kubewright.testing.levels import Backup, Declaration, Lab, Upgrade

from etcd_operator import objects
from etcd_operator.etcd import Etcd, Refused, Unreachable
from etcd_operator.local import NEW, OLD, images

API = "etcd.kubewright.dev/v1"
MEGABYTE = 1 << 20
RESOURCES = {"resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}}


# ---- etcd, as its clients use it


@asynccontextmanager
async def connected(lab: Lab, cluster: str = "main") -> AsyncGenerator[Etcd]:
    service = await lab.client.get(Service, cluster, namespace=lab.namespace)
    async with Etcd(f"http://{service.spec.cluster_ip}:{objects.CLIENT_PORT}") as etcd:
        yield etcd


async def put(lab: Lab, key: str, value: str, cluster: str = "main", *, within: float = 5) -> None:
    """Write a key, and try again for some seconds, as etcd's clients do."""

    async def once() -> None:
        async with connected(lab, cluster) as etcd:
            try:
                await etcd.put(key, value)
            except (Unreachable, Refused) as error:
                raise AssertionError(str(error)) from error

    await eventually(once, within=within)


async def get(lab: Lab, key: str, cluster: str = "main") -> str:
    async with connected(lab, cluster) as etcd:
        try:
            found = (await etcd.get(key)).kvs
        except (Unreachable, Refused) as error:
            raise AssertionError(str(error)) from error
    return found[0].value.decode() if found else ""


async def pods_of(lab: Lab, cluster: str) -> list[Pod]:
    labels = {objects.CLUSTER: cluster, objects.TASK: "member"}
    return list(await lab.client.list(Pod, namespace=lab.namespace, labels=labels))


async def lose_volumes(lab: Lab, cluster: str, count: int) -> None:
    """Delete the volumes of members, and their Pods, as when their nodes and disks are gone."""
    for pod in (await pods_of(lab, cluster))[-count:]:
        lab.did("deleted its volume and the Pod", f"Pod/{pod.metadata.name}")
        await lab.client.delete(PersistentVolumeClaim, pod.metadata.name, namespace=lab.namespace)
        await lab.client.delete(pod, grace_period=0)


async def create(lab: Lab, kind: str, name: str, **spec: Any) -> Unstructured:
    return await lab.create({"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec})


async def write_load(lab: Lab) -> None:
    await put(lab, "load", "x")


async def member_metrics(lab: Lab) -> str:
    [pod, *_] = await pods_of(lab, "main")
    url = f"http://{pod.status.pod_ip}:{objects.METRICS_PORT}/metrics"

    def fetch() -> str:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())

    return await asyncio.to_thread(fetch)


# ---- backup and restore: all volumes of the cluster are lost


async def write(lab: Lab) -> None:
    await put(lab, "color", "red")


async def read(lab: Lab) -> str:
    return await get(lab, "color")


async def back_up(lab: Lab) -> None:
    await lab.until_ready(await create(lab, "EtcdBackup", "before", cluster="main", claim="backups"))


async def lose_everything(lab: Lab) -> None:
    await lose_volumes(lab, "main", 9)


async def restore(lab: Lab) -> None:
    await lab.until_ready(await create(lab, "EtcdRestore", "after", cluster="main", backup="before"))


# ---- level V


async def scales(lab: Lab) -> None:
    """Fill a small cluster, and empty it again: quota and memory follow."""
    small = await create(
        lab,
        "EtcdCluster",
        "small",
        size=1,
        version=NEW,
        quotaBytes=16 * MEGABYTE,
        autoscaling={"maxQuotaBytes": 64 * MEGABYTE, "shrinkAfterSeconds": 2},
        maintenance={"compactionRevisions": 2, "defragmentMinBytes": MEGABYTE},
        podTemplate=RESOURCES,
    )
    await lab.until_ready(small)
    await fill(lab, 14)
    await lab.until(lambda: has_quota(lab, small, 32))
    await lab.until_ready(small)
    lab.did("overwrite the data with empty values", "EtcdCluster/small")
    for number in range(14):
        await put(lab, f"large-{number}", "", "small")
    await lab.until(lambda: has_quota_under_load(lab, small, 16))
    await lab.until_ready(small)


async def tunes(lab: Lab) -> None:
    """Fill the small cluster further: its volume is expanded before its quota grows."""
    small = await lab.get(API, "EtcdCluster", "small")
    await fill(lab, 14)
    await lab.until(lambda: has_quota(lab, small, 32))
    await lab.until_ready(small)
    await fill(lab, 27)
    await lab.until(lambda: has_quota(lab, small, 64))
    await lab.until_ready(small)


async def fill(lab: Lab, megabytes: int) -> None:
    lab.did(f"write {megabytes} MB", "EtcdCluster/small")
    for number in range(megabytes):
        await put(lab, f"large-{number}", "x" * MEGABYTE, "small", within=60)  # the quota may grow meanwhile


def has_quota(lab: Lab, small: Unstructured, megabytes: int) -> None:
    version = lab.version_of(small)
    assert version is not None
    quota = version.document["status"].get("quotaBytes")
    assert quota == megabytes * MEGABYTE, f"status.quotaBytes is {quota}"


async def has_quota_under_load(lab: Lab, small: Unstructured, megabytes: int) -> None:
    """Write now and then: etcd counts pages as free only after a next write."""
    await put(lab, "load", "x", "small", within=60)
    has_quota(lab, small, megabytes)


async def heals(lab: Lab) -> None:
    """Lose the majority of a cluster that allows the operator to recover: its data is there afterwards."""
    frail = await create(
        lab,
        "EtcdCluster",
        "frail",
        size=3,
        version=NEW,
        quorumRecovery={"enabled": True, "afterSeconds": 3, "backupClaim": "backups"},
        podTemplate=RESOURCES,
    )
    await lab.until_ready(frail)
    await put(lab, "color", "red", "frail")
    await lose_volumes(lab, "frail", 2)
    await lab.until(lambda: in_second_epoch(lab, frail))
    await lab.until_ready(frail)
    found = await get(lab, "color", "frail")
    lab.saw(f"color is {found}", "EtcdCluster/frail")
    assert found == "red", f"the recovered cluster has the value {found!r}"


def in_second_epoch(lab: Lab, cluster: Unstructured) -> None:
    version = lab.version_of(cluster)
    assert version is not None
    assert version.document["status"]["epoch"].get("number") == 1, "no recovery has begun"


async def detects(lab: Lab) -> None:
    """Stop the process of a member for most of the time, so that it answers late."""
    status = (await lab.get(API, "EtcdCluster", "main")).content["status"]
    victim = next(each for each in status["members"] if not each.get("leader"))
    name, usual = victim["name"], victim.get("usualMilliseconds", 0)
    assert usual, f"the operator has not learned yet how fast {name} usually answers"
    pause = min(max(usual * 40 / 1000, 0.6), 2.6)
    lab.did(f"stop its process for {pause:g} s again and again; it usually answers in {usual} ms", f"Pod/{name}")
    process = process_of(name, lab.sample("EtcdCluster").metadata.uid or "")
    hindrance = asyncio.create_task(hinder(process, pause, max(usual * 2 / 1000, 0.05)))
    try:
        await lab.until(lambda: reported_slow(lab, name), within=300)
    finally:
        hindrance.cancel()
        with suppress(asyncio.CancelledError):
            await hindrance
    lab.did("let it run as before", f"Pod/{name}")
    await lab.until_ready()


def reported_slow(lab: Lab, name: str) -> None:
    notes = [str(each.document.get("note")) for each in lab.recorder.now("Event")]
    assert any(each.startswith(f"{name} answers in") for each in notes), f"{name} was not reported as slow"


async def hinder(process: int, pause: float, run: float) -> None:
    """Stop a process again and again. In between, it runs for long enough to answer: a lost answer is not a slow one."""
    try:
        while True:
            os.kill(process, signal.SIGSTOP)
            await asyncio.sleep(pause)
            os.kill(process, signal.SIGCONT)
            await asyncio.sleep(run)
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)


def process_of(member: str, cluster: str) -> int:
    """Return the process of a member of the cluster with this uid."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes().decode().split("\0")
        except OSError:  # it has ended
            continue
        is_member = arguments[0].endswith("etcd") and f"--name={member}" in arguments
        if is_member and any(each.startswith(f"--initial-cluster-token={cluster}") for each in arguments):
            return int(folder.name)
    raise AssertionError(f"no process of etcd {member} runs on this machine")


declaration = Declaration(
    images=images(),
    ready={"EtcdCluster": "Ready"},
    load=write_load,
    upgrade=Upgrade("EtcdCluster", "spec.version", old=OLD, new=NEW, unsupported="3.9.0"),
    backup=Backup(write=write, take=back_up, lose=lose_everything, restore=restore, read=read),
    health_metric="etcd_operator_ready",
    operand_metrics=member_metrics,
    dashboards=["monitoring/dashboard.json"],
    scales=scales,
    heals=heals,
    tunes=tunes,
    detects=detects,
    timeout=120,
)
