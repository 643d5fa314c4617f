"""Transcripts: pages and files with the output of commands. `make check` replays those of this repository's files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.transcripts.alike import alike
from tools.transcripts.replay import replay
from tools.transcripts.session import Failed

pytestmark = pytest.mark.timeout(300)  # they start shells

PODS = """\
NAME                   READY   STATUS    RESTARTS   AGE
web-84c8cdb765-gjjcd   1/1     Running   0          9s
web-84c8cdb765-xwbwt   0/1     Pending   0          9s
"""


def replayed(folder: Path, page: str) -> str:
    path = folder / "README.md"
    path.write_text(page)
    return replay(path)


def test_a_page_is_updated_with_the_current_output(tmp_path: Path) -> None:
    page = "Say it:\n\n```console\n$ echo one\nten\n$ echo two\n```\n\n    $ echo not run\n"
    assert replayed(tmp_path, page) == page.replace("ten", "one").replace("two\n`", "two\ntwo\n`")


def test_a_command_sees_the_state_that_earlier_commands_left(tmp_path: Path) -> None:
    page = "```console\n$ cd /\n$ name=it\n```\nand\n```console\n$ pwd; echo $name\n/\nit\n```\n"
    assert replayed(tmp_path, page) == page


def test_a_command_may_have_several_lines(tmp_path: Path) -> None:
    page = "```console\n$ cat <<END\n> a\n>\n> b\n> END\na\n\nb\n```\n"
    assert replayed(tmp_path, page) == page


def test_a_file_with_a_title_is_written_to_the_current_folder(tmp_path: Path) -> None:
    page = '```console\n$ mkdir -p project && cd project\n```\n```python title="a/b.py"\nx = 1\n```\n'
    page += "```console\n$ cat a/b.py\nx = 1\n$ pwd\n~/project\n```\n"
    assert replayed(tmp_path, page) == page


def test_a_page_in_a_project_is_read_in_a_copy_of_it(tmp_path: Path) -> None:
    project = tmp_path / "some-operator"
    project.mkdir()
    (project / "pyproject.toml").write_text("")
    page = "```console\n$ pwd\n~/some-operator\n$ ls\nREADME.md\npyproject.toml\n$ touch new\n```\n"
    assert replayed(project, page) == page
    assert not (project / "new").exists()


def test_a_command_that_fails_ends_the_replay(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"\$ echo no && false\nno\n\[status 1\]"):
        replayed(tmp_path, "```console\n$ echo no && false\nno\n```\n")


def test_a_failure_that_is_shown_has_to_happen(tmp_path: Path) -> None:
    page = "```console fails\n$ echo no && false\nno\n```\n"
    assert replayed(tmp_path, page) == page
    with pytest.raises(Failed, match="where a failure is shown"):
        replayed(tmp_path, page.replace("&& false", "&& true"))


def test_a_background_command_shows_its_output_until_it_is_ready(tmp_path: Path) -> None:
    (tmp_path / "serve").write_text("echo new; sleep 0.2; echo ready; sleep 60")
    page = f"```console\n$ sh {tmp_path}/serve &\nold\nready\n$ kill %1\n```\n"
    assert replayed(tmp_path, page) == page.replace("old", "new")


def test_processes_that_are_left_running_are_stopped(tmp_path: Path) -> None:
    page = "```console\n$ sleep 600 &\n$ echo $! > " + str(tmp_path / "pid") + "\n```\n"
    replayed(tmp_path, page)
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(PODS, PODS.replace("9s", "2m10s"), id="ages"),
        pytest.param(PODS, PODS.replace("  ", "   "), id="width of columns"),
        pytest.param(PODS, PODS.replace("84c8cdb765-gjjcd", "84c8cdb765-zzzzz"), id="random names, which are sorted"),
        pytest.param(PODS, PODS.replace("84c8cdb765-gjjcd", "84c8cdb765-4469m"), id="a random name like an age"),
        pytest.param("10.96.0.1 443/TCP", "10.96.7.12 443/TCP", id="addresses"),
        pytest.param("at 127.0.0.1:41234 after 0.1 s", "at 127.0.0.1:9 after 1.25 s", id="ports that are free"),
        pytest.param('{"ts":"2026-11-22T07:13:57.951Z"}', '{"ts":"2027-01-02T03:04:05Z"}', id="timestamps"),
        pytest.param("UID: 53d4ffd1-77e7-48cd-b7ac-f7d07cb792df", "UID: " + "-".join(
            ["00000000", "1111", "2222", "3333", "444444444444"]), id="uids"),
        pytest.param("Resource Version:  12", "Resource Version:  512", id="resource versions"),
        pytest.param("Waiting for deployment to finish...\ndone", "done", id="progress"),
        pytest.param("Normal 3s (x2 over 5s) it", "Normal 3s it", id="merged Events"),
    ],
)  # fmt: skip
def test_values_that_vary_between_runs_are_ignored(one: str, other: str, tmp_path: Path) -> None:
    assert one != other
    assert alike(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(PODS, PODS.replace("Pending", "Running"), id="state"),
        pytest.param(PODS, PODS.rpartition("web")[0], id="a line"),
        pytest.param("80:30010/TCP", "80:30011/TCP", id="node ports"),
        pytest.param("web-nginx", "web-other", id="names that are words"),
        pytest.param("b\na", "a\nb", id="order"),
    ],
)
def test_a_difference_in_the_output_fails_the_check(one: str, other: str) -> None:
    assert not alike(one, other)
