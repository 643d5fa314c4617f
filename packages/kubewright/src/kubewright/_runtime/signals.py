"""The signals that ask a program to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable


def on_stop_signal(stop: Callable[[], object]) -> None:
    """Have `stop` called by the running event loop at each Ctrl-C, SIGTERM, and SIGHUP: its terminal was closed.

    Not at the last where it is ignored, as `nohup` has it.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, stop)
