"""The server that is fuzzed: `python server.py FOLDER [--controllers]`.

It writes the kubeconfigs `admin` and `tenant` into the folder. On SIGUSR1 it collects garbage and appends a line to the
file `samples`: the number of objects that the garbage collector knows, which memory checks compare.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import signal
import sys
from pathlib import Path

from kubewright._runtime.signals import on_stop_signal
from kubewright.manager import _logs as logs
from kubewright.manager._program import loop_factory
from kubewright_controlplane import Environment, ServerOptions

HISTORY_SECONDS = 3.0
TENANT_USER = "tenant-user"


def sample(path: Path) -> None:
    """Collect garbage, return free memory to the system, and write down what remains."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    with path.open("a") as file:
        file.write(f"{len(gc.get_objects())}\n")


async def serve(folder: Path, *, controllers: bool) -> None:
    """Serve until a signal to stop."""
    stopping = asyncio.Event()
    on_stop_signal(stopping.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, sample, folder / "samples")
    options = ServerOptions(event_seconds=HISTORY_SECONDS, history_seconds=HISTORY_SECONDS)
    environment = Environment(server=options, controllers=controllers)
    async with environment:
        admin, tenant = environment.served.kubeconfig(), environment.served.kubeconfig(TENANT_USER, ())
        (folder / "tenant").write_text(json.dumps(tenant))
        (folder / "admin").write_text(json.dumps(admin))
        print("ready", flush=True)
        await stopping.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--controllers", action="store_true")
    asked = parser.parse_args()
    logs.configure("console", "error")
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(asked.folder, controllers=asked.controllers))


if __name__ == "__main__":
    main()
