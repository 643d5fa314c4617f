"""`make mutants`: the changes of a module, the code that it leaves alone, and the outcome of each change."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest
from tools.mutants import AREAS, ROOT, Area, MutantsError, mutants_of, run, sample, summary

HERE = Path("demo.py")
runs_tests = pytest.mark.timeout(300)
"""For tests that start further test runs."""


def changes(source: str) -> dict[str, str]:
    """Return the changed bodies of a function's mutants, by change."""
    body = dedent(source).strip("\n")
    module = "async def f(a, b, c):\n" + "\n".join(f"    {line}" for line in body.splitlines()) + "\n"
    found = {}
    for each in mutants_of(module.encode(), HERE):
        changed = each.applied(module.encode()).decode()
        compile(changed, "demo.py", "exec")
        found[each.change] = dedent(changed.partition("\n")[2]).strip("\n")
    return found


@pytest.mark.parametrize(
    ("code", "change", "changed"),
    [
        ("x = a < b", "`a < b` became `a <= b`", "x = (a <= b)"),
        ("x = a >= b", "`a >= b` became `a > b`", "x = (a > b)"),
        ("x = a == b", "`a == b` became `a != b`", "x = (a != b)"),
        ("x = a is not None", "`a is not None` became `a is None`", "x = (a is None)"),
        ("x = a not in b", "`a not in b` became `a in b`", "x = (a in b)"),
        ("x = a < b <= c", "`a < b <= c` became `a < b < c`", "x = (a < b < c)"),
        ("if a:\n    b()", "condition `a` negated", "if (not a):\n    b()"),
        ("if not a:\n    b()", "condition `not a` negated", "if a:\n    b()"),
        ("x = b if a else c", "condition `a` negated", "x = b if (not a) else c"),
        ("x = [y for y in a if y]", "condition `y` negated", "x = [y for y in a if (not y)]"),
        ("while a:\n    b()", "condition `a` negated", "while (not a):\n    b()"),
        ("x = a and b", "`a and b` became `a or b`", "x = (a or b)"),
        ("x = a and b and c", "`b` dropped from `a and b and c`", "x = (a and c)"),
        ("x = a or b", "`b` dropped from `a or b`", "x = a"),
        ("a.b()", "`a.b()` dropped", "pass"),
        ("await a()", "`await a()` dropped", "pass"),
        ("await a()", "`await` removed from `await a()`", "a()"),
        ("a.b = c", "`a.b = c` dropped", "pass"),
        ("a[b] = c", "`a[b] = c` dropped", "pass"),
        ("a += 1", "`a += 1` became `a -= 1`", "a -= 1"),
        ("raise a", "`raise a` dropped", "pass"),
        ("del a[b]", "`del a[b]` dropped", "pass"),
        ("return a", "`return a` became `return None`", "return None"),
        ("for x in a:\n    continue", "`continue` dropped", "for x in a:\n    pass"),
        ("x = True", "`True` became `False`", "x = False"),
        ("x = 3", "`3` became `4`", "x = 4"),
        ("x = a - b", "`a - b` became `a + b`", "x = (a + b)"),
        ("x = min(a, b)", "`min` became `max` in `min(a, b)`", "x = max(a, b)"),
        ("x = a(b, uid=c)", "`uid=` dropped from `a(b, uid=c)`", "x = a(b)"),
    ],
)
def test_a_module_is_changed_at_one_place(code: str, change: str, changed: str) -> None:
    assert changes(code)[change] == changed


@pytest.mark.parametrize(
    "code",
    [
        '"""A docstring."""',
        "log.info('Lease released', name=a)",
        "self._log.warning(a)",
        "assert a",
        "x: int",
        "x = f'{a + b}'",
        "x = 'text' + a",
        "x = a * b",
        "return None",
        "while True:\n    pass",
    ],
)
def test_code_without_behavior_is_left_alone(code: str) -> None:
    assert set(changes(code)) <= {"`True` became `False`"}


def test_annotations_decorators_overloads_and_constants_of_modules_are_left_alone() -> None:
    source = """\
    from typing import TYPE_CHECKING, overload

    LIMIT: int = 3

    if TYPE_CHECKING:
        import os

    @overload
    def f(a: int = 1) -> int: ...

    @decorate(order=2)
    def f(a: "int | None") -> int:
        x: "list[int]" = []
    """
    assert mutants_of(dedent(source).encode(), HERE) == []


def test_places_are_correct_after_multibyte_characters() -> None:
    assert changes("x = ['é', '→', a < b]")["`a < b` became `a <= b`"] == "x = ['é', '→', (a <= b)]"


def test_a_statement_of_several_lines_is_replaced_as_a_whole() -> None:
    assert changes("a.b(\n    c,\n)\nreturn")["`a.b(c)` dropped"] == "pass\nreturn"


@pytest.mark.parametrize("name", list(AREAS))
def test_every_area_has_code_and_tests(name: str) -> None:
    area = AREAS[name]
    assert list((ROOT / area.sources).rglob("*.py"))
    assert list((ROOT / area.tests).rglob("test_*.py"))


MODULE = '''\
"""A bank."""


def may_withdraw(balance: int, amount: int) -> bool:
    return 0 < amount <= balance


def wait(ready: list[int]) -> None:
    while not ready:
        ready.append(1)
'''
TESTS = """\
from demo.bank import may_withdraw, wait


def test_the_last_coin() -> None:
    assert may_withdraw(5, 5)
    assert not may_withdraw(5, 6)


def test_waiting() -> None:
    ready = []
    wait(ready)
    assert ready == [1]
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for path, text in {
        "src/demo/__init__.py": "",
        "src/demo/bank.py": MODULE,
        "tests/test_bank.py": TESTS,
        "pytest.ini": "[pytest]\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_a_sample_depends_on_the_seed_alone_and_takes_from_every_area(repository: Path) -> None:
    areas = {name: Area("src/demo", "tests") for name in ("bank", "shop", "mint")}
    first = sample(repository, areas, 6, 1)
    assert first == sample(repository, areas, 6, 1)
    assert first != sample(repository, areas, 6, 2)
    assert [name for name, _ in first] == 2 * list(areas)


def outcomes(repository: Path, wanted: str) -> str:
    """Return the output of a run for the mutants whose change matches."""
    said: list[str] = []
    areas = {"bank": Area("src/demo", "tests")}
    chosen = [each for each in sample(repository, areas, 99, 0) if re.search(wanted, each[1].change)]
    assert chosen
    run(repository, areas, chosen, 120, slack=1, say=said.append)
    return "\n".join(said)


@runs_tests
def test_a_change_that_no_test_notices_survives_and_the_others_are_killed(repository: Path) -> None:
    said = outcomes(repository, "0 < amount")
    assert "killed            src/demo/bank.py:5  `0 < amount <= balance` became `0 < amount < balance`" in said
    assert "SURVIVED          src/demo/bank.py:5  `0 < amount <= balance` became `0 <= amount <= balance`" in said
    assert "3 mutants: 2 killed (0 by a timeout), 1 survived" in said
    assert (repository / "src/demo/bank.py").read_text() == MODULE


@runs_tests
def test_tests_that_hang_are_ended_and_count_as_killed(repository: Path) -> None:
    said = outcomes(repository, "append.*dropped")
    assert "killed (timeout)  src/demo/bank.py:10  `ready.append(1)` dropped" in said
    assert "1 mutants: 1 killed (1 by a timeout), 0 survived" in said


@runs_tests
def test_tests_that_fail_without_a_change_are_reported(repository: Path) -> None:
    (repository / "tests/test_bank.py").write_text("def test_it() -> None:\n    assert False\n")
    with pytest.raises(MutantsError, match="tests: the tests fail without a change; fix them first"):
        outcomes(repository, "0 < amount")


def test_the_summary_lists_survivors() -> None:
    mutant = mutants_of(MODULE.encode(), Path("src/demo/bank.py"))[0]
    lines = list(summary(3, 1, [mutant]))
    assert lines[0].strip() == "3 mutants: 2 killed (1 by a timeout), 1 survived"
    assert lines[-1] == f"  src/demo/bank.py:5  {mutant.change}\n      return 0 < amount <= balance"
