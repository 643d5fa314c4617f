"""Conversion of a list: custom resources that are stored in one version and listed in another.

The embedded server and kube-apiserver ask the same conversion webhook, which runs in the process of the benchmark. The
objects have the size of an average custom resource.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import msgspec

from benchmarks.apiservers import Server, embedded, real, tls_context
from benchmarks.report import Figure, Measured, NotMeasured, Run, in_turns, say
from benchmarks.workers import run_concurrently
from kubewright.http.message import Request, Response
from kubewright.http.server import Server as HTTPServer
from kubewright.machinery.errors import APIError
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.pki import CertificateAuthority

_GROUP: Final = "conversion.bench.kubewright.dev"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAME: Final = f"sites.{_GROUP}"
_AT_ONCE: Final = 8
_REST: Final = 0.2
_LISTS: Final = 3
_SERVED_WITHIN: Final = 30.0
_LOOK: Final = 0.2


def figures(count: int) -> tuple[Figure, ...]:
    return (
        Figure("converted_list_us", f"list of {count:,} converted, us of CPU an object", 1),
        Figure("converted_list_s", "the same, s until it is answered", 2),
    )


async def measure(count: int, repetitions: int) -> Measured:
    """Return the values by figure and server."""
    with TemporaryDirectory(prefix="kubewright-bench-") as name:
        folder = Path(name)
        async with AsyncExitStack() as stack:
            say(f"Starting an embedded API server, etcd and kube-apiserver, and creating {count:,} objects in each ...")
            servers = [await stack.enter_async_context(start) for start in (embedded(folder), real())]
            authority = CertificateAuthority.create()
            hook = HTTPServer(_convert, ssl=tls_context(authority, folder))
            await hook.start()
            stack.push_async_callback(hook.close)
            for server in servers:
                await stack.enter_async_context(_objects(server, hook.port, authority, count))

            async def run(server: Server) -> Run:
                return await _run(server, count)

            return await in_turns(servers, repetitions, run, figures(count))


async def _run(server: Server, count: int) -> Run:
    before, began = server.usage.cpu, perf_counter()
    for _ in range(_LISTS):
        listed = await server.rest.request("GET", _path("v1alpha1"))
        items = msgspec.json.decode(listed, type=_List).items
        if len(items) != count or any("address" not in each["spec"] for each in items):
            raise NotMeasured(f"{server.name} listed {len(items)} objects, or objects that are not converted")
    elapsed = perf_counter() - began
    await asyncio.sleep(_REST)
    return {
        "converted_list_us": (server.usage.cpu - before) / _LISTS / count * 1e6,
        "converted_list_s": elapsed / _LISTS,
    }


class _List(msgspec.Struct):
    items: list[dict[str, Any]]


@asynccontextmanager
async def _objects(server: Server, port: int, authority: CertificateAuthority, count: int) -> AsyncGenerator[None]:
    """Create the definition and its objects, in the stored version."""
    await _send(server, "POST", _DEFINITIONS, _definition(port, authority))
    async with asyncio.timeout(_SERVED_WITHIN):
        while not await _is_served(server):  # noqa: ASYNC110 - another process serves it
            await asyncio.sleep(_LOOK)
    await run_concurrently((_send(server, "POST", _path("v1"), _site(number)) for number in range(count)), _AT_ONCE)
    try:
        yield
    finally:
        await server.rest.request("DELETE", f"{_DEFINITIONS}/{_NAME}")


async def _is_served(server: Server) -> bool:
    try:
        await server.rest.request("GET", _path("v1alpha1"))
    except APIError:
        return False
    return True


async def _send(server: Server, method: str, path: str, body: JSONObject) -> None:
    await server.rest.request(method, path, None, body=msgspec.json.encode(body), content_type="application/json")


def _path(version: str) -> str:
    return f"/apis/{_GROUP}/{version}/namespaces/default/sites"


async def _convert(request: Request) -> Response:
    """Answer a ConversionReview: `address` is `host` and `port`."""
    review = msgspec.json.decode(request.body)
    wanted = review["request"]["desiredAPIVersion"]
    objects = [
        {**each, "apiVersion": wanted, "spec": _converted(each["spec"])} for each in review["request"]["objects"]
    ]
    response = {"uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
    answer = {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}
    return Response(200, {"content-type": "application/json"}, msgspec.json.encode(answer))


def _converted(spec: JSONObject) -> JSONObject:
    rest = {key: value for key, value in spec.items() if key not in ("host", "port", "address")}
    if "address" in spec:
        host, _, port = spec["address"].partition(":")
        return {"host": host, "port": int(port), **rest}
    return {"address": f"{spec['host']}:{spec['port']}", **rest}


def _site(number: int) -> JSONObject:
    pages = [{"path": f"/page-{page}", "title": "A page of the site", "tags": ["one", "two"]} for page in range(10)]
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "Site",
        "metadata": {"name": f"site-{number}", "labels": {"app": "site"}},
        "spec": {"host": "example.com", "port": number, "pages": pages},
    }


def _definition(port: int, authority: CertificateAuthority) -> JSONObject:
    text, whole = {"type": "string"}, {"type": "integer"}
    page = {"path": text, "title": text, "tags": {"type": "array", "items": text}}
    pages = {"type": "array", "items": {"type": "object", "properties": page}}
    fields = {"v1": {"host": text, "port": whole}, "v1alpha1": {"address": text}}
    versions = [
        {
            "name": version,
            "served": True,
            "storage": version == "v1",
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": {**own, "pages": pages}}},
                }
            },
        }
        for version, own in fields.items()
    ]
    client = {"url": f"https://127.0.0.1:{port}/convert", "caBundle": b64encode(authority.certificate).decode()}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    return {
        "metadata": {"name": _NAME},
        "spec": {
            "group": _GROUP,
            "scope": "Namespaced",
            "names": {"plural": "sites", "kind": "Site"},
            "versions": versions,
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    }
