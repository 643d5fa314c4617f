"""The real control plane: etcd, kube-apiserver and, where asked for, controllers, scheduler and simulated nodes.

Everything binds to loopback ports that were free, lives in one temporary folder, and is gone when the block is left.
It is gone too when this process dies: a watchdog process then cleans up in its place.

The binaries come from the folder in `KUBEBUILDER_ASSETS` (envtest's convention), else from the cache that
`make controlplane` fills.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from kubewright.machinery.errors import ConfigError, ConnectionFailed, DeadlineExceeded
from kubewright.machinery.json import JSONObject
from kubewright.testing.certificates import Authority

_BARE: Final = ("etcd", "kube-apiserver")
_CONTROLLERS: Final = ("kube-controller-manager", "kube-scheduler", "kwok")

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
"""Waits for a line. Where its input ends without one, the test process died: ends the group, removes the folder."""


def find_binaries(*names: str) -> Path:
    """The folder that has the binaries `names`: `KUBEBUILDER_ASSETS` where that is set, else what was built.

    Raises ConfigError when one is missing.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kubewright", "controlplane", "current")
    folder = Path(assets) if assets else cache / "bin"
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        where = "KUBEBUILDER_ASSETS names another folder" if assets else "KUBEBUILDER_ASSETS is not set"
        raise ConfigError(
            f"no real control plane: {folder} has no {', no '.join(missing)} ({where}). "
            "`make controlplane` builds all it needs and prints the folder; it needs Go"
        )
    return folder.resolve()


class RealControlPlane:
    """A real control plane for as long as the block lasts.

        async with RealControlPlane() as control_plane:
            subprocess.run(["kubectl", "--kubeconfig", control_plane.kubeconfig, "get", "nodes"])

    Without `controllers` there are etcd and the API server alone, as under envtest: nothing creates service accounts,
    so Pods are admitted without one. With them come the controller manager, the scheduler and `nodes` nodes whose Pods
    become ready (by kwok). `api_server_arguments` are added to the API server's command line.

    Raises ConfigError when the binaries are missing, DeadlineExceeded when a part is not ready in a minute; the
    message then ends with the last lines of its log.
    """

    def __init__(self, *, controllers: bool = True, nodes: int = 2, api_server_arguments: Sequence[str] = ()) -> None:
        self.admin_token = secrets.token_hex(16)
        """A bearer token of a member of system:masters."""
        self.url = ""
        """The API server's, `https://127.0.0.1:<port>`."""
        self._controllers = controllers
        self._nodes = nodes
        self._api_server_arguments = tuple(api_server_arguments)
        self._authority = Authority()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def ca(self) -> bytes:
        """The certificate that signed the API server's, PEM."""
        return self._authority.pair.certificate

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for the admin."""
        return self._folder / "admin.kubeconfig"

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig for `user`, who comes with a client certificate and is a member of `groups`."""
        pair = self._authority.client(user, groups)
        credentials = {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}
        return self._write_kubeconfig(f"{secrets.token_hex(4)}.kubeconfig", credentials)

    async def __aenter__(self) -> RealControlPlane:
        self._binaries = find_binaries(*_BARE, *(_CONTROLLERS if self._controllers else ()))
        self._folder = Path(tempfile.mkdtemp(prefix="kubewright-"))
        self._watchdog = _start_watchdog(self._folder)
        try:
            await self._start_api_server(await self._start_etcd())
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

    async def _start_etcd(self) -> str:
        clients, peers = (f"http://127.0.0.1:{_free_port()}" for _ in range(2))
        self._run(
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        await self._wait_ready("etcd", f"{clients}/health")
        return clients

    async def _start_api_server(self, etcd: str) -> None:
        port = _free_port()
        self.url = f"https://127.0.0.1:{port}"
        names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        self._write_pair("ca", self._authority.pair.key, self._authority.pair.certificate)
        serving = self._authority.server(names, ("127.0.0.1", "10.0.0.1"))
        self._write_pair("serving", serving.key, serving.certificate)
        accounts = self._authority.server(("service-accounts",), ())
        self._write_pair("service-accounts", accounts.key, accounts.certificate)
        self._write("tokens.csv", f'{self.admin_token},admin,admin,"system:masters"\n'.encode())
        self._write_kubeconfig("admin.kubeconfig", {"token": self.admin_token})
        without = () if self._controllers else ("--disable-admission-plugins=ServiceAccount",)
        self._run(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self._folder}",
            f"--tls-cert-file={self._folder / 'serving.crt'}",
            f"--tls-private-key-file={self._folder / 'serving.key'}",
            f"--client-ca-file={self._folder / 'ca.crt'}",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            f"--service-account-issuer={self.url}",
            f"--service-account-key-file={self._folder / 'service-accounts.crt'}",
            f"--service-account-signing-key-file={self._folder / 'service-accounts.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged=true",
            *without,
            *self._api_server_arguments,
        )
        await self._wait_ready("kube-apiserver", f"{self.url}/readyz")

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
        )
        self._run("kube-scheduler", *common, "--kube-api-qps=500", "--kube-api-burst=1000")
        stages = sorted((self._binaries.parent / "stages").glob("*.yaml"))
        self._write("stages.yaml", b"\n---\n".join(stage.read_bytes() for stage in stages))
        self._run(
            "kwok",
            f"--kubeconfig={self.kubeconfig}",
            f"--config={self._folder / 'stages.yaml'}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=40",
        )
        for number in range(self._nodes):
            await self._request("POST", f"{self.url}/api/v1/nodes", _node(f"node-{number}"))
        await self._wait_ready(
            "kube-controller-manager", f"{self.url}/api/v1/namespaces/default/serviceaccounts/default"
        )

    def _run(self, name: str, *arguments: str) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                (str(self._binaries / name), *arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=self._watchdog.pid,
            )

    async def _wait_ready(self, name: str, url: str) -> None:
        """Wait until `url`, which `name` brings about, answers with success."""
        deadline = asyncio.get_running_loop().time() + _READY_WITHIN
        while asyncio.get_running_loop().time() < deadline and self._processes[name].poll() is None:
            try:
                await self._request("GET", url)
            except ConnectionFailed:
                await asyncio.sleep(0.05)
            else:
                return
        log = (self._folder / f"{name}.log").read_text(errors="replace").splitlines()[-20:]
        ended = self._processes[name].returncode
        state = "was not ready in time" if ended is None else f"ended with code {ended}"
        raise DeadlineExceeded("\n".join((f"{name} {state}; the end of its log:", *log)))

    async def _request(self, method: str, url: str, body: JSONObject | None = None) -> None:
        headers = {"Authorization": f"Bearer {self.admin_token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, headers=headers, method=method)
        context = ssl.create_default_context(cadata=self.ca.decode()) if url.startswith("https") else None

        def send() -> None:
            try:
                urllib.request.urlopen(request, timeout=10, context=context).close()
            except (urllib.error.URLError, OSError) as error:
                raise ConnectionFailed(f"{method} {url}: {error}") from error

        await asyncio.to_thread(send)

    async def _stop(self) -> None:
        """End everything, the latest first, and remove the folder."""
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

    def _write(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        path.write_bytes(content)
        return path

    def _write_pair(self, name: str, key: bytes, certificate: bytes) -> None:
        self._write(f"{name}.key", key)
        self._write(f"{name}.crt", certificate)

    def _write_kubeconfig(self, name: str, credentials: dict[str, str]) -> Path:
        cluster = {"server": self.url, "certificate-authority-data": _base64(self.ca)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "real", "user": credentials}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "real"}}],
            "current-context": "real",
        }
        return self._write(name, json.dumps(config).encode())


def _start_watchdog(folder: Path) -> subprocess.Popen[bytes]:
    """The leader of the process group that all the others are in."""
    command = ("/bin/sh", "-c", _WATCHDOG, str(folder))
    return subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0)


def _node(name: str) -> JSONObject:
    capacity = {"cpu": "64", "memory": "256Gi", "pods": "10000"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
