"""A registry client reports what a registry or its token server does wrong."""

from pathlib import Path

import pytest

from kubewright.http.message import Request, Response
from kubewright.http.server import Server
from kubewright.machinery.errors import ConfigError
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
