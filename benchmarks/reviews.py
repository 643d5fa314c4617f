"""Admission reviews: the webhook server of each toolkit, alone, without an API server that calls it.

The same webhooks run in each toolkit. The benchmark sends them the AdmissionReviews that an API server would send, over
TLS and kept connections, and checks each answer.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import msgspec

from benchmarks.apiservers import embedded
from benchmarks.peers import Peer
from benchmarks.process import Program, running
from benchmarks.report import Figure, Measured, NotMeasured, Run, in_turns, say
from benchmarks.workers import run_concurrently
from kubewright.http.client import HTTPClient
from kubewright.http.message import Request
from kubewright.machinery.errors import ConnectionFailed
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.pki import CertificateAuthority
from kubewright_controlplane.ports import free_port

_AT_ONCE: Final = 16
_WARM_UP: Final = 200
_ONE_AT_A_TIME: Final = 200
_READY_WITHIN: Final = 60.0
_LOOK: Final = 0.05
_DEFAULT: Final = "/mutate-bench-kubewright-dev-v1-widget"
_VALIDATE: Final = "/validate-bench-kubewright-dev-v1-widget"
_HEADERS: Final = {"content-type": "application/json", "accept": "application/json"}

FIGURES: Final = (
    Figure("review_default_us", "a mutating review, us of CPU", 0),
    Figure("review_validate_us", "a validating review, us of CPU", 0),
    Figure("review_ms", "the same, one at a time: ms until it is answered", 2),
    Figure("review_rss_mb", "memory after all this, MB", 0, depends_on_load=False),
)


async def measure(peers: Sequence[Peer], reviews: int, repetitions: int) -> Measured:
    """Return the values by figure and peer."""
    with TemporaryDirectory(prefix="kubewright-bench-") as name:
        folder = Path(name)
        authority = _certificates(folder)
        say("Starting an embedded API server, for the programs to connect to ...")
        async with embedded(folder):

            async def run(peer: Peer) -> Run:
                return await _run(peer, folder, authority, reviews)

            return await in_turns(peers, repetitions, run, FIGURES)


async def _run(peer: Peer, folder: Path, authority: CertificateAuthority, reviews: int) -> Run:
    async with _serving(peer, folder, authority) as (program, client):
        run: dict[str, float] = {}
        for figure, path in (("review_default_us", _DEFAULT), ("review_validate_us", _VALIDATE)):
            await run_concurrently((_review(client, path) for _ in range(_WARM_UP)), _AT_ONCE)
            await program.settle()
            before = program.cpu
            await run_concurrently((_review(client, path) for _ in range(reviews)), _AT_ONCE)
            await program.settle()
            run[figure] = (program.cpu - before) / reviews * 1e6
        run["review_ms"] = median([await _timed(client) for _ in range(_ONE_AT_A_TIME)]) * 1e3
        return {**run, "review_rss_mb": program.rss / 1e6}


@asynccontextmanager
async def _serving(
    peer: Peer, folder: Path, authority: CertificateAuthority
) -> AsyncGenerator[tuple[Program, HTTPClient]]:
    """Run the webhooks of a toolkit for the duration of the block."""
    port = free_port()
    command = (*peer.reviews, f"--webhook-port={port}", f"--webhook-cert-path={folder}")
    environment = {**peer.environment, "KUBECONFIG": str(folder / "kubeconfig")}
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    client = HTTPClient(f"https://127.0.0.1:{port}", ssl=context, max_connections=_AT_ONCE)
    async with running(command, folder / f"{peer.name}.log", environment) as program:
        try:
            async with asyncio.timeout(_READY_WITHIN):
                while not await _is_ready(client):  # noqa: ASYNC110 - another process starts
                    await asyncio.sleep(_LOOK)
            yield program, client
        finally:
            await client.close()


async def _is_ready(client: HTTPClient) -> bool:
    with suppress(ConnectionFailed):
        await _review(client, _VALIDATE)
        return True
    return False


async def _timed(client: HTTPClient) -> float:
    began = perf_counter()
    await _review(client, _VALIDATE)
    return perf_counter() - began


async def _review(client: HTTPClient, path: str) -> None:
    """Send a review. Raises NotMeasured for a wrong answer."""
    uid = next(_uids)
    body = _encoded(uid, path)
    response = await client.send(Request("POST", f"{path}?timeout=10s", dict(_HEADERS), body))
    answer = msgspec.json.decode(await response.read())["response"]
    changed = base64.b64decode(answer.get("patch") or "")
    if answer["uid"] != uid or not answer["allowed"] or (b'"hello"' in changed) is not (path == _DEFAULT):
        raise NotMeasured(f"wrong answer of {path}: {answer}")


def _numbered() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"705ab4f5-6393-11e8-b7cc-{number:012d}"


_uids: Final = _numbered()


def _encoded(uid: str, path: str) -> bytes:
    """Return the review of an update: a Widget without a message for the defaulter, with one for the validator."""
    kind = {"group": "bench.kubewright.dev", "version": "v1", "kind": "Widget"}
    resource = {"group": "bench.kubewright.dev", "version": "v1", "resource": "widgets"}
    new, old = _widget("" if path == _DEFAULT else "good morning"), _widget("good evening")
    request: JSONObject = {
        "uid": uid,
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": "widget-1",
        "namespace": "default",
        "operation": "UPDATE",
        "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "object": new,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "bench"},
    }
    return msgspec.json.encode({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})


def _widget(message: str) -> JSONObject:
    """Return a Widget as the API server has it, with a status and owned fields."""
    now = "2026-01-01T00:00:00Z"
    fields: Any = {
        "f:spec": {".": {}, "f:message": {}, "f:size": {}},
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
    }
    entry = {"manager": "bench", "operation": "Update", "apiVersion": "bench.kubewright.dev/v1", "time": now}
    condition = {"type": "Ready", "status": "True", "reason": "Done", "message": "", "lastTransitionTime": now}
    return {
        "apiVersion": "bench.kubewright.dev/v1",
        "kind": "Widget",
        "metadata": {
            "name": "widget-1",
            "namespace": "default",
            "uid": "c3a1fd9e-0f0b-4f0c-9d3e-2f8a6f1c7b11",
            "resourceVersion": "1234",
            "generation": 2,
            "creationTimestamp": now,
            "labels": {"app": "widget"},
            "managedFields": [{**entry, "fieldsType": "FieldsV1", "fieldsV1": fields}],
        },
        "spec": {"message": message, "size": 7},
        "status": {"observedGeneration": 2, "configMap": "widget-1", "conditions": [condition]},
    }


def _certificates(folder: Path) -> CertificateAuthority:
    """Write the files that webhook servers read."""
    authority = CertificateAuthority.create()
    pair = authority.issue_server(["127.0.0.1"])
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    return authority
