"""The checker of histories: known and random histories, with the verdicts of a plain search and of Porcupine."""

import itertools
import json
import math
import random
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

import pytest

from linearizable import Operation, is_linearizable, is_restored

PORCUPINE = Path(__file__).parent / "porcupine"
"""A Go program around https://github.com/anishathalye/porcupine, a checker that many databases are tested with."""


KINDS: list[Literal["read", "write", "swap"]] = ["read", "write", "swap"]


def write(value: str, start: float, end: float = math.inf) -> Operation:
    return Operation("write", start, end, value)


def read(value: str | None, start: float, end: float) -> Operation:
    return Operation("read", start, end, value)


def swap(expected: str | None, value: str, start: float, end: float = math.inf) -> Operation:
    return Operation("swap", start, end, value, expected)


GOOD = {
    "nothing happened": [],
    "a read of an empty register": [read(None, 0, 1)],
    "a read after a write": [write("a", 0, 1), read("a", 2, 3)],
    "a read during a write sees the old value": [write("a", 0, 3), read(None, 1, 2)],
    "a read during a write sees the new value": [write("a", 0, 3), read("a", 1, 2)],
    "concurrent writes in either order": [write("a", 0, 3), write("b", 1, 2), read("a", 4, 5)],
    "a write without an answer happened": [write("a", 0), read("a", 1, 2)],
    "a write without an answer happened late": [write("a", 0), read(None, 1, 2), read("a", 3, 4)],
    "a write without an answer never happened": [write("a", 0), read(None, 1, 2), read(None, 3, 4)],
    "swaps one after the other": [swap(None, "a", 0, 1), swap("a", "ab", 2, 3), read("ab", 4, 5)],
    "a swap without an answer": [swap(None, "a", 0), swap("a", "ab", 1, 2)],
}
BAD = {
    "a lost write": [write("a", 0, 1), read(None, 2, 3)],
    "a stale read": [write("a", 0, 1), write("b", 2, 3), read("a", 4, 5)],
    "a value that was never written": [read("a", 0, 1)],
    "reads that go back": [write("a", 0, 9), read("a", 1, 2), read(None, 3, 4)],
    "a write that happens twice": [write("a", 0), read("a", 1, 2), write("b", 3, 4), read("b", 5, 6), read("a", 7, 8)],
    "two swaps of the same value": [swap(None, "a", 0, 3), swap(None, "b", 1, 2)],
    "a write seen before it began": [read("a", 0, 1), write("a", 2, 3)],
    "a lost append": [swap(None, "a", 0, 1), swap("a", "ab", 2, 3), read("a", 4, 5)],
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_is_accepted(name: str) -> None:
    assert is_linearizable(GOOD[name])


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_is_rejected(name: str) -> None:
    assert not is_linearizable(BAD[name])


def by_all_orders(history: list[Operation]) -> bool:
    """Decide by trying all orders of all subsets: slow, and plainly right."""
    answered = [each for each in history if each.answered]
    others = [each for each in history if not each.answered]
    for size in range(len(others) + 1):
        for chosen in itertools.combinations(others, size):
            if any(explains(order) for order in itertools.permutations([*answered, *chosen])):
                return True
    return False


def explains(order: tuple[Operation, ...]) -> bool:
    state: str | None = None
    for number, each in enumerate(order):
        if any(later.end < each.start for later in order[number + 1 :]):
            return False
        possible, state = each.after(state)
        if not possible:
            return False
    return True


def test_the_checker_agrees_with_a_search_of_all_orders() -> None:
    chance, verdicts = random.Random(1), set[bool]()
    for _ in range(300):
        history = [random_operation(chance) for _ in range(chance.randint(1, 5))]
        verdict = by_all_orders(history)
        verdicts.add(verdict)
        assert is_linearizable(history) == verdict, history
    assert verdicts == {True, False}


def random_operation(chance: random.Random) -> Operation:
    start = chance.randint(0, 6)
    end = math.inf if chance.random() < 0.2 else start + chance.randint(1, 3)
    kind = chance.choice(KINDS)
    values = (None, "a", "b") if kind == "read" else ("a", "b")
    return Operation(kind, start, end, chance.choice(values), chance.choice((None, "a", "b")))


# ---- longer histories


def from_a_register(chance: random.Random, operations: int, clients: int = 5) -> list[Operation]:
    """Return what the clients of a register saw that works. Some of them got no answer."""
    free, moments = [0] * clients, list[tuple[float, int, int]]()
    for _ in range(operations):
        client = chance.randrange(clients)
        start = free[client] + chance.randint(1, 3)
        free[client] = start + chance.randint(1, 9)
        moments.append((chance.uniform(start, free[client]), start, free[client]))
    state: str | None = None
    history: list[Operation] = []
    for number, (_, start, end) in enumerate(sorted(moments)):
        kind, before = chance.choice(KINDS), state
        if kind != "read":
            state = f"{before or ''},{number}" if kind == "swap" else str(number)
        is_answered = kind == "read" or chance.random() < 0.9
        history.append(Operation(kind, start, end if is_answered else math.inf, state, before))
    return history


def broken(history: Sequence[Operation], chance: random.Random) -> list[Operation]:
    """Return a history in which one answer is another one, or one write never happened."""
    number, changed = chance.randrange(len(history)), list(history)
    each = changed[number]
    if each.kind == "read":
        changed[number] = replace(each, value=chance.choice(history).value)
    elif each.answered:
        changed[number] = replace(each, value="lost")
    return changed


def test_what_a_register_answers_is_accepted() -> None:
    chance = random.Random(2)
    for _ in range(20):
        assert is_linearizable(from_a_register(chance, 60))


def test_many_writes_without_an_answer_do_not_slow_the_search_down() -> None:
    lost = [write(str(number), number) for number in range(200)]
    assert is_linearizable([*lost, write("a", 300, 301), read("a", 302, 303)])
    assert is_linearizable([*lost, write("a", 300, 301), read("7", 302, 303), read("7", 304, 305)])
    assert not is_linearizable([*lost, write("a", 300, 301), read("b", 302, 303)])


def test_a_restored_cluster_begins_with_a_state_of_its_backup() -> None:
    before = [write("a", 0, 1), write("b", 4, 5)]
    late, early = (Operation("read", *interval) for interval in ((6, 7), (2, 5)))
    assert is_restored(before, late, [read("b", 10, 11)])
    assert not is_restored(before, late, [read("a", 10, 11)])  # the backup lacks an acknowledged write
    assert not is_restored(before, late, [read(None, 10, 11)])
    assert is_restored(before, early, [read("a", 10, 11), write("c", 12, 13), read("c", 14, 15)])
    assert not is_restored(before, early, [read("a", 10, 11), read("b", 12, 13)])


# ---- Porcupine


def by_porcupine(program: Path, histories: Sequence[Sequence[Operation]]) -> list[bool]:
    given = json.dumps(
        [[asdict(each) | {"end": each.end if each.answered else None} for each in it] for it in histories]
    )
    done = subprocess.run((program,), input=given, capture_output=True, text=True, check=True)
    return [bool(each) for each in json.loads(done.stdout)]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_checker_agrees_with_porcupine(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("Go was not found")
    program = tmp_path / "porcupine"
    if subprocess.run(("go", "mod", "download"), cwd=PORCUPINE, check=False).returncode != 0:
        pytest.skip("the Go module cannot be had")
    subprocess.run(("go", "build", "-p", "1", "-o", program, "."), cwd=PORCUPINE, check=True)
    chance = random.Random(3)
    good = [from_a_register(chance, 80) for _ in range(300)]
    bad = [broken(each, chance) for each in good]
    small = [[random_operation(chance) for _ in range(chance.randint(1, 9))] for _ in range(3000)]
    known = [*GOOD.values(), *BAD.values()]
    histories = [*good, *bad, *small, *known]
    verdicts = by_porcupine(program, histories)
    assert sum(verdicts) in range(500, len(verdicts) - 500)
    differ = [
        history for history, verdict in zip(histories, verdicts, strict=True) if is_linearizable(history) != verdict
    ]
    assert not differ, differ[0]
