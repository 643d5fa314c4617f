"""Markdown pages whose commands are run: the examples' READMEs, the tutorial.

    ```console                          commands after `$ `, each followed by its output
    ```console fails                    the same, and each of its commands fails
    ```python title="src/module.py"     a file (of any language) that the replay writes at this point

Everything else is for readers only. Continuation lines of a command begin with `> `. A command that ends in `&` runs in
the background: the replay waits for the last line of its output that the page shows, if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.transcripts.alike import alike, fixed
from tools.transcripts.session import Failed, Session

_BLOCK: Final = re.compile(r"^```(?P<language>\w+)(?P<info>[^\n]*)\n(?P<body>.*?)^```$", flags=re.S | re.M)
_TITLE: Final = re.compile(r'title="([^"]+)"')
_COMMAND: Final = re.compile(r"^\$ (?P<first>.*\n)(?P<further>(?:> ?.*\n)*)", flags=re.M)


def replay(page: str, session: Session) -> str:
    """Return the page with the current output of its commands. Output that is alike stays as it is.

    The user's home is shown as `~`. Files of the page are written to the current folder.

    Raises Failed for a command that fails, or that does not where it should, or does not come to its end.
    """

    def block(found: re.Match[str]) -> str:
        if found["language"] == "console":
            head = found[0].partition("\n")[0]
            shown = _console(found["body"], session, fails="fails" in found["info"].split())
            return f"{head}\n{''.join(shown)}```"
        if title := _TITLE.search(found["info"]):
            path = Path(session.run("pwd").output.rstrip("\n"), title[1])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(found["body"])
        return found[0]

    return _BLOCK.sub(block, page)


def _console(body: str, session: Session, *, fails: bool) -> Iterator[str]:
    commands = list(_COMMAND.finditer(body))
    for number, each in enumerate(commands):
        end = commands[number + 1].start() if number + 1 < len(commands) else len(body)
        shown = body[each.end() : end]
        command = each["first"] + re.sub("^> ?", "", each["further"], flags=re.M)
        said = _said(command.rstrip("\n"), shown, session, fails=fails).replace(str(session.home), "~")
        yield each[0] + (shown if alike(shown, said) else said)


def _said(command: str, shown: str, session: Session, *, fails: bool) -> str:
    if command.endswith("&"):
        return _until_ready(command, shown, session)
    said, status = session.run(command)
    if (status != 0) != fails:
        raise Failed(f"$ {command}\n{said}[status {status}]{' where a failure is shown' if fails else ''}")
    return said if not said or said.endswith("\n") else f"{said}\n"


def _until_ready(command: str, shown: str, session: Session) -> str:
    wanted = [fixed(line) for line in shown.splitlines()][-1:]

    def until_wanted(output: str) -> list[str]:
        lines = output.splitlines(keepends=True)
        last = next((number for number, line in enumerate(lines, 1) if fixed(line) in wanted), 0)
        return lines[:last]

    said = session.start(command, lambda output: not wanted or bool(until_wanted(output)))
    return "".join(until_wanted(said))
