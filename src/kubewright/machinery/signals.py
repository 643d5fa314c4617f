"""The signals that ask a program to stop."""

from __future__ import annotations

import signal


def stop_signals() -> list[signal.Signals]:
    """Ctrl-C, SIGTERM, and SIGHUP: its terminal was closed. Not the last where it is ignored, as `nohup` has it."""
    asked = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    return [each for each in asked if each is not signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN]
