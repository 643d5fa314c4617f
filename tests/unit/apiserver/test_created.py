"""What the embedded server makes of objects, and who owns what of it, against what a real one made of the same ones.

`tests/golden/created.json` was recorded with the admission plugins that change objects switched off, so they are off
here; the server's own choices (uids, times, addresses and ports out of a range) are blotted out on both sides.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kubewright.machinery.gvk import GroupVersion
from kubewright.testing import VirtualClock
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.server import APIServer
from unit.apiserver.harness import ADMIN, API

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "created.json").read_text())
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
ADDRESS = re.compile(r"^10\.\d+\.\d+\.\d+$")
QUIET = frozenset(
    (
        "ServiceAccount",
        "LimitRanger",
        "Priority",
        "DefaultTolerationSeconds",
        "DefaultStorageClass",
        "StorageObjectInUseProtection",
        "PersistentVolumeClaimResize",
        "RuntimeClass",
        "ResourceQuota",
    )
)
"""The admission plugins that were off, of those that there are here."""
REFUSED = (
    "APIService",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
)
"""Kinds whose objects would be stored and have no effect."""
NODE_PORTS = range(30000, 32771)
"""Dry runs on a real server give numbers beyond the range: nothing is taken from it."""


@pytest.fixture
async def api(clock: VirtualClock) -> AsyncIterator[API]:
    server = APIServer(ServerOptions(clock=clock, tokens={"admin": ADMIN}, disabled_admission=QUIET))
    await server.start()
    yield API(server, clock)
    await server.close()


def name_of(case: dict[str, Any]) -> str:
    sent = case["sent"]
    return f"{sent['apiVersion']}-{sent['kind']}-{sent['metadata']['name']}"


def comparable(value: Any) -> Any:
    """Without what is each server's own choice. Go writes null for some empty lists, and cannot tell the two apart."""
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key != "resourceVersion"}
        return {key: comparable(item) for key, item in kept.items() if item is not None and item != []}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, str):
        return ADDRESS.sub("<address>", UID.sub("<uid>", TIME.sub("<time>", value)))
    if isinstance(value, int) and value in NODE_PORTS:
        return "<node port>"
    return value


def is_refused(case: dict[str, Any]) -> bool:
    sent = case["sent"]
    return sent["kind"] in REFUSED or sent.get("spec", {}).get("conversion", {}).get("strategy") == "Webhook"


SERVED = [case for case in GOLDEN["created"] if not is_refused(case)]
UNSUPPORTED = [case for case in GOLDEN["created"] if is_refused(case)]


@pytest.mark.parametrize("case", UNSUPPORTED, ids=name_of)
async def test_what_nothing_here_would_act_on_is_refused_in_so_many_words(api: API, case: dict[str, Any]) -> None:
    answer = await api("POST", path_of(api, case["sent"]), case["sent"])
    assert answer.status in (403, 422)
    assert b"not supported yet by the embedded API server" in await answer.read()


@pytest.mark.parametrize("case", SERVED, ids=name_of)
async def test_an_object_becomes_what_a_real_server_makes_of_it(api: API, case: dict[str, Any]) -> None:
    made = await api.ok("POST", f"{path_of(api, case['sent'])}?dryRun=All&fieldManager=golden", case["sent"])
    assert comparable(made) == comparable(case["made"])


def path_of(api: API, obj: dict[str, Any]) -> str:
    gv = GroupVersion.parse(obj["apiVersion"])
    resource = next(each for each in api.server.resources if each.group_version == gv and each.kind == obj["kind"])
    namespace = f"/namespaces/{obj['metadata']['namespace']}" if resource.namespaced else ""
    return f"{gv.path}{namespace}/{resource.plural}"
