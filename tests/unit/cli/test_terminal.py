"""Prompts, colors and completion at a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("kubewright")


def dialogue(folder: Path, *arguments: str, answers: dict[str, str], **variables: str) -> str:
    """Answer each question that contains a key of `answers`. Returns the output."""
    terminal, end = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | variables
    with subprocess.Popen(
        [COMMAND, *arguments], cwd=folder, env=environment, stdin=end, stdout=end, stderr=end
    ) as process:
        os.close(end)
        shown, open_questions = "", dict(answers)
        while part := _read(terminal):
            shown += part
            for question in [each for each in open_questions if each in shown]:
                os.write(terminal, f"{open_questions.pop(question)}\n".encode())
    os.close(terminal)
    assert process.returncode == 0, shown
    assert not open_questions, shown
    return shown


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 4096).decode()
    except OSError:  # Linux reports a closed terminal as an error
        return ""


def test_missing_values_are_prompted_for(tmp_path: Path) -> None:
    folder = tmp_path / "web-operator"
    folder.mkdir()
    dialogue(folder, "init", answers={"What domain do the names of your API groups end with: ": "example.com"})
    answers = {"What version (v1, v1alpha1, ...): ": "v1", "What kind (in CamelCase, like WebServer): ": "Web"}
    dialogue(folder, "create", "api", answers=answers)
    assert "class Web(" in (folder / "src/web_operator/api/v1/web.py").read_text()


def test_an_invalid_answer_is_explained_and_prompted_for_again(tmp_path: Path) -> None:
    folder = tmp_path / "Not a name"
    folder.mkdir()
    answers = {
        "What is the project called: ": "Web_Operator",
        '"Web_Operator" must consist of lower-case letters': "web",
    }
    dialogue(folder, "init", "--domain", "example.com", answers=answers)
    assert 'name = "web"' in (folder / "pyproject.toml").read_text()


def test_colors_are_for_terminals_and_can_be_off(tmp_path: Path) -> None:
    subprocess.run([COMMAND, "init", "--domain", "my.domain", "--project-name", "web"], cwd=tmp_path, check=True)
    (tmp_path / "src/web/main.py").write_text("")
    create = ("create", "controller", "--group", "apps", "--version", "v1", "--kind", "Deployment", "--force")
    assert "\x1b[33mWarning:\x1b[0m main.py has changed" in dialogue(tmp_path, *create, answers={})
    for said in (
        dialogue(tmp_path, "--no-color", *create, answers={}),
        dialogue(tmp_path, *create, answers={}, NO_COLOR="1"),
        subprocess.run([COMMAND, *create], cwd=tmp_path, capture_output=True, text=True, check=True).stderr,
    ):
        assert "Warning: main.py has changed" in said
        assert "\x1b" not in said


def test_the_help_of_the_operators_flags_has_no_colors_if_they_are_off(tmp_path: Path) -> None:
    for said in (
        dialogue(tmp_path, "--no-color", "run", "--help", answers={}, TERM="xterm"),
        dialogue(tmp_path, "run", "--help", answers={}, TERM="xterm", NO_COLOR="1"),
    ):
        assert "--leader-elect" in said
        assert "\x1b" not in said


def complete(*words: str) -> list[str]:
    environment = {
        "_KUBEWRIGHT_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["kubewright", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(COMMAND, env=os.environ | environment, capture_output=True, text=True, check=True)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_commands_options_and_values_are_completed() -> None:
    assert complete("in") == ["init", "install"]
    assert complete("create", "") == ["api", "controller", "webhook"]
    assert complete("create", "api", "--k") == ["--kind"]
    assert complete("--no") == ["--no-color"]
    assert complete("completion", "") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete --no-files")]
)
def test_each_shell_gets_its_script(shell: str, word: str) -> None:
    done = subprocess.run([COMMAND, "completion", shell], capture_output=True, text=True, check=True)
    assert word in done.stdout


def test_help_and_completion_load_no_command() -> None:
    script = "import sys; from kubewright_cli.main import cli; cli({}, standalone_mode=False); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script.format(["--help"])], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "kubewright_cli.main" in loaded
    assert not {"asyncio", "yaml", "jinja2", "ssl"} & set(loaded)
