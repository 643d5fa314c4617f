"""The report of the benchmarks: medians, spreads, intervals and verdicts."""

from __future__ import annotations

import pytest
from benchmarks.bars import Bar, State, Verdict, judge
from benchmarks.bars import table as verdict_table
from benchmarks.report import (
    Figure,
    Measured,
    NotMeasured,
    PartlyMeasured,
    Run,
    disturbances,
    in_turns,
    rounds_of,
    table,
)


class Tool:
    def __init__(self, name: str) -> None:
        self.name = name


FIGURES = (Figure("cpu", "CPU, ms", 1), Figure("rss", "memory, MB", 0, depends_on_load=False))
COUNTS = (Figure("requests", "requests", 1, depends_on_load=False),)


def verdict(bar: Bar, disturbed: str = "", **rounds: list[float]) -> Verdict:
    """Judge one bar by the rounds of the figure `cpu` or `rss`."""
    measured = Measured(
        {bar.figure: rounds}, {disturbed: ["other processes used 40% of the CPUs"]} if disturbed else {}
    )
    (found,) = judge([bar], FIGURES, measured)
    return found


def test_the_report_has_the_median_of_all_rounds() -> None:
    runs = {"ours": [{"cpu": 9.0}, {"cpu": 1.0}, {"cpu": 2.0}], "theirs": [{"cpu": 4.0}, {"cpu": 5.0}, {"cpu": 6.0}]}
    measured = Measured(rounds_of(runs))
    assert measured.rounds == {"cpu": {"ours": [9.0, 1.0, 2.0], "theirs": [4.0, 5.0, 6.0]}}
    assert measured.medians == {"cpu": {"ours": 2.0, "theirs": 5.0}}


async def test_tools_are_measured_alternately_in_both_orders() -> None:
    order: list[str] = []

    async def run(tool: Tool) -> Run:
        order.append(tool.name)
        return {"requests": float(len(order))}

    measured = await in_turns([Tool("a"), Tool("b")], 3, run, COUNTS)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert measured.rounds == {"requests": {"a": [1.0, 4.0, 5.0], "b": [2.0, 3.0, 6.0]}}
    assert not measured.disturbed


def test_a_table_has_medians_with_spreads_and_ratios_with_intervals() -> None:
    rounds = {"cpu": {"ours": [0.5, 0.55, 0.45], "theirs": [1.0, 1.1, 0.91], "others": [4.0, 5.0, 3.0]}}
    head, _, values, ratios = table("figure", FIGURES, Measured(rounds), yardstick="theirs").splitlines()
    assert head.split() == ["figure", "ours", "theirs", "others"]
    assert values.split() == ["CPU,", "ms", "0.5", "±10%", "1.0", "±10%", "4.0", "±25%"]
    assert ratios.split() == ["of", "theirs", "0.50", "(0.49-0.51)", "3.91", "(2.62-5.85)"]


def test_a_single_round_has_a_ratio_without_an_interval() -> None:
    measured = Measured({"cpu": {"ours": [0.5], "theirs": [1.0]}})
    assert table("figure", FIGURES, measured, yardstick="theirs").splitlines()[-1].split() == ["of", "theirs", "0.50"]


def test_a_missing_measurement_is_a_dash() -> None:
    measured = Measured({"cpu": {"ours": [0.5], "theirs": [1.0]}, "rss": {"ours": [30.0]}})
    last = table("figure", FIGURES, measured, yardstick="theirs").splitlines()[-1]
    assert last.split() == ["memory,", "MB", "30", "-"]


def test_nothing_is_divided_by_a_yardstick_of_zero() -> None:
    measured = Measured({"rss": {"ours": [3.0, 3.0], "theirs": [0.0, 0.0]}})
    last = table("figure", FIGURES, measured, yardstick="theirs").splitlines()[-1]
    assert last.split() == ["memory,", "MB", "3", "0"]
    assert judge([Bar("rss", 1.0, of="theirs", ours="ours")], FIGURES, measured) == []


def test_times_of_a_busy_machine_are_marked_and_counts_are_not() -> None:
    rounds = {"cpu": {"ours": [0.5], "theirs": [1.0]}, "rss": {"ours": [30.0], "theirs": [40.0]}}
    measured = Measured(rounds, {"ours": ["other processes used 40% of the CPUs"]})
    lines = table("figure", FIGURES, measured, yardstick="theirs").splitlines()
    assert "0.5*" in lines[2]
    assert "*" not in lines[4]
    assert disturbances(measured).splitlines() == [
        "* do not trust: the machine was busy with other work",
        "  ours, 1 round: other processes used 40% of the CPUs",
    ]
    assert disturbances(Measured(rounds)) == ""


@pytest.mark.parametrize(
    ("ours", "state"),
    [
        ([0.38, 0.385, 0.382], State.HELD),
        ([0.42, 0.425, 0.422], State.NOT_HELD),
        ([0.38, 0.42, 0.39], State.NOT_DECIDED),
        ([0.3], State.NOT_DECIDED),
        ([0.5], State.NOT_DECIDED),
    ],
)
def test_a_bar_is_held_or_missed_only_by_its_whole_interval(ours: list[float], state: State) -> None:
    found = verdict(Bar("cpu", 0.4, of="theirs", ours="ours"), ours=ours, theirs=[1.0] * len(ours))
    assert found.bar == "CPU, ms <= 0.4 of theirs"
    assert found.state == state
    assert bool(found.reason) == (state == State.NOT_DECIDED)


@pytest.mark.parametrize(
    ("ours", "state"),
    [([70.0, 71.0, 72.0], State.HELD), ([79.0, 80.0, 81.0], State.NOT_DECIDED), ([90.0, 91.0], State.NOT_HELD)],
)
def test_a_bar_without_a_reference_is_an_absolute_limit(ours: list[float], state: State) -> None:
    found = verdict(Bar("rss", 80, ours="ours"), ours=ours)
    assert (found.bar, found.state) == ("memory, MB <= 80", state)


@pytest.mark.parametrize(("ours", "state"), [([0.0], State.HELD), ([0.0, 0.0, 0.1], State.NOT_HELD)])
def test_a_bar_of_zero_is_missed_by_one_round(ours: list[float], state: State) -> None:
    assert verdict(Bar("rss", 0, ours="ours"), ours=ours).state == state


@pytest.mark.parametrize("busy", ["ours", "theirs"])
def test_a_busy_machine_decides_nothing_about_times(busy: str) -> None:
    values = {"ours": [0.1, 0.1, 0.1], "theirs": [1.0, 1.0, 1.0]}
    found = verdict(Bar("cpu", 0.4, of="theirs", ours="ours"), busy, **values)
    assert found.state == State.NOT_DECIDED
    assert "busy" in found.reason
    assert verdict(Bar("rss", 0.4, of="theirs", ours="ours"), busy, **values).state == State.HELD


def test_the_table_of_bars_names_the_state_and_why_a_bar_is_not_decided() -> None:
    held = verdict(Bar("rss", 80, ours="ours"), ours=[70.0, 71.0, 72.0])
    open_ = verdict(Bar("cpu", 0.4, of="theirs", ours="ours"), ours=[0.3], theirs=[1.0])
    *_, first, second, reason = verdict_table([held, open_]).splitlines()
    assert first.split() == ["memory,", "MB", "<=", "80", "71.00", "68.52", "to", "73.48", "held"]
    assert second.split() == ["CPU,", "ms", "<=", "0.4", "of", "theirs", "0.30", "-", "not", "decided"]
    assert reason == "not decided: one round has no interval; use --repetitions 3 or more"


def test_a_missing_measurement_is_not_evaluated() -> None:
    bars = [Bar("cpu", 0.4, of="theirs", ours="ours"), Bar("rss", 80, ours="ours")]
    assert judge(bars, FIGURES, Measured({"cpu": {"ours": [0.4]}})) == []


async def test_a_tool_that_fails_is_left_out_and_the_others_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    async def run(tool: Tool) -> Run:
        if tool.name == "b":
            raise NotMeasured("it did not converge")
        return {"requests": 1.0}

    with pytest.raises(PartlyMeasured, match="b could not be measured") as raised:
        await in_turns([Tool("a"), Tool("b")], 2, run, COUNTS)
    assert raised.value.measured.rounds == {"requests": {"a": [1.0, 1.0]}}
    assert capsys.readouterr().err.count("b failed: it did not converge") == 1
