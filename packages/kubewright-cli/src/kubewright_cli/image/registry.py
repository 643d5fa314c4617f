"""A registry client: pull a base, push a built image.

Guarantees
    Pulled content matches its digest. Blobs in the layout are not pulled again.
    The name is pushed last: a concurrent pull gets the whole old image or the whole new one.
    A push after an interruption does not send blobs again that the registry has.

Follows the OCI distribution specification, v1.1.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from kubewright.http.message import Request, Response
from kubewright.machinery.errors import ConfigError, ConnectionFailed
from kubewright_cli.image.authorization import Authorization, Challenge
from kubewright_cli.image.content import IMAGES, Descriptor, Platform, decode, digest_of
from kubewright_cli.image.credentials import Credentials
from kubewright_cli.image.layout import Layout
from kubewright_cli.image.wire import Servers
from kubewright_cli.manifests.reference import Reference

_HUB: Final = "registry-1.docker.io"
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_ACCEPTED: Final = ", ".join(IMAGES)

Report = Callable[[str], None]
"""Receives the steps that take time."""


class Registry:
    """The registry of one reference. Use as `async with`."""

    def __init__(self, host: str, credentials: Credentials | None, *, plain_http: bool = False) -> None:
        """`plain_http` turns TLS off. Registries on this machine never use TLS."""
        scheme = "http" if plain_http or _is_loopback(host) else "https"
        self.host = host
        self._url = f"{scheme}://{_HUB if host == 'docker.io' else host}"
        self._servers = Servers()
        self._authorization = Authorization(host, credentials, self._servers)

    async def __aenter__(self) -> Registry:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._servers.close()

    async def pull(self, image: Reference, platforms: Iterable[Platform], layout: Layout, say: Report) -> Descriptor:
        """Pull the image for these platforms into the layout. Raises ConfigError if the image does not exist."""
        top = await self._manifest(image, image.version, layout)
        document = decode(layout.read(top), str(image))
        if "manifests" not in document:
            await self._pull_blobs(image, top, layout, say)
            return top
        wanted = set(platforms)
        for each in map(Descriptor.read, document["manifests"]):
            if each.platform in wanted:
                found = await self._manifest(image, each.digest, layout)
                await self._pull_blobs(image, found, layout, say)
        return top

    async def push(self, image: Descriptor, name: Reference, layout: Layout, say: Report) -> None:
        """Push the image as `name`."""
        blobs = list(layout.closure(image))
        sent: set[str] = set()
        for blob in blobs:
            if blob.media_type in IMAGES or blob.digest in sent:
                continue
            sent.add(blob.digest)
            await self._push_blob(name, blob, layout, say)
        for blob in blobs:
            if blob.media_type in IMAGES:
                version = name.tag if blob is blobs[-1] else blob.digest
                await self._push_manifest(name, blob, version, layout)

    # Pulling.

    async def _manifest(self, image: Reference, version: str, layout: Layout) -> Descriptor:
        path = f"/v2/{image.repository}/manifests/{version}"
        response = await self._ask(Request("GET", path, {"accept": _ACCEPTED}), _pulling(image))
        body = await response.read()
        if response.status != 200:
            raise self._refused(f"pull {image}", response, body)
        media_type = response.headers.get("content-type", "").partition(";")[0]
        if media_type not in IMAGES:
            raise ConfigError(f"{image} has an unsupported media type: {media_type}")
        if version.startswith("sha256:") and digest_of(body) != version:
            raise ConfigError(f"{self.host} returned other content than {image} at {version}")
        return layout.write(media_type, body)

    async def _pull_blobs(self, image: Reference, found: Descriptor, layout: Layout, say: Report) -> None:
        document = decode(layout.read(found), str(image))
        for blob in map(Descriptor.read, (document["config"], *document["layers"])):
            if not layout.has(blob):
                say(f"Pulling {blob.digest[:19]} of {image} ({megabytes(blob.size)})")
                await self._pull_blob(image, blob, layout)

    async def _pull_blob(self, image: Reference, blob: Descriptor, layout: Layout) -> None:
        request = Request("GET", f"/v2/{image.repository}/blobs/{blob.digest}")
        response = await self._ask(request, _pulling(image), stream=True)
        for _ in range(5):
            if response.status not in _REDIRECTS:
                break
            place = urljoin(f"{self._url}{request.target}", response.headers.get("location", ""))
            await response.aclose()
            response = await self._servers.send(place, Request("GET", _target(place)), stream=True)
        if response.status != 200 or isinstance(response.body, bytes):
            raise self._refused(f"pull {blob.digest} of {image}", response, await response.read())
        await layout.receive(blob, response.body)

    # Pushing.

    async def _push_blob(self, name: Reference, blob: Descriptor, layout: Layout, say: Report) -> None:
        scope = _pushing(name)
        there = await self._ask(Request("HEAD", f"/v2/{name.repository}/blobs/{blob.digest}"), scope)
        if there.status == 200:
            return
        begin = f"/v2/{name.repository}/blobs/uploads/"
        begun = await self._ask(Request("POST", begin), scope)
        if begun.status != 202 or "location" not in begun.headers:
            raise self._refused(f"push to {name}", begun, await begun.read())
        place = urljoin(f"{self._url}{begin}", begun.headers["location"])
        target = f"{_target(place)}{'&' if urlsplit(place).query else '?'}digest={quote(blob.digest)}"
        say(f"Pushing {blob.digest[:19]} ({megabytes(blob.size)})")
        headers = {"content-type": "application/octet-stream"}
        done = await self._ask(Request("PUT", target, headers, layout.read(blob)), scope, url=place)
        if done.status != 201:
            raise self._refused(f"push {blob.digest} to {name}", done, await done.read())

    async def _push_manifest(self, name: Reference, blob: Descriptor, version: str, layout: Layout) -> None:
        path = f"/v2/{name.repository}/manifests/{version}"
        request = Request("PUT", path, {"content-type": blob.media_type}, layout.read(blob))
        done = await self._ask(request, _pushing(name))
        if done.status != 201:
            raise self._refused(f"push {name}", done, await done.read())

    # Asking.

    async def _ask(self, request: Request, scope: str, *, url: str = "", stream: bool = False) -> Response:
        """Send a request to the registry, with authentication."""
        try:
            return await self._request_authorized(request, scope, url or self._url, stream=stream)
        except ConnectionFailed as error:
            raise _unreached(error, self.host) from error

    async def _request_authorized(self, request: Request, scope: str, url: str, *, stream: bool) -> Response:
        own = urlsplit(url)[:2] == urlsplit(self._url)[:2]
        while True:
            authorization = self._authorization.header(scope) if own else ""  # no credentials for other servers
            headers = {**request.headers, "authorization": authorization} if authorization else request.headers
            sent = Request(request.method, request.target, headers, request.body)
            response = await self._servers.send(url, sent, stream=stream)
            challenge = response.headers.get("www-authenticate", "")
            if response.status != 401 or not challenge or not own:
                return response
            if not await self._authorization.answer(Challenge.parse(challenge), scope):
                return response
            await response.aclose()

    def _refused(self, what: str, response: Response, body: bytes) -> ConfigError:
        hints: Mapping[int, str] = {
            401: f"log in: docker login {self.host}",
            403: f"access denied; log in with another account: docker login {self.host}",
            404: "not found, or access denied",
        }
        text = body[:300].decode(errors="replace").strip()
        hint = hints.get(response.status, "")
        return ConfigError(f"cannot {what}: {self.host} answered {response.status} {hint or text}".rstrip())


def megabytes(size: int) -> str:
    """Return a readable size: `12.3 MB`."""
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB"


def _pulling(image: Reference) -> str:
    return f"repository:{image.repository}:pull"


def _pushing(image: Reference) -> str:
    return f"repository:{image.repository}:pull,push"


def _target(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"


def _is_loopback(host: str) -> bool:
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _unreached(error: ConnectionFailed, host: str) -> ConfigError:
    if isinstance(error.__cause__, ssl.SSLError):
        return ConfigError(f"registry {host}: {error}; if the registry does not use TLS, pass --plain-http")
    return ConfigError(f"registry {host}: {error}; check the image name, and HTTPS_PROXY if a proxy is needed")
