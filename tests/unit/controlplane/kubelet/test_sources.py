"""Inputs of a container: references, fields of its Pod, files, tokens, and the command of its image."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import pytest

from kubewright.apis.core.v1 import Container, Pod, ResourceFieldSelector, ResourceRequirements, ServiceAccount
from kubewright.client._client import Client
from kubewright.client._transport import HandlerTransport
from kubewright.http.message import Peer
from kubewright.machinery.errors import ConfigError
from kubewright.models import codec
from kubewright.testing import Clock, VirtualClock
from kubewright_controlplane.apiserver.server import APIServer
from kubewright_controlplane.kubelet import sources
from kubewright_controlplane.kubelet.images import Image, ImageTable
from kubewright_controlplane.kubelet.process import Reaper
from kubewright_controlplane.kubelet.sandbox import APIAddress, HostFolders, PodSandbox
from kubewright_controlplane.kubelet.volumes import File, Volumes, write_atomically

VALUES = {"A": "a", "B": "$(A)", "": "empty"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)$(B)", "a$(A)"),
        ("$$(A) $$$(A)", "$(A) $a"),
        ("$(NONE) $(A $A $", "$(NONE) $(A $A $"),
        ("$()", "empty"),
    ],
)
def test_references_are_replaced_as_kubernetes_does(text: str, expected: str) -> None:
    assert sources.expand(text, VALUES) == expected


def sandbox(folder: Path, client: Client, clock: Clock) -> PodSandbox:
    return PodSandbox(
        folder=folder,
        address="127.1.0.1",
        host="10.0.0.1",
        nameserver=None,
        allocatable={"cpu": "32", "memory": "4Gi"},
        api=APIAddress("127.0.0.1", 6443),
        folders=HostFolders(folder / "volumes", lambda: None),
        client=client,
        clock=clock,
        reaper=Reaper(),
        image=lambda name: None,
        isolation=None,
        sockets=None,
        pause=None,
        emit=lambda event: None,
        changed=lambda: None,
    )


async def test_the_downward_api_has_fields_of_the_pod(tmp_path: Path) -> None:
    client = Client(transport=HandlerTransport(APIServer().handle))
    shared = sandbox(tmp_path, client, VirtualClock())
    metadata = {"name": "p", "namespace": "n", "uid": "u", "labels": {"b": 'say "x"', "a": "1"}}
    pod = codec.from_dict(Pod, {"metadata": metadata, "spec": {"nodeName": "node-1", "serviceAccountName": "s"}})
    values = {path: sources.pod_field(pod, shared, path) for path in ("metadata.uid", "spec.nodeName", "status.hostIP")}
    assert values == {"metadata.uid": "u", "spec.nodeName": "node-1", "status.hostIP": "10.0.0.1"}
    assert sources.pod_field(pod, shared, "metadata.labels") == 'a="1"\nb="say \\"x\\""'
    assert sources.pod_field(pod, shared, "metadata.labels['b']") == 'say "x"'
    with pytest.raises(KeyError):
        sources.pod_field(pod, shared, "spec.nothing")
    await client.close()


@pytest.mark.parametrize(
    ("resource", "divisor", "expected"),
    [
        ("limits.cpu", "0", "2"),
        ("limits.cpu", "1m", "1200"),
        ("requests.memory", "1Mi", "64"),
        ("limits.memory", "1Gi", "4"),
        ("requests.cpu", None, "0"),
    ],
)
def test_resources_are_in_units_of_the_divisor(resource: str, divisor: str | None, expected: str) -> None:
    declared = ResourceRequirements(limits={"cpu": "1200m"}, requests={"memory": "64Mi"})
    container = Container(name="c", resources=declared)
    allocatable = {"cpu": "32", "memory": "4Gi"}
    selector = ResourceFieldSelector(resource=resource, divisor=divisor)
    assert sources.container_resource(container, allocatable, selector) == expected


def test_all_files_of_a_volume_change_at_once(tmp_path: Path) -> None:
    """A reader that opens the folder once sees the files of one version."""
    done = threading.Event()
    seen: set[tuple[bytes, bytes]] = set()

    def look() -> None:
        while not done.is_set():
            version = tmp_path / (tmp_path / "..data").readlink()
            try:
                seen.add(((version / "a").read_bytes(), (version / "deep/b").read_bytes()))
            except FileNotFoundError:  # the version was removed meanwhile
                continue

    def files(text: bytes) -> dict[str, File]:
        return {"a": File(text, 0o644), "deep/b": File(text, 0o400)}

    write_atomically(tmp_path, files(b"0"))
    reader = threading.Thread(target=look)
    reader.start()
    for number in range(200):
        write_atomically(tmp_path, files(b"%d" % number))
    done.set()
    reader.join()
    assert seen
    assert all(one == other for one, other in seen)
    assert (tmp_path / "a").read_bytes() == b"199"
    assert (tmp_path / "deep/b").stat().st_mode & 0o777 == 0o400
    write_atomically(tmp_path, {"c": File(b"", 0o644)})
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("..")) == ["c"]
    assert len([path for path in tmp_path.iterdir() if path.name.startswith("..")]) == 2


async def test_a_token_is_renewed_before_it_expires(tmp_path: Path) -> None:
    api = APIServer()
    await api.start()
    admin = Peer(common_name="admin", organizations=("system:masters",))
    client, clock = Client(transport=HandlerTransport(api.handle, peer=admin)), VirtualClock()
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s", "namespace": "default"}}
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
    spec = {
        "automountServiceAccountToken": False,
        "containers": [{"name": "c", "image": "i"}],
        "serviceAccountName": "s",
        "volumes": [{"name": "v", "projected": {"sources": [source]}}],
    }
    await client.create(codec.from_dict(ServiceAccount, account))
    document = {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    pod = await client.create(codec.from_dict(Pod, document))
    clock = VirtualClock(start=pod.metadata.creation_timestamp or clock.now())
    volumes = Volumes(sandbox(tmp_path, client, clock))
    await volumes.write(pod)
    first = (tmp_path / "volumes/v/token").read_text()
    await clock.advance(timedelta(minutes=47))
    await volumes.write(pod)
    assert (tmp_path / "volumes/v/token").read_text() == first
    renewal = volumes.renewal
    assert renewal is not None
    await clock.advance(renewal - clock.now())
    await volumes.write(pod)
    assert (tmp_path / "volumes/v/token").read_text() != first
    assert (tmp_path / "volumes/v/token").stat().st_mode & 0o777 == 0o644
    await client.close()
    await api.close()


def test_the_image_table_keeps_entries_and_reports_errors(tmp_path: Path) -> None:
    table = ImageTable(tmp_path / "nodes" / "images.json")
    assert table.get("one") is None
    table.put("one", Image(("run", "it"), env={"A": "b"}))
    table.put("two", Image(("other",)))
    again = ImageTable(table.path)
    assert again.get("one") == Image(("run", "it"), env={"A": "b"})
    table.remove("one")
    assert again.get("one") is None
    assert again.get("two") is not None
    table.path.write_text('{"images": {"x": {"comand": []}}}')
    with pytest.raises(ConfigError, match=r"images.json: .*comand"):
        again.get("x")
