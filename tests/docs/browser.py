"""A headless Chromium, controlled with its DevTools protocol over a pipe."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

CHROMIUM: Final = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
TIMEOUT: Final = 60.0

_FLAGS: Final = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe"),
]
_START: Final = 'exec "$0" "$@" 3<&"$FROM" 4>&"$TO"'
"""The browser reads commands from descriptor 3 and answers on 4."""


class Browser:
    """One page of a browser."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = os.fdopen(answers, "rb", buffering=0)
        self._pending = b""
        self._calls = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        """The events of the page since it was opened."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._calls:
            self.events.append(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def open(self, url: str, *, width: int, height: int) -> None:
        """Show a page in a window of this size, and wait until it has loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=True)
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.until(lambda: any(each.get("method") == "Page.loadEventFired" for each in self.events))

    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def until(self, reached: Callable[[], object]) -> None:
        """Wait for a state of the page."""
        deadline = time.monotonic() + TIMEOUT
        while not reached():
            assert time.monotonic() < deadline, "the page does not get there"
            time.sleep(0.02)
            self.evaluate("0")  # earlier events arrive before the answer

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            data = self._answers.read(1 << 20)
            assert data, "the browser has ended"
            self._pending += data
        message, _, self._pending = self._pending.partition(b"\0")
        return json.loads(message)


@contextmanager
def browser(profile: Path) -> Generator[Browser]:
    """Run a browser for the duration of the block, with its profile in a folder."""
    read_commands, commands = os.pipe()
    answers, write_answers = os.pipe()
    process = subprocess.Popen(
        ["bash", "-c", _START, CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
        env={**os.environ, "FROM": str(read_commands), "TO": str(write_answers)},
        pass_fds=(read_commands, write_answers),
        stderr=subprocess.DEVNULL,
    )
    os.close(read_commands)
    os.close(write_answers)
    try:
        yield Browser(commands, answers)
    finally:
        os.close(commands)  # this ends the browser
        process.wait(300)
