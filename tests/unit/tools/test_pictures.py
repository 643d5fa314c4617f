"""The pictures of the documentation: current, well-formed, accessible, and without text that is cut off."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks.apiservers import LISTED
from tools.pictures import charts
from tools.pictures.__main__ import FOLDER, RESULTS, main, pictures
from tools.pictures.drawing import LIGHT, WIDTH, Drawing, DrawingError, text_width, wrapped

SVG = "{http://www.w3.org/2000/svg}"
NAMES = sorted(pictures())


def test_the_pictures_in_the_repository_are_up_to_date() -> None:
    assert main(["--check"]) == 0


def test_a_stale_picture_fails_the_check_and_is_written_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], tmp_path) == 0
    (tmp_path / "event.svg").write_text("<svg/>")
    assert main(["--check"], tmp_path) == 1
    assert "docs/pictures/event.svg is out of date; run `make pictures`" in capsys.readouterr().out
    assert main([], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0


def test_every_file_in_the_folder_is_drawn_by_a_source() -> None:
    assert {file.name for file in FOLDER.iterdir()} <= {
        f"{name.removesuffix('.svg').removesuffix('-dark')}{suffix}.svg" for name in NAMES for suffix in ("", "-dark")
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_works_with_screen_readers_and_loads_nothing_external(name: str) -> None:
    svg = pictures()[name]
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert root.get("viewBox", "").startswith(f"0 0 {WIDTH} ")
    labels = [root.find(f"{SVG}title"), root.find(f"{SVG}desc")]
    assert root.get("aria-labelledby") == " ".join(str(label.get("id")) for label in labels if label is not None)
    assert all(label is not None and label.text for label in labels)
    assert not re.search(r"href|url\(|@import|<script|<image", svg)


@pytest.mark.parametrize("name", [name for name in NAMES if "-dark" not in name])
def test_light_and_dark_differ_only_in_colors(name: str) -> None:
    light, dark = (pictures()[each] for each in (name, name.replace(".svg", "-dark.svg")))
    assert light != dark
    assert re.sub(r"#[0-9a-f]{6}", "", light) == re.sub(r"#[0-9a-f]{6}", "", dark)


def test_no_text_is_too_small_to_read() -> None:
    sizes = {float(size) for svg in pictures().values() for size in re.findall(r'font-size="([\d.]+)"', svg)}
    assert min(sizes) >= 11.5


def test_text_that_does_not_fit_is_refused() -> None:
    drawing = Drawing(LIGHT, 100, title="A", description="B")
    with pytest.raises(DrawingError, match=r"'work queue' is \d+ wide and has room for 20"):
        drawing.text(10, 10, "work queue", width=20)
    with pytest.raises(DrawingError, match="has room for"):
        drawing.text(WIDTH - 30, 10, "work queue")
    with pytest.raises(DrawingError, match="takes 3 lines and has room for 2"):
        drawing.paragraph(10, 10, "one two three", 30, lines=2)


def test_lines_are_broken_at_spaces() -> None:
    lines = wrapped("one two three four", text_width("one two", 12) + 1, 12)
    assert lines == ["one two", "three", "four"]


def test_special_characters_are_escaped() -> None:
    drawing = Drawing(LIGHT, 100, title="A & B", description="<C>")
    drawing.text(10, 10, "a < b & c")
    texts = [element.text for element in ElementTree.fromstring(drawing.svg()).iter() if element.text]
    assert {"A & B", "<C>", "a < b & c"} <= set(texts)


def test_a_chart_has_the_measured_figures_their_date_and_versions() -> None:
    results = charts.read(RESULTS)
    svg = charts.draw(charts.CHARTS["bench-operators"], results, LIGHT).svg()
    for who, value in results["operators"]["cpu_ms_created"].items():
        assert f">{value:.2f} ms<" in svg
        assert f">{charts.NAMES[who]}<" in svg
    assert results["about"]["at"][:10] in svg
    assert f"controller-runtime {results['about']['versions']['controller-runtime']}" in svg


def test_a_chart_whose_section_was_not_measured_is_not_drawn(tmp_path: Path) -> None:
    results = dict(charts.read(RESULTS))
    del results["scale"]
    (tmp_path / "latest.json").write_text(json.dumps(results))
    drawn = pictures(tmp_path / "latest.json")
    assert "bench-cache.svg" not in drawn
    assert {"bench-operators.svg", "bench-servers.svg", "event.svg"} <= set(drawn)
    assert "bench-operators.svg" not in pictures(tmp_path / "missing.json")


def test_a_toolkit_that_was_not_measured_at_something_has_no_bar_there() -> None:
    chart = charts.CHARTS["bench-cache"]
    results = charts.read(RESULTS)
    del results["scale"]["many_cpu_s"]["kube-rs"]
    svg = charts.draw(chart, results, LIGHT).svg()
    absent = 8 - sum(len(results["scale"][panel.figure]) for panel in chart.panels if panel.section == "scale")
    assert svg.count(">not measured<") == absent


def test_the_chart_of_api_servers_names_the_length_of_the_measured_list() -> None:
    titles = [panel.title for panel in charts.CHARTS["bench-servers"].panels]
    assert f"CPU per list of {LISTED:,} objects" in titles
    assert f"Memory with {LISTED:,} objects" in titles


def test_the_history_has_a_dot_for_each_run_and_a_line_for_each_interval(tmp_path: Path) -> None:
    def run(day: int, **interval: float) -> str:
        figure = {"kubewright": {"median": 0.9, "of": "controller-runtime", "ratio": 0.5, **interval}}
        return json.dumps({"at": f"2026-01-0{day}T03:04:05+00:00", "figures": {"cpu_ms_created": figure}})

    history = tmp_path / "history.jsonl"
    other = json.dumps({"at": "2026-01-03T03:04:05+00:00", "figures": {"instructions_created": {}}})
    history.write_text("\n".join([run(1), run(2, low=0.4, high=0.6), other]) + "\n")
    svg = pictures(history=history)["bench-history.svg"]
    assert svg.count("<circle") == 2
    assert "2 runs, 2026-01-01 to 2026-01-02" in svg
    assert "CPU per object created, Kubewright: 0.50 first, 0.50 last." in svg
    history.write_text(run(1) + "\n")
    assert pictures(history=history)["bench-history.svg"].count("<path") == svg.count("<path") - 1


def test_the_history_is_not_drawn_without_runs(tmp_path: Path) -> None:
    assert "bench-history.svg" not in pictures(history=tmp_path / "history.jsonl")
