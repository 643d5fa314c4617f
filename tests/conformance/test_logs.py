"""Options of log requests. The Pods are on no node, so nothing has to run."""

from __future__ import annotations

import pytest

from conformance.rawapi import API


async def a_pod(api: API, ns: str, *containers: str) -> str:
    """Return the log path of a Pod that no scheduler handles."""
    spec = {
        "schedulerName": "nobody",
        "serviceAccountName": "default",
        "automountServiceAccountToken": False,
        "containers": [{"name": name, "image": "i"} for name in containers],
    }
    account = {"metadata": {"name": "default"}}
    await api.post(f"{ns}/serviceaccounts", account)
    (await api.post(f"{ns}/pods", {"metadata": {"name": "p"}, "spec": spec})).expect(201)
    return f"{ns}/pods/p/log"


async def test_a_pod_without_a_node_has_an_empty_log(api: API, ns: str) -> None:
    answer = (await api.get(await a_pod(api, ns, "c"))).expect(204)
    assert answer.body == b""


async def test_the_container_must_be_named_if_there_are_several(api: API, ns: str) -> None:
    answer = (await api.get(await a_pod(api, ns, "one", "two"))).expect(400)
    assert answer.message == "a container name must be specified for pod p, choose one of: [one two]"
    answer = (await api.get(f"{ns}/pods/p/log?container=three")).expect(400)
    assert answer.message == "container three is not valid for pod p"


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (
            "sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z",
            422,
            "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ("tailLines=x", 400, 'parsing "x": invalid syntax'),
    ],
)
async def test_contradictory_log_options_are_rejected(api: API, ns: str, query: str, status: int, message: str) -> None:
    answer = (await api.get(f"{await a_pod(api, ns, 'c')}?{query}")).expect(status)
    assert message in answer.message


async def test_an_invalid_time_is_rejected(api: API, ns: str) -> None:
    answer = (await api.get(f"{await a_pod(api, ns, 'c')}?sinceTime=yesterday")).expect(400)
    assert 'parsing time "yesterday"' in answer.message
