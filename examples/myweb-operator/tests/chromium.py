"""Chromium without a window."""

import asyncio
import shutil
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: `apt-get install chromium`")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Chromium:
    """A browser without a cache from earlier visits."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._visits = 0

    async def page(self, url: str) -> str:
        """Return the rendered document at `url`, as HTML."""
        return await self._open(url, "--dump-dom")

    async def picture(self, url: str, path: Path) -> None:
        """Write a screenshot of `url`, as a PNG."""
        await self._open(url, f"--screenshot={path}", "--window-size=800,600")

    async def _open(self, url: str, *what: str) -> str:
        assert CHROMIUM is not None
        self._visits += 1
        profile = self._folder / f"profile-{self._visits}"
        process = await asyncio.create_subprocess_exec(
            CHROMIUM,
            *FLAGS,
            f"--user-data-dir={profile}",
            *what,
            url,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, complaints = await process.communicate()
        assert process.returncode == 0, complaints.decode()
        return said.decode()
