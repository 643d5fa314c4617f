"""The program: `python -m sample_controller.main`. It handles flags, logs and signals, as a Manager does."""

import argparse
import asyncio
import signal
import sys
from contextlib import suppress

from kubewright import Client, Config, KubewrightError
from kubewright.manager import configure_logs

from sample_controller.controller.foo import NAME, SYNC_TIMEOUT, FooController, log


async def run(config: Config, workers: int, sync_timeout: float) -> None:
    """Work until a stop signal arrives, then stop gracefully."""
    async with Client(config, user_agent=NAME, field_manager=NAME) as client:
        working = asyncio.create_task(FooController(client, workers=workers, sync_timeout=sync_timeout).run())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, working.cancel, f"signal {number.name}")
        with suppress(asyncio.CancelledError):
            await working


def main() -> None:
    parser = argparse.ArgumentParser(prog=NAME, description="Maintains a Deployment for each Foo.", allow_abbrev=False)
    parser.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig file to use")
    parser.add_argument("--workers", type=int, default=2, metavar="NUMBER", help="number of Foos to sync concurrently")
    parser.add_argument(
        "--sync-timeout",
        type=float,
        default=SYNC_TIMEOUT,
        metavar="SECONDS",
        help="time until the caches must be synced",
    )
    parser.add_argument("--log-format", choices=("console", "json"))
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    flags = parser.parse_args()
    configure_logs(flags.log_format, flags.log_level)
    try:
        config = Config.from_kubeconfig(flags.kubeconfig) if flags.kubeconfig else Config.load()
        asyncio.run(run(config, flags.workers, flags.sync_timeout))
    except KubewrightError as error:
        log.error("Controller failed", error=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
