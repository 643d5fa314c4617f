"""A program, `python -I -S launch.py FD`: becomes the command that the file descriptor FD tells of.

It waits for the whole of it, so that nothing runs that the control plane has not told the watcher of before; when the
control plane dies first, there is nothing to become. What it becomes gets the environment that is told and no other,
and its standard input for a terminal of its own if it is told to.
"""

import fcntl
import json
import os
import signal
import sys
import termios

CANNOT_START = 128
"""The exit status when there is no such program, as container runtimes have it."""


def main() -> int:
    with os.fdopen(int(sys.argv[1]), "rb") as source:
        told = source.read()
    if not told:
        return CANNOT_START
    order = json.loads(told)
    if order["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # this interpreter ignores them; a fresh process does not
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(order["folder"])
        os.execvpe(order["arguments"][0], order["arguments"], order["environment"])
    except OSError as error:
        sys.stderr.write(f"cannot start {order['arguments'][0]}: {error.strerror}\n")
    return CANNOT_START


if __name__ == "__main__":
    sys.exit(main())
