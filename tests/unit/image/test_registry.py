"""A registry client reports what a registry or its token server does wrong."""

import json
from pathlib import Path

import pytest

from kubewright.http.message import Request, Response
from kubewright.http.server import Server
from kubewright.machinery.errors import ConfigError
from kubewright_cli.image.content import CONFIG, LAYER, MANIFEST
from kubewright_cli.image.credentials import Credentials
from kubewright_cli.image.layout import Layout
from kubewright_cli.image.registry import Registry
from kubewright_cli.manifests.reference import Reference


@pytest.mark.parametrize("answer", ["<html>Sign in</html>", "{}", '{"token": 5}', "[]"])
async def test_a_token_server_that_sends_no_token_is_named(tmp_path: Path, answer: str) -> None:
    async def handle(request: Request) -> Response:
        if request.path == "/token":
            return Response(200, {"content-type": "application/json"}, answer.encode())
        challenge = f'Bearer realm="http://127.0.0.1:{server.port}/token",service="test"'
        return Response(401, {"www-authenticate": challenge}, b"")

    server = Server(handle, host="127.0.0.1")
    await server.start()
    host = f"127.0.0.1:{server.port}"
    try:
        async with Registry(host, None) as registry:
            with pytest.raises(ConfigError, match=f"{host}, the token server of {host}, sent no token: ") as caught:
                await registry.pull(Reference.parse(f"{host}/base:v1"), (), Layout(tmp_path), print)
            assert answer in str(caught.value)
    finally:
        await server.close()


async def test_credentials_are_not_sent_to_another_server(tmp_path: Path) -> None:
    """A registry may name another server for an upload, such as a store of blobs. It signs the URL itself."""
    heard: list[dict[str, str]] = []

    async def store(request: Request) -> Response:
        heard.append(dict(request.headers))
        return Response(401, {"www-authenticate": 'Basic realm="more"'}, b"who are you?")

    async def handle(request: Request) -> Response:
        if "authorization" not in request.headers:
            return Response(401, {"www-authenticate": 'Basic realm="test"'}, b"")
        if request.method == "POST":
            return Response(202, {"location": f"http://127.0.0.1:{other.port}/upload?signed=1"}, b"")
        return Response(404, {}, b"")

    other, server = Server(store), Server(handle)
    await other.start()
    await server.start()
    layout = Layout(tmp_path)
    layer, config = layout.write(LAYER, b"layer"), layout.write(CONFIG, b"{}")
    manifest = {"mediaType": MANIFEST, "config": config.to_dict(), "layers": [layer.to_dict()]}
    image = layout.write(MANIFEST, json.dumps(manifest).encode())
    host = f"127.0.0.1:{server.port}"
    try:
        async with Registry(host, Credentials("ann", "secret")) as registry:
            with pytest.raises(ConfigError, match="answered 401"):
                await registry.push(image, Reference.parse(f"{host}/team/app:v1"), layout, print)
    finally:
        await server.close()
        await other.close()
    assert heard
    assert not any("authorization" in each for each in heard)
