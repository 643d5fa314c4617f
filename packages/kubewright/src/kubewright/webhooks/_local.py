"""Declares that an API server on this machine calls the webhooks of this process."""

from __future__ import annotations

import asyncio
import socket
from typing import Final
from urllib.parse import urlsplit

import msgspec

from kubewright.client._config import Config
from kubewright.machinery.errors import ConfigError

LOOPBACK: Final = "127.0.0.1"


class LocalWebhooks(msgspec.Struct, frozen=True, kw_only=True):
    """Registers the webhooks of a process outside of the cluster: of `kubewright run`, and of tests.

        async with Manager(webhooks=[check], config=config, webhook_registration=LocalWebhooks()):
            ...

    The manager serves on 127.0.0.1 with a certificate that it makes in memory, and creates configurations with URLs,
    whose names begin with `<manager>.local-`. Those of a deployed operator have other names and stay in use. The CRDs
    of its conversions call this process, too; the previous strategy is kept in an annotation. When the manager stops,
    the configurations are deleted, and the CRDs get their strategy back.

    A killed process leaves its configurations. They have the failure policy Ignore, so they block nothing, and the next
    run replaces them. A CRD has no failure policy: its objects cannot be converted until the next run, or until
    `spec.conversion` is set back to `strategy: None`. If several processes register the same manager, the last one is
    called.

    The manager is ready once the API server has called it.
    """

    url: str = ""
    """`https://host:port`, by which the API server reaches this process: an address of this machine, or of a tunnel
    that does not end TLS. Default: the port on 127.0.0.1."""
    config: Config | None = None
    """Credentials that may write configurations and CRDs. Default: those of the manager."""

    def __post_init__(self) -> None:
        if not self.url:
            return
        parts = urlsplit(self.url)
        if parts.scheme != "https" or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
            raise ConfigError(f"LocalWebhooks: url={self.url!r}: write https://host:port, without a path")

    @property
    def host(self) -> str:
        """The name or address by which the API server reaches this process."""
        return urlsplit(self.url).hostname or LOOPBACK

    @property
    def bind_host(self) -> str:
        """The interface that the server listens on; empty for all."""
        return "" if self.url else LOOPBACK


async def is_this_machine(server: str) -> bool:
    """Return whether the URL of an API server names this machine."""
    host = urlsplit(server).hostname or ""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    return any(_is_own(family, address) for family, _, _, _, address in found)


def _is_own(family: int, address: tuple[object, ...]) -> bool:
    """Return whether an interface of this machine has that address: only then can a socket be bound to it."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(address)
        except OSError:
            return False
    return True
