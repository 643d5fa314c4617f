"""Watches over WebSockets, which clients in Java and in browsers use."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

from conformance.rawapi import API
from websockets_client import WebSocketClient, websocket


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def event(socket: WebSocketClient) -> tuple[str, str]:
    """Return the type of the next event and the name of its object. Each event is one text message."""
    message = await socket.receive()
    assert isinstance(message, str), message
    assert message.endswith("}\n")
    found = json.loads(message)
    return found["type"], found["object"]["metadata"]["name"]


async def test_a_watch_over_a_websocket_sends_one_event_in_each_message(api: API, ns: str) -> None:
    selected = "watch=1&labelSelector=app%21%3Dother&fieldSelector=metadata.name%21%3Dkube-root-ca.crt"
    await api.post(f"{ns}/configmaps", config_map("a"))
    await api.post(f"{ns}/configmaps", config_map("b"))
    async with websocket(api.config, f"{ns}/configmaps?{selected}") as socket:
        assert (socket.status, socket.protocol) == (101, None)
        assert {await event(socket), await event(socket)} == {("ADDED", "a"), ("ADDED", "b")}
        socket.send("what a client says is ignored")
        await api.post(f"{ns}/configmaps", config_map("c"))
        await api.delete(f"{ns}/configmaps/c")
        assert await event(socket) == ("ADDED", "c")
        assert await event(socket) == ("DELETED", "c")
    async with websocket(api.config, f"{ns}/configmaps?{selected}&timeoutSeconds=1", ["any.protocol"]) as socket:
        assert socket.protocol == "any.protocol"
        await event(socket)
        await event(socket)
        assert await socket.receive() is None  # the time is over


async def test_a_watch_over_a_websocket_that_is_not_possible_is_rejected(api: API, ns: str) -> None:
    target = f"{ns}/configmaps?watch=1&timeoutSeconds=1"
    for origin, protocols, status in (
        (None, [], 403),
        ("null", [], 403),
        ("http://bad%zz", [], 403),
        ("http://test", ["one", "two"], 400),
    ):
        async with websocket(api.config, target, protocols, origin=origin) as socket:
            assert socket.status == status, (origin, protocols)
    async with websocket(api.config, f"{target}&labelSelector=x%3D%3D%3D") as socket:
        assert socket.status == 400
        assert json.loads(socket.error)["reason"] == "BadRequest"
    async with websocket(api.config, f"{ns}/configmaps") as socket:
        assert socket.status == 200  # only a watch is a stream
        assert json.loads(socket.error)["kind"] == "ConfigMapList"


async def test_a_bearer_token_may_be_a_subprotocol_of_a_websocket(api: API, ns: str) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = (await api.post(f"{ns}/serviceaccounts/default/token", body)).expect(201).json["status"]["token"]
    nobody = replace(api.config, token=None, client_cert=None, client_key=None)
    target = f"{ns}/configmaps?watch=1&timeoutSeconds=1"

    async def ask(*protocols: str) -> tuple[int, str]:
        async with websocket(nobody, target, protocols) as socket:
            return socket.status, json.loads(socket.error)["message"]

    encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    bearer = f"base64url.bearer.authorization.k8s.io.{encoded}"
    status, message = await ask("x", bearer)
    assert status == 403
    assert f'User "system:serviceaccount:{ns.rpartition("/")[2]}:default" cannot watch resource' in message
    assert (await ask(bearer))[0] == 401
    assert (await ask("x", bearer, bearer))[0] == 401
    assert (await ask("x", f"{bearer}!"))[0] == 401
    assert 'User "system:anonymous" cannot watch' in (await ask("x"))[1]
