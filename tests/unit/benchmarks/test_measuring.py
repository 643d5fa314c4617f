"""The sources of figures: audit logs, answers of caches, and the kernel's process statistics."""

from __future__ import annotations

import sys
from dataclasses import astuple
from pathlib import Path

import pytest
from benchmarks import counted, reconciles
from benchmarks.cache import Answer, difference
from benchmarks.imports import import_times
from benchmarks.instructions import write_events
from benchmarks.peers.kubewright import widgets
from benchmarks.pods import Identity, copied
from benchmarks.process import ProcessFailed, running
from benchmarks.requests import AuditLog
from benchmarks.requests import counted as requests_of


def audited(verb: str, stage: str = "ResponseComplete", group: str = "bench.kubewright.dev") -> bytes:
    return f'{{"verb": "{verb}", "stage": "{stage}", "objectRef": {{"apiGroup": "{group}"}}, "level": "x"}}'.encode()


def test_requests_are_counted_when_answered_and_watches_when_they_begin() -> None:
    log = [audited("patch"), audited("list"), audited("watch", "ResponseStarted"), audited("watch")]
    requests = requests_of(log)
    assert requests == {"patch": 1, "list": 1, "watch": 1}
    assert (requests.sent, requests.writes) == (2, 1)


def test_access_reviews_do_not_count_as_writes() -> None:
    requests = requests_of(
        [
            audited("create", group="authorization.k8s.io"),
            audited("create"),
            b'{"verb": "get", "stage": "ResponseComplete"}',
        ]
    )
    assert (requests.sent, requests.writes) == (3, 1)


def test_an_audit_log_is_read_incrementally_and_in_whole_lines(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    file = tmp_path / "audit.log"
    file.write_bytes(audited("patch") + b"\n" + audited("patch")[:20])
    assert log.take().sent == 1
    file.write_bytes(audited("patch") + b"\n" + audited("patch") + b"\n")
    assert log.take().sent == 1
    assert log.take().sent == 0


@pytest.mark.parametrize(
    ("count", "pods", "wrong"),
    [
        (2, {"a": ["7", "as it was"]}, ""),
        (3, {"a": ["7", "as it was"]}, "it has 3 Pods, the server 2"),
        (2, {"a": ["6", "as it was"]}, "a is ['6', 'as it was'], on the server ['7', 'as it was']"),
        (2, {}, "a is None, on the server ['7', 'as it was']"),
    ],
)
def test_a_cache_is_correct_when_count_and_samples_match_the_server(
    count: int, pods: dict[str, list[str]], wrong: str
) -> None:
    assert difference(2, {"a": ["7", "as it was"]}, Answer(count, pods)) == wrong


def test_a_copy_of_a_stored_pod_has_the_same_length_and_another_identity() -> None:
    one, other = Identity.of(20), Identity.of(21)
    stored = b"\x0a\x0a" + b"\x2a\x24".join(part.encode() for part in astuple(one)) + f"{one.name} as it was".encode()
    copy = copied(stored, one, other)
    assert len(copy) == len(stored)
    assert copy.count(other.name.encode()) == 2
    assert all(part.encode() in copy for part in astuple(other))
    assert not any(part.encode() in copy for part in astuple(one))


def test_the_identity_of_a_pod_is_its_own_and_the_same_each_time() -> None:
    assert Identity.of(7) == Identity.of(7)
    assert len({Identity.of(number).uid for number in range(1000)}) == 1000
    assert len({tuple(map(len, astuple(Identity.of(number)))) for number in range(1000)}) == 1


async def test_the_cpu_and_memory_of_a_running_process_are_measured(tmp_path: Path) -> None:
    program = "import sys\nfor line in sys.stdin: sum(range(10**6)); print(line.upper(), end='', flush=True)"
    async with running((sys.executable, "-c", program), tmp_path / "log", answers=True) as echo:
        assert await echo.ask("first") == b"FIRST\n"
        before = echo.cpu
        assert await echo.ask("second") == b"SECOND\n"
        assert echo.cpu > before
        assert echo.peak_rss >= echo.rss > 1_000_000


async def test_a_process_that_exits_early_ends_the_measurement_with_its_last_output(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "import sys; sys.exit('no API server')")

    async def ask() -> None:
        async with running(command, tmp_path / "log", answers=True) as program:
            await program.ask("anything")

    with pytest.raises(ProcessFailed, match=r"(?s)exited with status 1.*no API server"):
        await ask()


def test_import_times_are_those_of_each_module_alone_in_milliseconds() -> None:
    told = """
import time: self [us] | cumulative | imported package
import time:      1500 |       2000 |   msgspec
import time:        20 |      12345 | kubewright.models
"""
    assert import_times(told) == {"msgspec": 1.5, "kubewright.models": 0.02}


async def test_the_operator_converges_on_the_canned_answers_of_the_sdk_measurement() -> None:
    costs = await reconciles.measure(widgets.reconcile, objects=20, together=4)
    assert costs["created"] > 0
    assert costs["updated"] > 0


@pytest.mark.parametrize("one_pass", [False, True])
async def test_the_counted_work_of_an_operator_is_done(one_pass: bool) -> None:
    await counted.reconcile({"created": 32, "updated": 16}, one_pass=one_pass)


async def test_the_counted_requests_are_answered() -> None:
    await counted.server({"create": 2, "get": 1, "patch": 1, "apply": 1})


async def test_the_counted_pods_are_cached(tmp_path: Path) -> None:
    file = tmp_path / "pods.jsonl"
    write_events(file)
    size = len(file.read_bytes().splitlines()[0])
    assert 3000 < size < 5000
    await counted.pods({"listed": 30}, file)
