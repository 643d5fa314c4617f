"""An API server in this process, until a signal."""

from __future__ import annotations

import asyncio
import gc
import http.client
import os
import signal
import ssl
import time
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import uvloop

from kubewright._runtime.signals import on_stop_signal
from kubewright.http.server import Server
from kubewright.machinery.errors import ConfigError
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.bootstrap import publish, publish_authentication
from kubewright_controlplane.apiserver.pki import CertificateAuthority
from kubewright_controlplane.apiserver.server import APIServer
from kubewright_controlplane.envtest import lifetime
from kubewright_controlplane.envtest.etcd import FOLDER_PATH
from kubewright_controlplane.envtest.settings import Settings

_ETCD_WITHIN: Final = 20.0
_AGAIN: Final = 0.05
_TLS_VERSIONS: Final = {
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,  # older versions are off in the system's library
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}


def kubernetes_version() -> str:
    return str(catalog.version()["gitVersion"])


def serve(settings: Settings) -> None:
    """Serve until a signal, or until the program that started this one is gone. Raises ConfigError."""
    tls = _tls(settings)
    folder, sync = _data_folder(settings)
    lifetime.end_with_parent(lambda: _end_orphaned(settings))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(replace(settings, options=replace(settings.options, data=folder, sync=sync)), tls))


async def _serve(settings: Settings, tls: ssl.SSLContext) -> None:
    stopping = asyncio.Event()
    on_stop_signal(stopping.set)
    api = APIServer(settings.options)
    server = Server(api.handle, host=settings.host, port=settings.port, ssl=tls, admit=api.admit)
    try:
        await api.start()
        publish(api.resources, settings.advertised or settings.host, settings.port)
        client_ca = settings.client_ca.read_text() if settings.client_ca is not None else ""
        publish_authentication(api.resources, client_ca, api.front_proxy.published())
        await server.start()
        gc.freeze()  # what exists by now stays until the end; a garbage collection need not look at it
        await stopping.wait()
    finally:
        await server.close()
        await api.close()


def _end_orphaned(settings: Settings) -> None:
    lifetime.remove_temporary(settings.certificate.parent)
    os.kill(os.getpid(), signal.SIGTERM)


# TLS


def _tls(settings: Settings) -> ssl.SSLContext:
    if settings.generated and not settings.certificate.exists():
        _make_certificate(settings)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _TLS_VERSIONS.get(settings.tls_version, ssl.TLSVersion.TLSv1_2)
    try:
        context.load_cert_chain(settings.certificate, settings.key)
    except OSError as error:
        raise ConfigError(
            f"{settings.certificate}: {error.strerror or error}; --tls-cert-file needs its key"
        ) from error
    if settings.client_ca is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(settings.client_ca)
        except OSError as error:
            raise ConfigError(f"unable to load client CA file: open {settings.client_ca}: {error.strerror}") from error
    return context


def _make_certificate(settings: Settings) -> None:
    """Make a certificate with its own authority in --cert-dir, as the real program does."""
    authority = CertificateAuthority.create(settings.host)
    names = dict.fromkeys((settings.host, "localhost", "127.0.0.1", "kubernetes", "kubernetes.default.svc"))
    pair = authority.issue_server(names)
    try:
        settings.certificate.parent.mkdir(parents=True, exist_ok=True)
        settings.certificate.write_bytes(pair.certificate + authority.certificate)
        descriptor = os.open(settings.key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pair.key)
    except OSError as error:
        raise ConfigError(
            f"error creating self-signed certificates: {error.filename}: {error.strerror}; choose another --cert-dir"
        ) from error


# etcd


def _data_folder(settings: Settings) -> tuple[Path, bool]:
    """Ask etcd where to keep objects, and whether writes must be on disk. Raises ConfigError."""
    url = settings.etcd[0]
    deadline = time.monotonic() + _ETCD_WITHIN
    while True:
        try:
            status, text = _get(url)
        except OSError as error:
            if time.monotonic() > deadline:
                raise ConfigError(f"--etcd-servers: {url} does not answer: {error.strerror or error}") from error
            time.sleep(_AGAIN)
            continue
        if status != 200:
            raise ConfigError(
                f"--etcd-servers: {url} is not the etcd of kubewright-controlplane; start both programs from one folder"
            )
        folder, _, mode = text.partition("\n")
        return Path(folder, settings.prefix) if settings.prefix else Path(folder), mode != "unsynced"


def _get(url: str) -> tuple[int, str]:
    target = urlsplit(url if "//" in url else f"//{url}")
    if target.scheme == "https":
        raise ConfigError(f'--etcd-servers: must be an http:// URL here, got "{url}"; TLS is not supported')
    connection = http.client.HTTPConnection(target.hostname or "", target.port or 2379, timeout=_ETCD_WITHIN)
    try:
        connection.request("GET", FOLDER_PATH)
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    finally:
        connection.close()
