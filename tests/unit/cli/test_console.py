"""The output of commands: messages, progress and colors."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from subprocess import PIPE

import click
from click.testing import CliRunner, Result

from kubewright_cli import console


def said(function: Callable[[], None], *, color: bool = False) -> Result:
    return CliRunner().invoke(click.command(function), color=color)


def test_a_table_has_columns_under_its_header_and_no_space_at_the_end() -> None:
    def show() -> None:
        console.table(["NAME", "READY", "AGE"], [["web", console.good("True"), "3s"], ["database", "", ""]])

    assert said(show).stdout == "NAME       READY   AGE\nweb        True    3s\ndatabase\n"
    assert click.unstyle(said(show, color=True).stdout) == said(show).stdout


def test_notes_and_warnings_go_to_standard_error() -> None:
    def show() -> None:
        console.note("looking at the cluster")
        console.warn("it is far away")
        console.document({"ready": True, "wörd": None})

    result = said(show)
    assert json.loads(result.stdout) == {"ready": True, "wörd": None}
    assert result.stderr == "looking at the cluster\nWarning: it is far away\n"


def test_progress_is_silent_for_less_than_a_second() -> None:
    def show() -> None:
        with console.progress("Waiting for the CRD"):
            console.say("served")

    assert said(show).output == "served\n"


WAITING = """
from kubewright_cli import console
with console.progress("1 of 2 are ready") as step:
    input()
    step("2 of 2 are ready")
    input()
print("done")
"""


def test_progress_without_a_terminal_is_a_line_for_each_step() -> None:
    command = [sys.executable, "-c", WAITING]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        for line in ("1 of 2 are ready ...\n", "2 of 2 are ready ...\n"):
            assert process.stderr.readline() == line
            process.stdin.write("\n")
        assert process.communicate() == ("done\n", "")


def test_progress_on_a_terminal_is_one_line_that_counts_and_disappears() -> None:
    terminal, end = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", WAITING], stdin=PIPE, stdout=PIPE, stderr=end) as process:
        os.close(end)
        shown = b""
        while b"1 of 2 are ready ... 2 s" not in shown:
            shown += os.read(terminal, 4096)
        assert process.communicate(b"\n\n") == (b"done\n", None)
    while not shown.endswith(b"\r\x1b[K"):
        shown += os.read(terminal, 4096)
    os.close(terminal)
    assert b"\n" not in shown


def test_progress_ends_with_its_block_when_that_fails() -> None:
    def show() -> None:
        with console.progress("Waiting"):
            raise click.ClickException("it broke")

    assert said(show).stderr == "Error: it broke\n"
