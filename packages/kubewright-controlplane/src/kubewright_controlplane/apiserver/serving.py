"""An API server with TLS on a port, and kubeconfigs for its users.

It has its own certificate authority, which is stored in the data folder, if there is one, so that kubeconfigs stay
valid. By default it listens on the loopback address.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kubewright.http.server import Server
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.bootstrap import first_service_address, publish, publish_authentication
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.pki import CertificateAuthority, load_pair, write_private
from kubewright_controlplane.apiserver.registry.objects import encode_json
from kubewright_controlplane.apiserver.server import APIServer

ADMIN: Final = "kubernetes-admin"
_MASTERS: Final = "system:masters"
_NAMES: Final = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
    "127.0.0.1",
    "::1",
)


class ServedAPI:
    """An API server that listens on a port.

        served = ServedAPI(ServerOptions())
        await served.start()
        served.write_kubeconfig(Path("kubeconfig"))
        ...
        await served.close()

    Raises ConfigError if the port is in use, or if the data folder cannot be used or is in use.
    """

    def __init__(self, options: ServerOptions | None = None, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.api = APIServer(options)
        data = self.api.options.data
        self.authority = CertificateAuthority.kept_in(data) if data is not None else CertificateAuthority.create()
        self.extensions: list[JSONObject] = []
        """Extensions of the cluster in kubeconfigs."""
        self.kubeconfigs: set[Path] = set()
        """The files that `write_kubeconfig` has written."""
        self._host = host
        self._tls = self._context()
        self._listener = Server(self.api.handle, host=host, port=port, ssl=self._tls, admit=self.api.admit)

    def _context(self) -> ssl.SSLContext:
        """Return a TLS context. A client certificate is optional and must be from this authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.authority.certificate.decode())
        return context

    async def start(self, service_cidr: str | None = None) -> None:
        """Start to listen for requests. `service_cidr` replaces the range of the options, if none is stored."""
        await self.api.start(service_cidr)
        names = (*_NAMES, self._host, first_service_address(self.api.resources))
        load_pair(self._tls, self.authority.issue_server(dict.fromkeys(names)))
        await self._listener.start()
        publish(self.api.resources, self._host, self.port)
        front_proxy = self.api.front_proxy.published()
        publish_authentication(self.api.resources, self.authority.certificate.decode(), front_proxy)

    async def close(self, grace: float = 0.0) -> None:
        """Stop: end watches, give pending requests `grace` seconds, and write pending commits to the data folder."""
        await self._listener.close(grace)
        await self.api.close()

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def url(self) -> str:
        host = "127.0.0.1" if self._host in ("0.0.0.0", "") else f"[{self._host}]" if ":" in self._host else self._host
        return f"https://{host}:{self.port}"

    def kubeconfig(self, user: str = ADMIN, groups: Iterable[str] = (_MASTERS,)) -> JSONObject:
        """Return a kubeconfig with a new client certificate for `user`, a member of `groups`; an administrator by
        default.
        """
        pair = self.authority.issue_client(user, groups)
        cluster: JSONObject = {
            "server": self.url,
            "certificate-authority-data": _base64(self.authority.certificate),
        }
        if self.extensions:
            cluster["extensions"] = self.extensions
        credentials = {
            "client-certificate-data": _base64(pair.certificate),
            "client-key-data": _base64(pair.key),
        }
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "kubewright", "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": "kubewright", "context": {"cluster": "kubewright", "user": user}}],
            "current-context": "kubewright",
        }

    def write_kubeconfig(self, path: Path) -> None:
        """Write the administrator's kubeconfig atomically, readable only by its owner."""
        write_private(path, encode_json(self.kubeconfig()))
        self.kubeconfigs.add(path.absolute())


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
