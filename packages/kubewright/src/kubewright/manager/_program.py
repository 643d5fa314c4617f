"""A Manager as a program: its flags, its logs, its signals, its exit status.

The flags are those of kubebuilder's managers, so that its manifests work; their defaults are the Manager's options.
Exit status: 0 after a graceful stop, 1 after a failure, which is one line in the log, 2 for wrong flags.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubewright._runtime.log import get_logger
from kubewright.client._config import Config
from kubewright.machinery.errors import ConfigError, ConnectionFailed, KubewrightError, Unauthorized
from kubewright.manager import _logs as logs
from kubewright.manager._certificates import Certificate

if TYPE_CHECKING:
    from kubewright.manager._manager import Manager


def run_program(manager: Manager, arguments: Sequence[str] | None = None) -> None:
    """Run `manager` as its flags say, then end the process."""
    flags = _parser(manager).parse_args(arguments)
    logs.configure(flags.log_format, flags.log_level)
    log = get_logger("kubewright.manager")
    try:
        _configure(manager, flags)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_run(manager))
    except KubewrightError as error:
        log.error("Cannot go on", error=explained(error))
        sys.exit(1)


async def _run(manager: Manager) -> None:
    _stop_on_signals(manager)
    freezing = asyncio.create_task(_freeze_when_ready(manager))
    try:
        await manager.run()
    finally:
        freezing.cancel()


async def _freeze_when_ready(manager: Manager) -> None:
    """Take what was loaded by then out of the collector's rounds: it stays for ever."""
    try:
        await manager.wait_ready()
    except ConfigError:
        return  # it could not start; `run` raises why
    gc.collect()
    gc.freeze()


def _stop_on_signals(manager: Manager) -> None:
    """The first SIGTERM or SIGINT asks for a graceful stop, the second ends the process at once.

    A Lease is not given back then: who reconciles may still have a write on its way.
    """
    log = get_logger("kubewright.manager")
    asked = False

    def stop(number: signal.Signals) -> None:
        nonlocal asked
        if asked:
            log.warning("Ending at once, as a second signal asks for", signal=number.name)
            os._exit(1)
        asked = True
        seconds = manager.graceful_timeout.total_seconds()
        log.info("Stopping; a second signal ends it at once", signal=number.name, within_seconds=seconds)
        manager.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # Windows, PyPy
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _configure(manager: Manager, flags: argparse.Namespace) -> None:
    if flags.kubeconfig or flags.context:
        manager.config = Config.from_kubeconfig(flags.kubeconfig or None, context=flags.context or None)
    if flags.leader_elect is not None:
        manager.leader_election = flags.leader_elect and (manager.leader_election or True)
    manager.namespace = [each for each in flags.namespace.split(",") if each] or manager.namespace
    manager.health_address = flags.health_probe_bind_address
    manager.metrics_address = flags.metrics_bind_address
    if flags.metrics_secure is not None:
        manager.metrics_secure = flags.metrics_secure and (manager.metrics_secure or True)
    if flags.metrics_cert_path:
        folder = Path(flags.metrics_cert_path)
        manager.metrics_secure = manager.metrics_secure and Certificate(
            folder / flags.metrics_cert_name, folder / flags.metrics_cert_key
        )
    manager.wait_for_kinds = manager.wait_for_kinds or flags.wait_for_kinds
    manager.allow_mass_deletion = flags.allow_mass_deletion


def _parser(manager: Manager) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=manager.name, description=f"The operator {manager.name}.", allow_abbrev=False)
    switch: dict[str, Any] = {"nargs": "?", "const": True, "type": _boolean, "metavar": "true|false"}
    parser.add_argument("--leader-elect", default=None, help="work only while holding the Lease", **switch)
    parser.add_argument(
        "--health-probe-bind-address",
        default=":8081" if manager.health_address is None else manager.health_address,
        metavar="ADDRESS",
        help="of /healthz and /readyz",
    )
    parser.add_argument(
        "--metrics-bind-address",
        default=":8080" if manager.metrics_address is None else manager.metrics_address,
        metavar="ADDRESS",
        help='of /metrics; "0" for none',
    )
    parser.add_argument("--metrics-secure", default=None, help="serve metrics over HTTPS to authorized users", **switch)
    parser.add_argument(
        "--metrics-cert-path", default="", metavar="FOLDER", help="of the certificate for that; without, one is made"
    )
    parser.add_argument("--metrics-cert-name", default="tls.crt", metavar="FILE", help="the certificate in that folder")
    parser.add_argument("--metrics-cert-key", default="tls.key", metavar="FILE", help="its key in that folder")
    parser.add_argument(
        "--wait-for-kinds", default=False, help="wait for CustomResourceDefinitions that are not installed", **switch
    )
    parser.add_argument(
        "--allow-mass-deletion", default=False, help="the many deletes that a fuse has stopped are meant", **switch
    )
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="where the API server is and who we are")
    parser.add_argument("--context", default="", help="the context of the kubeconfig to use")
    parser.add_argument("--namespace", default="", metavar="NAME[,NAME]", help="work in these namespaces alone")
    parser.add_argument("--log-format", choices=("console", "json"), default=None)
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    return parser


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "1", "t"):
        return True
    if text.lower() in ("false", "0", "f"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def explained(error: KubewrightError) -> str:
    """What went wrong in one line, and where to look when it is the way to the API server."""
    if isinstance(error, Unauthorized):
        return f"the API server does not accept our credentials ({error}): look at the user of the kubeconfig's context"
    if isinstance(error, ConnectionFailed):
        return f"{error}; is the API server up, and does the kubeconfig have its address and certificate authority?"
    return str(error)
