"""The report of the benchmarks: medians, tables and verdicts."""

from __future__ import annotations

import pytest
from benchmarks.bars import Bar, judge
from benchmarks.report import Figure, NotMeasured, PartlyMeasured, Run, in_turns, medians_of, table


class Tool:
    def __init__(self, name: str) -> None:
        self.name = name


FIGURES = (Figure("cpu", "CPU, ms", 1), Figure("rss", "memory, MB", 0))


def test_the_report_has_the_median_of_all_repetitions() -> None:
    runs = {"ours": [{"cpu": 9.0}, {"cpu": 1.0}, {"cpu": 2.0}], "theirs": [{"cpu": 4.0}, {"cpu": 5.0}]}
    assert medians_of(runs) == {"cpu": {"ours": 2.0, "theirs": 4.5}}


async def test_tools_are_measured_alternately_in_both_orders() -> None:
    order: list[str] = []

    async def run(tool: Tool) -> Run:
        order.append(tool.name)
        return {"cpu": float(len(order))}

    medians = await in_turns([Tool("a"), Tool("b")], 3, run, FIGURES)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert medians == {"cpu": {"a": 4.0, "b": 3.0}}


def test_a_table_has_a_row_for_each_measured_figure_with_ratios_to_the_yardstick() -> None:
    medians = {"cpu": {"ours": 0.5, "theirs": 1.0, "others": 4.0}}
    head, _, line = table("figure", FIGURES, medians, yardstick="theirs").splitlines()
    assert head.split() == ["figure", "ours", "theirs", "others"]
    assert line.split() == ["CPU,", "ms", "0.5", "(0.50)", "1.0", "4.0", "(4.00)"]


def test_a_missing_measurement_is_a_dash() -> None:
    medians = {"cpu": {"ours": 0.5, "theirs": 1.0}, "rss": {"ours": 30.0}}
    assert table("figure", FIGURES, medians, yardstick="theirs").splitlines()[-1].split() == [
        "memory,",
        "MB",
        "30",
        "-",
    ]


def test_nothing_is_divided_by_a_yardstick_of_zero() -> None:
    medians = {"rss": {"ours": 3.0, "theirs": 0.0}}
    assert table("figure", FIGURES, medians, yardstick="theirs").splitlines()[-1].split() == ["memory,", "MB", "3", "0"]
    assert judge([Bar("rss", 1.0, of="theirs", ours="ours")], FIGURES, medians) == []


@pytest.mark.parametrize(("ours", "holds"), [(0.4, True), (0.41, False)])
def test_a_bar_is_met_up_to_its_fraction_of_the_other_figure(ours: float, holds: bool) -> None:
    (verdict,) = judge([Bar("cpu", 0.4, of="theirs", ours="ours")], FIGURES, {"cpu": {"ours": ours, "theirs": 1.0}})
    assert verdict.bar == "CPU, ms <= 0.4 of theirs"
    assert verdict.measured == pytest.approx(ours)
    assert verdict.holds is holds


@pytest.mark.parametrize(("ours", "holds"), [(80.0, True), (80.1, False)])
def test_a_bar_without_a_reference_is_an_absolute_limit(ours: float, holds: bool) -> None:
    (verdict,) = judge([Bar("rss", 80, ours="ours")], FIGURES, {"rss": {"ours": ours, "theirs": 1.0}})
    assert (verdict.bar, verdict.holds) == ("memory, MB <= 80", holds)


def test_a_missing_measurement_is_not_evaluated() -> None:
    bars = [Bar("cpu", 0.4, of="theirs", ours="ours"), Bar("rss", 80, ours="ours")]
    assert judge(bars, FIGURES, {"cpu": {"ours": 0.4}}) == []


async def test_a_tool_that_fails_is_left_out_and_the_others_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    async def run(tool: Tool) -> Run:
        if tool.name == "b":
            raise NotMeasured("it did not converge")
        return {"cpu": 1.0}

    with pytest.raises(PartlyMeasured, match="b could not be measured") as raised:
        await in_turns([Tool("a"), Tool("b")], 2, run, FIGURES)
    assert raised.value.medians == {"cpu": {"a": 1.0}}
    assert capsys.readouterr().err.count("b failed: it did not converge") == 1
