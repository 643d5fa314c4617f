"""Image registries: the registry of the distribution project, which `make controlplane` builds, with or without
authentication.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.x509.oid import NameOID

from kubewright.http.message import Request, Response
from kubewright.http.server import Server
from kubewright.machinery.errors import ConfigError
from kubewright.testing import eventually
from kubewright_controlplane.ports import free_port
from kubewright_controlplane.real import find_binaries

USER, PASSWORD = "ann", "secret"
_HTPASSWD = f"{USER}:$2b$04$mtFCfy8cJ3cCocIt9cU2UuwPTQtj2SJY89xvIh7spgazNRclONjTy\n"
"""bcrypt hash of the password, with the lowest cost."""


def _find_registry() -> Path | None:
    try:
        return find_binaries("registry") / "registry"
    except ConfigError:
        return None


REGISTRY = _find_registry()


@asynccontextmanager
async def registry(folder: Path, auth: dict[str, object] | None = None) -> AsyncIterator[str]:
    """Run a registry for the duration of the block, with its blobs in `folder`. Yields its `host:port`."""
    folder.mkdir(parents=True, exist_ok=True)
    address = f"127.0.0.1:{free_port()}"
    config = {
        "version": "0.1",
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "blobs")}},
        "http": {"addr": address},
        **({"auth": auth} if auth else {}),
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    log = folder / "log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            str(REGISTRY), "serve", str(folder / "config.yaml"), stdout=output, stderr=output
        )
    try:

        async def answers() -> None:
            assert process.returncode is None, log.read_text()
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", int(address.rpartition(":")[2]))) == 0

        await eventually(answers)
        yield address
    finally:
        process.kill()
        await process.wait()


def passwords(folder: Path) -> dict[str, object]:
    """Return settings of a registry that requires a user name and a password."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "htpasswd").write_text(_HTPASSWD)
    return {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}


@asynccontextmanager
async def tokens(folder: Path) -> AsyncIterator[tuple[dict[str, object], TokenServer]]:
    """Yield settings of a registry that requires tokens of a token server, as public registries do."""
    folder.mkdir(parents=True, exist_ok=True)
    issuer = TokenServer()
    (folder / "issuer.pem").write_bytes(issuer.certificate.public_bytes(serialization.Encoding.PEM))
    server = Server(issuer.handle)
    await server.start()
    try:
        settings = {
            "realm": f"http://127.0.0.1:{server.port}/token",
            "service": "test",
            "issuer": "test-issuer",
            "rootcertbundle": str(folder / "issuer.pem"),
        }
        yield {"token": settings}, issuer
    finally:
        await server.close()


class TokenServer:
    """Issues tokens: for pulling to all clients, for pushing to clients that send the password."""

    def __init__(self) -> None:
        self.scopes: list[str] = []
        """The scopes of the issued tokens."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = _self_signed(self._key)

    async def handle(self, request: Request) -> Response:
        asked = {name: values[0] for name, values in parse_qs(request.query).items()}
        knows = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        scope = asked["scope"]
        if "push" in scope and request.headers.get("authorization") != f"Basic {knows}":
            return Response(401, {"content-type": "text/plain"}, b"wrong password")
        self.scopes.append(scope)
        return Response(200, {"content-type": "application/json"}, json.dumps({"token": self._token(scope)}).encode())

    def _token(self, scope: str) -> str:
        kind, name, actions = scope.split(":")
        chain = base64.b64encode(self.certificate.public_bytes(serialization.Encoding.DER)).decode()
        now = int(time.time())
        claims = {
            "iss": "test-issuer", "sub": USER, "aud": "test", "jti": f"{len(self.scopes)}",
            "iat": now - 60, "nbf": now - 60, "exp": now + 600,
            "access": [{"type": kind, "name": name, "actions": actions.split(",")}],
        }  # fmt: skip
        head = {"typ": "JWT", "alg": "ES256", "x5c": [chain]}
        signed = ".".join(_base64url(json.dumps(part).encode()) for part in (head, claims))
        r, s = utils.decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_base64url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def _self_signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-issuer")])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
