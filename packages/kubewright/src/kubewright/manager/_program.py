"""A Manager as a program: its flags, its logs, its signals, its exit status.

The flags are those of kubebuilder's managers, so that its manifests work. Their defaults are the Manager's options.
Exit status: 0 after a graceful stop; 1 after a failure, which is one line in the log; 2 for wrong flags.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from msgspec.structs import replace

from kubewright._runtime.log import get_logger
from kubewright._runtime.signals import on_each_stop_signal
from kubewright.cache._store import each_of
from kubewright.client._config import Config, mounted
from kubewright.machinery.errors import ConfigError, ConnectionFailed, KubewrightError, Unauthorized
from kubewright.machinery.time import seconds
from kubewright.manager import _logs as logs
from kubewright.manager._certificates import Certificate, Purpose, SelfSigned
from kubewright.manager._leader import LeaderElection
from kubewright.manager._options import ManagerOptions

if TYPE_CHECKING:
    from kubewright.manager._manager import Manager
    from kubewright.webhooks import CertificateProvider

T = TypeVar("T")


class _Flags(Protocol):
    """A parser, or a group of one."""

    def add_argument(self, *names: str, **options: Any) -> argparse.Action: ...


def run_program(
    manager: Manager,
    arguments: Sequence[str] | None = None,
    *,
    parser: argparse.ArgumentParser | None = None,
    name: str | None = None,
) -> None:
    """Run `manager` as its flags say, then end the process.

    `parser`: flags of the program's own. `name`: the program in the usage line; by default as `parser` calls it.
    """
    accepted = _parser(manager, parser or manager.parser)
    accepted.prog = name or accepted.prog
    flags = accepted.parse_args(arguments)
    logs.configure(flags.log_format, flags.log_level, packages=_packages(manager))
    log = get_logger("kubewright.manager")
    try:
        manager.configure(_configured(manager.options, flags))
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_run(manager))
    except KubewrightError as error:
        cause = error.__cause__
        unexpected = cause is not None and not isinstance(cause, (KubewrightError, OSError, ImportError))
        log.error("Manager failed", error=explained(error), exc_info=cause if unexpected else None)
        sys.exit(1)


async def _run(manager: Manager) -> None:
    _stop_on_signals(manager)
    freezing = asyncio.create_task(_freeze_when_ready(manager))
    try:
        await manager.run()
    finally:
        freezing.cancel()


async def _freeze_when_ready(manager: Manager) -> None:
    """Exclude the objects that exist by then from garbage collection: they stay until the end."""
    try:
        await manager.wait_ready()
    except ConfigError:
        return  # the start failed; `run` raises the reason
    gc.collect()
    gc.freeze()


def _stop_on_signals(manager: Manager) -> None:
    """Stop gracefully at the first stop signal, and exit immediately at the second.

    The second one does not release the Lease, because a reconcile may still have a write on its way.
    """
    log = get_logger("kubewright.manager")
    asked = False

    def stop(number: signal.Signals) -> None:
        nonlocal asked
        if asked:
            log.warning("Second signal received, exiting immediately", signal=number.name)
            os._exit(1)
        asked = True
        seconds = manager.options.graceful_timeout
        log.info("Stop signal received, a second one exits immediately", signal=number.name, within_seconds=seconds)
        manager.stop()

    on_each_stop_signal(stop)


def _packages(manager: Manager) -> set[str]:
    """Return the top-level packages of the operator's own code."""
    functions: list[object] = [each.reconcile for each in manager.controllers]
    functions += [manager.lifespan, *(getattr(each, "function", None) for each in manager.webhooks)]
    modules = {str(getattr(each, "__module__", "")) for each in functions}
    return {each.partition(".")[0] for each in modules}


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory for event loops; None where there is no uvloop."""
    try:
        import uvloop
    except ImportError:  # Windows, PyPy
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _configured(options: ManagerOptions, flags: argparse.Namespace) -> ManagerOptions:
    """Return the options as the flags change them."""
    config, transport = options.config, options.transport
    if flags.kubeconfig or flags.context:
        config, transport = Config.from_kubeconfig(flags.kubeconfig or None, context=flags.context or None), None
    return replace(
        options,
        config=config,
        transport=transport,
        leader_election=_chosen(flags.leader_elect, options.leader_election, LeaderElection()),
        namespaces=[each for each in flags.namespace.split(",") if each] or options.namespaces,
        health_address=flags.health_probe_bind_address,
        metrics_address=flags.metrics_bind_address,
        metrics_secure=_metrics_secure(options, flags),
        webhook_port=flags.webhook_port,
        webhook_certificate=_webhook_certificate(options, flags),
        webhook_client_ca=_webhook_client_ca(options, flags),
        webhook_registration=None if flags.webhook_cert_path else options.webhook_registration,
        wait_for_kinds=options.wait_for_kinds or flags.wait_for_kinds,
        allow_mass_deletion=options.allow_mass_deletion or flags.allow_mass_deletion,
        flags=flags,
        is_program=True,
    )


def _metrics_secure(options: ManagerOptions, flags: argparse.Namespace) -> Certificate | SelfSigned | None:
    default: Certificate | SelfSigned = SelfSigned()
    chosen = _chosen(flags.metrics_secure, options.metrics_secure, default)
    return chosen if chosen is None else _files(flags, "metrics") or chosen


def _files(flags: argparse.Namespace, purpose: Purpose) -> Certificate | None:
    """Return the certificate that the flags name."""
    path, name, key = (getattr(flags, f"{purpose}_cert_{part}") for part in ("path", "name", "key"))
    return Certificate(mounted(path) / name, mounted(path) / key) if path else None


def _webhook_client_ca(options: ManagerOptions, flags: argparse.Namespace) -> Path | None:
    name: str = flags.webhook_client_ca_name
    if not name:
        return options.webhook_client_ca
    if not flags.webhook_cert_path and not Path(name).is_absolute():
        raise ConfigError(
            f"--webhook-client-ca-name={name} is the name of a file in the folder of --webhook-cert-path; add that "
            f"flag, or write the whole path"
        )
    return mounted(flags.webhook_cert_path) / name


def _webhook_certificate(
    options: ManagerOptions, flags: argparse.Namespace
) -> Certificate | CertificateProvider | None:
    chosen = _files(flags, "webhook") or options.webhook_certificate
    if not flags.webhook_name_prefix:
        return chosen
    from kubewright.webhooks import ManagedCertificate  # only operators with webhooks load it

    if not isinstance(chosen, ManagedCertificate):
        raise ConfigError(
            f"--webhook-name-prefix={flags.webhook_name_prefix} is for a manager that makes the certificate of its "
            f"webhooks; give the Manager webhook_certificate=ManagedCertificate(), or omit the flag"
        )
    return replace(chosen, prefix=flags.webhook_name_prefix)


def _chosen(flag: bool | None, option: T | None, default: T) -> T | None:
    """Return what a switch chooses: `option` when it was not given, nothing when it is off."""
    if flag is None:
        return option
    return (option or default) if flag else None


def _parser(manager: Manager, own: argparse.ArgumentParser | None) -> argparse.ArgumentParser:
    """Return the parser of the standard flags, and of those of `own`. Raises ConfigError if it defines one of them."""
    if own is None:
        about = f"The operator {manager.name}."
        whole = argparse.ArgumentParser(
            prog=manager.name, description=about, allow_abbrev=False, formatter_class=_formatter
        )
        _add_standard_flags(whole, manager.options)
    else:
        whole = copy.deepcopy(own)
        try:
            _add_standard_flags(whole.add_argument_group("flags of every operator"), manager.options)
        except argparse.ArgumentError as error:
            raise ConfigError(f"Manager(parser=...): {error}: every operator has this flag; rename yours") from error
    whole.set_defaults(**vars(manager.options.flags))
    return whole


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Return a formatter of help as wide as the terminal. For the width, argparse would import shutil at each start."""
    columns = os.environ.get("COLUMNS", "")
    try:
        width = int(columns) if columns.isdecimal() else os.get_terminal_size().columns
    except OSError:
        width = 0
    return argparse.HelpFormatter(prog, width=(width or 80) - 2)


class _Incomplete(argparse.ArgumentParser):
    """Parser that raises an error of no argument if required flags are missing, after it has set the defaults."""

    def error(self, message: str) -> NoReturn:
        _refuse(message)


def add_defaults(parser: argparse.ArgumentParser, flags: argparse.Namespace) -> None:
    """Set the flags of `parser` that `flags` lacks to their defaults. A required flag without a default is None.

    Raises ConfigError for a default that the type of its flag does not accept.
    """
    try:
        _Incomplete(parents=[parser], add_help=False, exit_on_error=False).parse_args([], flags)
    except argparse.ArgumentError as error:
        if error.argument_name is not None:
            raise ConfigError(f"Manager(parser=...): {error}") from error


def check_flags(manager: Manager, arguments: Sequence[str]) -> None:
    """Raise ConfigError if the program of `manager` does not accept `arguments`, with the nearest flag that exists.

    Values are checked unless one of them refers to a variable of its container, as `$(NAME)` does. A program that gives
    its parser to `Manager.main` instead of `Manager` has flags that are not known here.
    """
    parser = _parser(manager, manager.parser)
    known = [name for action in parser._actions for name in action.option_strings]
    for each in arguments:
        name = each.partition("=")[0]
        if each.startswith("--") and name != "--" and not any(flag.startswith(name) for flag in known):
            from difflib import get_close_matches

            near = get_close_matches(name, known, 1)
            raise ConfigError(f"{manager.name} has no flag {name}{f'; did you mean {near[0]}?' if near else ''}")
    if any("$(" in each for each in arguments):
        return
    setattr(parser, "error", _refuse)  # noqa: B010 - of this copy of the parser, whose class is the program's
    try:
        parser.parse_args(arguments)
    except argparse.ArgumentError as error:
        raise ConfigError(f"{manager.name}: {error}") from error


def _refuse(message: str) -> NoReturn:
    raise argparse.ArgumentError(None, message)


def _add_standard_flags(parser: _Flags, options: ManagerOptions) -> None:
    switch: dict[str, Any] = {"nargs": "?", "const": True, "type": _boolean, "metavar": "true|false"}
    election = options.leader_election or LeaderElection()
    lease, deadline, retry = map(seconds, (election.lease_duration, election.renew_deadline, election.retry_period))
    parser.add_argument(
        "--leader-elect",
        default=None,
        help=f"work only while holding the Lease, which lasts {lease:g} s and is renewed every {retry:g} s, within "
        f"{deadline:g} s at the latest (default: {_switched(options.leader_election)})",
        **switch,
    )
    parser.add_argument(
        "--health-probe-bind-address",
        default=":8081" if options.health_address is None else options.health_address,
        metavar="ADDRESS",
        help="where /healthz and /readyz are served (default: %(default)s)",
    )
    parser.add_argument(
        "--metrics-bind-address",
        default=":8080" if options.metrics_address is None else options.metrics_address,
        metavar="ADDRESS",
        help='where /metrics is served; "0" turns it off (default: %(default)s)',
    )
    parser.add_argument(
        "--metrics-secure",
        default=None,
        help=f"serve metrics over HTTPS to authorized users (default: {_switched(options.metrics_secure)})",
        **switch,
    )
    parser.add_argument(
        "--metrics-cert-path",
        default="",
        metavar="FOLDER",
        help="folder of the certificate for that (default: a self-signed one)",
    )
    parser.add_argument(
        "--metrics-cert-name",
        default="tls.crt",
        metavar="FILE",
        help="file name of the certificate (default: %(default)s)",
    )
    parser.add_argument(
        "--metrics-cert-key", default="tls.key", metavar="FILE", help="file name of the key (default: %(default)s)"
    )
    parser.add_argument(
        "--webhook-port",
        type=int,
        default=9443 if options.webhook_port is None else options.webhook_port,
        metavar="PORT",
        help="where webhooks are served; 0 picks a free port, -1 turns them off (default: %(default)s)",
    )
    parser.add_argument(
        "--webhook-cert-path", default="", metavar="FOLDER", help="folder of the certificate of the webhooks"
    )
    parser.add_argument(
        "--webhook-cert-name",
        default="tls.crt",
        metavar="FILE",
        help="file name of the certificate (default: %(default)s)",
    )
    parser.add_argument(
        "--webhook-cert-key", default="tls.key", metavar="FILE", help="file name of the key (default: %(default)s)"
    )
    parser.add_argument(
        "--webhook-client-ca-name",
        default="",
        metavar="FILE",
        help="file name of the CAs of clients, in the folder of the certificate, or the whole path; only clients with "
        "a certificate of one of them may call the webhooks (default: any client)",
    )
    parser.add_argument(
        "--webhook-name-prefix",
        default="",
        metavar="PREFIX",
        help="start of the names of the webhooks' Service, Secret and configurations, for a certificate that the "
        "manager makes (default: that of the program)",
    )
    parser.add_argument(
        "--wait-for-kinds",
        default=False,
        help="wait for CustomResourceDefinitions that are not installed "
        f"(default: {_switched(options.wait_for_kinds)})",
        **switch,
    )
    parser.add_argument(
        "--allow-mass-deletion",
        default=False,
        help=f"confirm the deletes that a fuse has stopped (default: {_switched(options.allow_mass_deletion)})",
        **switch,
    )
    parser.add_argument(
        "--kubeconfig", default="", metavar="FILE", help="kubeconfig file to use (default: as kubectl finds it)"
    )
    parser.add_argument("--context", default="", help="context of the kubeconfig to use (default: its current context)")
    namespaces = each_of(options.namespaces)
    parser.add_argument(
        "--namespace",
        default="",
        metavar="NAME[,NAME]",
        help=f"work in these namespaces only (default: {','.join(filter(None, namespaces)) or 'all'})",
    )
    parser.add_argument(
        "--log-format",
        choices=("console", "json"),
        default=None,
        help="form of the log (default: console on a terminal, else json)",
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="lowest level that is logged (default: %(default)s)",
    )


def _switched(option: object) -> str:
    return "true" if option else "false"


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "1", "t"):
        return True
    if text.lower() in ("false", "0", "f"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def explained(error: KubewrightError) -> str:
    """Return one line about an error, with advice if it is about the connection to the API server."""
    if isinstance(error, Unauthorized):
        return f"the API server rejects our credentials ({error}): check the user of the kubeconfig's context"
    if isinstance(error, ConnectionFailed):
        return (
            f"{error}; is the API server running, and does the kubeconfig have its address and certificate authority?"
        )
    return str(error)
