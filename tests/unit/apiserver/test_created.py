"""Created objects and their field owners, compared with those of a real API server.

`tests/golden/created.json` was recorded without the admission plugins that change objects, so they are disabled here.
Values that each server chooses (uids, times, addresses and ports of a range) are removed on both sides.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kubewright.machinery.gvk import GroupVersion
from kubewright.testing import VirtualClock
from kubewright_controlplane.apiserver import catalog
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
        "TaintNodesByCondition",
        "Priority",
        "DefaultTolerationSeconds",
        "DefaultStorageClass",
        "StorageObjectInUseProtection",
        "PersistentVolumeClaimResize",
        "RuntimeClass",
        "ResourceQuota",
    )
)
"""The disabled admission plugins, as far as they exist here."""
NODE_PORTS = range(30000, 32771)
"""Dry runs on a real server return numbers outside the range, because nothing is allocated."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api() -> AsyncIterator[API]:
    """A server that all cases share: dry runs change nothing."""
    clock = VirtualClock()
    every = {str(gv): True for gv in catalog.OPTIONAL}
    options = ServerOptions(clock=clock, tokens={"admin": ADMIN}, disabled_admission=QUIET, runtime_config=every)
    server = APIServer(options)
    await server.start()
    yield API(server, clock)
    await server.close()


def name_of(case: dict[str, Any]) -> str:
    sent = case["sent"]
    return f"{sent['apiVersion']}-{sent['kind']}-{sent['metadata']['name']}"


def comparable(value: Any) -> Any:
    """Return the object without the values that each server chooses. Go writes null for some empty lists; both count
    as equal.
    """
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


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", GOLDEN["created"], ids=name_of)
async def test_a_created_object_equals_that_of_a_real_server(api: API, case: dict[str, Any]) -> None:
    made = await api.ok("POST", f"{path_of(api, case['sent'])}?dryRun=All&fieldManager=golden", case["sent"])
    assert comparable(made) == comparable(case["made"])


def path_of(api: API, obj: dict[str, Any]) -> str:
    gv = GroupVersion.parse(obj["apiVersion"])
    resource = next(each for each in api.server.resources if each.group_version == gv and each.kind == obj["kind"])
    namespace = f"/namespaces/{obj['metadata']['namespace']}" if resource.namespaced else ""
    return f"{gv.path}{namespace}/{resource.plural}"
