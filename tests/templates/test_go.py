"""Templates against Go's text/template and Sprig: a corpus with recorded answers, and random templates."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.goprograms import BUILD_SECONDS, go_program
from templates.generator import Generator
from templates.oracle import PROGRAM, TIMEOUT, VALUES, Answer, Case, answer, corpus, go_answers, recorded

SEED = 20
RANDOM_TEMPLATES = 1500


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Render in UTC, as the Go program does."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def differences(pairs: list[tuple[Case, Answer]]) -> list[str]:
    """Return what we render differently from Go."""
    out: list[str] = []
    for case, expected in pairs:
        if expected != TIMEOUT and (found := answer(case)) != expected:
            out.append(f"{case}: Go {expected!r}, here {found!r}")
    return out


def test_the_corpus_renders_as_in_go() -> None:
    pairs = recorded()
    assert len(pairs) > 1000
    assert differences(pairs) == []


def test_the_recorded_answers_are_those_of_the_corpus() -> None:
    assert [case for case, _ in recorded()] == list(corpus())


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("go") is None:
        pytest.skip("Go was not found")
    return go_program(tmp_path_factory, PROGRAM)


@pytest.mark.long
@pytest.mark.timeout(2 * BUILD_SECONDS + 600)
def test_the_recorded_answers_are_those_of_go(program: Path) -> None:
    cases, answers = zip(*recorded(), strict=True)
    assert go_answers((program,), list(cases)) == list(answers)


@pytest.mark.long
@pytest.mark.timeout(2 * BUILD_SECONDS + 600)
def test_random_templates_render_as_in_go(program: Path) -> None:
    generator = Generator(SEED)
    cases: list[Case] = [
        {"template": generator.template(), "functions": "sprig", **generator.options()} for _ in range(RANDOM_TEMPLATES)
    ]
    answers = go_answers((program,), cases)
    assert sum(each is not None for each in answers) > RANDOM_TEMPLATES / 5
    assert differences(list(zip(cases, answers, strict=True))) == []


def test_rendering_does_not_change_the_values() -> None:
    before = repr(VALUES)
    case = {"template": '{{set .m "x" 5}}{{unset .m "y"}}{{merge .em .m}}', "functions": "sprig"}
    assert answer({**case, "missing": "error", "ints": True}) is not None
    assert repr(VALUES) == before
