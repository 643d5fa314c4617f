"""The real control plane: etcd, kube-apiserver and optionally the controllers, the scheduler and simulated nodes.

It uses free loopback ports and one temporary folder, and is removed at the end of the block. If this process dies, a
watchdog process removes it.

The binaries come from the folder in `KUBEBUILDER_ASSETS`, as in envtest, or else from the cache that `make
controlplane` fills.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final

from kubewright.client._config import Config, write_kubeconfig
from kubewright.http.client import HTTPClient
from kubewright.http.message import Request
from kubewright.machinery.errors import ConfigError, ConnectionFailed, DeadlineExceeded
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.pki import CertificateAuthority, KeyPair
from kubewright_controlplane.ports import free_port
from kubewright_controlplane.processnode import LABEL as PROCESSES

SIMULATED: Final = {"type": "kwok"}
"""The label of the initial nodes."""
_BARE: Final = ("etcd", "kube-apiserver")
_CONTROLLERS: Final = ("kube-controller-manager", "kube-scheduler", "kwok")

_POD_DELETE: Final[JSONObject] = {
    "apiVersion": "kwok.x-k8s.io/v1alpha1",
    "kind": "Stage",
    "metadata": {"name": "pod-delete"},
    "spec": {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {
            "matchExpressions": [{"key": ".metadata | select(.deletionGracePeriodSeconds > 0)", "operator": "Exists"}]
        },
        "next": {"delete": True},
    },
}
"""Replaces kwok's stage of that name. The API server deletes a Pod without a grace period. kwok deletes by name,
sometimes too late, and would delete a new Pod of the same name.
"""

_READY_WITHIN: Final = 60.0
_STOPPED_WITHIN: Final = 15.0

_WATCHDOG: Final = """
trap '' INT TERM HUP
read -r _ && exit 0
kill -TERM 0
sleep 1
rm -rf -- "$0"
kill -KILL 0
"""
"""Waits for a line. If the input ends without one, this process died: the watchdog kills the group and removes the
folder.
"""


def find_binaries(*names: str) -> Path:
    """Return the folder with the binaries `names`: `KUBEBUILDER_ASSETS` if it is set, or else the cache.

    Raises ConfigError if one is missing.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kubewright", "controlplane", "current")
    folder = Path(assets) if assets else cache / "bin"
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        origin = "KUBEBUILDER_ASSETS" if assets else "the cache"
        raise ConfigError(
            f"no real control plane: {origin} ({folder}) lacks {', '.join(missing)}. "
            "`make controlplane` builds what is needed and prints its folder; it requires Go"
        )
    return folder.resolve()


class RealControlPlane:
    """A real control plane while the block lasts.

        async with RealControlPlane() as control_plane:
            subprocess.run(["kubectl", "--kubeconfig", control_plane.kubeconfig, "get", "nodes"])

    Without `controllers`, only etcd and the API server run, as under envtest: no ServiceAccounts are created, and Pods
    are admitted without one. Otherwise the controller manager and the scheduler run too, and `nodes` nodes whose Pods
    become ready (by kwok). `api_server_arguments` and `controller_manager_arguments` are appended to the command lines
    of these programs.

    Raises ConfigError if the binaries are missing, and DeadlineExceeded if a part is not ready within a minute, with
    the last lines of its log.
    """

    def __init__(
        self,
        *,
        controllers: bool = True,
        nodes: int = 2,
        api_server_arguments: Sequence[str] = (),
        controller_manager_arguments: Sequence[str] = (),
    ) -> None:
        self._controllers = controllers
        self._nodes = nodes
        self._api_server_arguments = tuple(api_server_arguments)
        self._controller_manager_arguments = tuple(controller_manager_arguments)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def config(self) -> Config:
        """How to reach the API server as a member of system:masters, by a token."""
        return self._config

    @property
    def kubeconfig(self) -> Path:
        """The same as a kubeconfig file."""
        return self._folder / "admin.kubeconfig"

    @property
    def etcd(self) -> str:
        """The URL of etcd, for tests that bypass the API server."""
        return self._etcd

    @property
    def pids(self) -> dict[str, int]:
        """The process ID of each part by the name of its program, for tests that measure or disturb it."""
        return {name: process.pid for name, process in self._processes.items()}

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig for `user`, a member of `groups`, with a client certificate."""
        pair = self._authority.issue_client(user, groups)
        path = self._folder / f"{secrets.token_hex(4)}.kubeconfig"
        write_kubeconfig(replace(self._config, token=None, client_cert=pair.certificate, client_key=pair.key), path)
        return path

    async def restart_api_server(self) -> None:
        """Kill the API server and start it again at its address. Returns when it is ready."""
        crashed = self._processes["kube-apiserver"]
        crashed.kill()
        crashed.wait()
        self._run("kube-apiserver", *self._api_server)
        await self._wait_ready("kube-apiserver", self._client(), "/readyz")

    async def __aenter__(self) -> RealControlPlane:
        self._binaries = find_binaries(*_BARE, *(_CONTROLLERS if self._controllers else ()))
        self._folder = Path(tempfile.mkdtemp(prefix="kubewright-"))
        self._watchdog = _start_watchdog(self._folder)
        try:
            await self._start_etcd()
            await self._start_api_server()
            if self._controllers:
                await self._start_controllers()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stop()

    async def _start_etcd(self) -> None:
        self._etcd, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._run(
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={self._etcd}",
            f"--advertise-client-urls={self._etcd}",
            f"--listen-peer-urls={peers}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        await self._wait_ready("etcd", HTTPClient(self._etcd), "/health")

    async def _start_api_server(self) -> None:
        port = free_port()
        token = secrets.token_hex(16)
        self._authority = CertificateAuthority.kept_in(self._folder)
        self._write_pair("serving", self._authority.issue_server(("kubernetes.default.svc", "localhost", "127.0.0.1")))
        self._write_pair("service-accounts", self._authority.issue_client("service-accounts"))
        kubelet_client = self._authority.issue_client("kube-apiserver-kubelet-client", ("system:masters",))
        self._write_pair("kubelet-client", kubelet_client)
        front_proxy = CertificateAuthority.create("front-proxy-ca")
        self._write("front-proxy-ca.crt", front_proxy.certificate)
        self._write_pair("front-proxy", front_proxy.issue_client("front-proxy-client"))
        self._write("tokens.csv", f'{token},admin,admin,"system:masters"\n'.encode())
        self._config = Config(f"https://127.0.0.1:{port}", ca=self._authority.certificate, token=token)
        write_kubeconfig(self._config, self.kubeconfig)
        without = () if self._controllers else ("--disable-admission-plugins=ServiceAccount",)
        self._api_server = (
            f"--etcd-servers={self._etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self._folder}",
            f"--tls-cert-file={self._folder / 'serving.crt'}",
            f"--tls-private-key-file={self._folder / 'serving.key'}",
            f"--client-ca-file={self._folder / 'ca.crt'}",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--service-account-issuer={self._config.server}",
            f"--service-account-key-file={self._folder / 'service-accounts.crt'}",
            f"--service-account-signing-key-file={self._folder / 'service-accounts.key'}",
            f"--service-cluster-ip-range={ServerOptions.service_cidr}",
            f"--kubelet-client-certificate={self._folder / 'kubelet-client.crt'}",
            f"--kubelet-client-key={self._folder / 'kubelet-client.key'}",
            f"--requestheader-client-ca-file={self._folder / 'front-proxy-ca.crt'}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-uid-headers=X-Remote-Uid",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self._folder / 'front-proxy.crt'}",
            f"--proxy-client-key-file={self._folder / 'front-proxy.key'}",
            "--allow-privileged=true",
            *without,
            *self._api_server_arguments,
        )
        self._run("kube-apiserver", *self._api_server)
        await self._wait_ready("kube-apiserver", self._client(), "/readyz")

    async def _start_controllers(self) -> None:
        common = (f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--secure-port=0")
        self._run(
            "kube-controller-manager",
            *common,
            f"--root-ca-file={self._folder / 'ca.crt'}",
            f"--service-account-private-key-file={self._folder / 'service-accounts.key'}",
            f"--cluster-signing-cert-file={self._folder / 'ca.crt'}",
            f"--cluster-signing-key-file={self._folder / 'ca.key'}",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            *self._controller_manager_arguments,
        )
        self._run("kube-scheduler", *common, "--kube-api-qps=500", "--kube-api-burst=1000")
        stages = sorted((self._binaries.parent / "stages").glob("*.yaml"))
        texts = [stage.read_bytes() for stage in stages if stage.stem != "pod-delete"]
        self._write("stages.yaml", b"\n---\n".join((*texts, json.dumps(_POD_DELETE).encode())))
        self._run(
            "kwok",
            f"--kubeconfig={self.kubeconfig}",
            f"--config={self._folder / 'stages.yaml'}",
            "--manage-all-nodes=true",
            f"--disregard-status-with-label-selector={PROCESSES}",
            "--node-lease-duration-seconds=40",
        )
        await self._create_nodes()
        made_by_it = "/api/v1/namespaces/default/serviceaccounts/default"
        await self._wait_ready("kube-controller-manager", self._client(), made_by_it)

    def _run(self, name: str, *arguments: str) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                (str(self._binaries / name), *arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=self._watchdog.pid,
            )

    def _client(self) -> HTTPClient:
        context = ssl.create_default_context(cadata=self._authority.certificate.decode())
        return HTTPClient(self._config.server, ssl=context, headers=[("authorization", f"Bearer {self._config.token}")])

    async def _create_nodes(self) -> None:
        client = self._client()
        headers = {"content-type": "application/json"}
        for number in range(self._nodes):
            body = json.dumps(_node(f"node-{number}")).encode()
            created = await client.send(Request("POST", "/api/v1/nodes", headers, body))
            if created.status != 201:
                raise ConnectionFailed(f"node-{number} was not created: {(await created.read()).decode()}")
        await client.close()

    async def _wait_ready(self, name: str, client: HTTPClient, target: str) -> None:
        """Wait until a request for `target` to the part `name` succeeds."""
        deadline = asyncio.get_running_loop().time() + _READY_WITHIN
        while asyncio.get_running_loop().time() < deadline and self._processes[name].poll() is None:
            with suppress(ConnectionFailed, DeadlineExceeded):
                if (await client.send(Request("GET", target), timeout=_READY_WITHIN)).status == 200:
                    await client.close()
                    return
            await asyncio.sleep(0.05)
        await client.close()
        log = (self._folder / f"{name}.log").read_text(errors="replace").splitlines()[-20:]
        ended = self._processes[name].returncode
        state = "was not ready in time" if ended is None else f"ended with code {ended}"
        raise DeadlineExceeded("\n".join((f"{name} {state}; the end of its log:", *log)))

    async def _stop(self) -> None:
        """Stop all processes, the latest first, and remove the folder."""
        try:
            for process in reversed(self._processes.values()):
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    await asyncio.to_thread(process.wait, _STOPPED_WITHIN)
        finally:
            for process in self._processes.values():
                process.kill()
                process.wait()
            shutil.rmtree(self._folder)
            self._watchdog.communicate(b"done\n")

    def _write(self, name: str, content: bytes) -> None:
        (self._folder / name).write_bytes(content)

    def _write_pair(self, name: str, pair: KeyPair) -> None:
        self._write(f"{name}.key", pair.key)
        self._write(f"{name}.crt", pair.certificate)


def _start_watchdog(folder: Path) -> subprocess.Popen[bytes]:
    """Start the leader of the process group."""
    command = ("/bin/sh", "-c", _WATCHDOG, str(folder))
    return subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0)


def _node(name: str) -> JSONObject:
    capacity = {"cpu": "64", "memory": "256Gi", "pods": "10000"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **SIMULATED},
        },
        "status": {"capacity": capacity, "allocatable": capacity},
    }
