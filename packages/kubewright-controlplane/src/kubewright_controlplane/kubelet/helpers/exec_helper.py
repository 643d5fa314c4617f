"""A program, `python -I -S exec_helper.py FD`: reads a command from the file descriptor FD, and becomes it.

It reads to the end first. So no command runs before the control plane has registered the process group with the
reaper, and if the control plane dies before that, this program exits. The command gets the given environment and no
other variables, and on request its standard input as its controlling terminal.
"""

import fcntl
import json
import os
import signal
import sys
import termios

CANNOT_START = 128
"""The exit status if the command can't be started, as in container runtimes."""


def main() -> int:
    with os.fdopen(int(sys.argv[1]), "rb") as source:
        text = source.read()
    if not text:
        return CANNOT_START
    command = json.loads(text)
    if command["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # the interpreter ignores them, a new process must not
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(command["folder"])
        os.execvpe(command["arguments"][0], command["arguments"], command["environment"])
    except OSError as error:
        sys.stderr.write(f"cannot start {command['arguments'][0]}: {error.strerror}\n")
    return CANNOT_START


if __name__ == "__main__":
    sys.exit(main())
