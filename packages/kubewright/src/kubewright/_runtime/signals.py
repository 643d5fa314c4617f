"""The signals that ask a program to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable


def on_stop_signal(stop: Callable[[], object]) -> None:
    """Make the running event loop call `stop` at each stop signal; see `on_each_stop_signal`."""
    on_each_stop_signal(lambda _: stop())


def on_each_stop_signal(handle: Callable[[signal.Signals], object]) -> None:
    """Make the running event loop call `handle` at each SIGINT (Ctrl-C), SIGTERM, and SIGHUP (the terminal was closed).

    SIGHUP stays ignored if it was ignored before, as `nohup` does.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, handle, number)
