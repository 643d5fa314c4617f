"""The control plane of the soak: `python soakserver.py KUBECONFIG`, with the lifetimes of Events and changes."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from kubewright._runtime.signals import on_stop_signal
from kubewright.manager._program import loop_factory
from kubewright_controlplane import Environment, ServerOptions
from kubewright_controlplane.serving import serving


async def serve(kubeconfig: Path, event_seconds: float, history_seconds: float) -> None:
    """Serve until a signal to stop."""
    stopping = asyncio.Event()
    on_stop_signal(stopping.set)
    options = ServerOptions(event_seconds=event_seconds, history_seconds=history_seconds)
    async with serving(Environment(server=options), kubeconfig):
        await stopping.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("--event-seconds", type=float, required=True)
    parser.add_argument("--history-seconds", type=float, required=True)
    asked = parser.parse_args()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(asked.kubeconfig, asked.event_seconds, asked.history_seconds))


if __name__ == "__main__":
    main()
