"""`kubewright package`: check, install and operate KUDO's packages."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import click

from kubewright.client import Config
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.manager import configure_logs
from kubewright.models import codec, custom_resource_definitions
from kubewright.packages import (
    PARAMETER_CHECKS,
    Change,
    Finding,
    Instance,
    Operator,
    OperatorVersion,
    Package,
    Target,
    install,
    package_manager,
    parameter_values,
    trigger,
    uninstall,
    update,
    upgrade,
    verify,
)
from kubewright.plans import cancel, pause, resume, retry
from kubewright_cli import console
from kubewright_cli.deployed import client_of
from kubewright_cli.deployment import crds
from kubewright_cli.deployment.packages import (
    history_of,
    plan_lines,
    refused_request,
    wait_for_deletion,
    wait_for_plan,
)
from kubewright_cli.options import config_of, kubeconfig_options

F = TypeVar("F", bound=Callable[..., object])


@click.group("package")
def command() -> None:
    """Check, install and operate KUDO's packages: operators that are data."""


# ---- options


def _target_options(function: F) -> F:
    namespace = click.option("--namespace", "-n", metavar="NAME", default="", help="Namespace of the instance.")
    return kubeconfig_options(namespace(function))


def _instance_option(function: F) -> F:
    return click.option("--instance", metavar="NAME", required=True, help="Name of the instance.")(function)


def _parameter_options(function: F) -> F:
    values = click.option(
        "--parameter", "-p", "values", metavar="NAME=VALUE", multiple=True, help="Value of a parameter."
    )
    files = click.option(
        "--parameter-file",
        "-P",
        "files",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        multiple=True,
        help="YAML file with values of parameters. -p overrides them.",
    )
    return files(values(function))


def _verify_option(function: F) -> F:
    return click.option(
        "--verify/--no-verify",
        "verified",
        default=True,
        show_default=True,
        help="Refuse a package in which `kubewright package verify` finds an error.",
    )(function)


def _loaded(path: Path, *, verified: bool) -> Package:
    """Read a package. Raises ConfigError if it has errors."""
    package = Package.load(path)
    errors = [each for each in verify(package) if each.level == "error"] if verified else []
    if errors:
        listed = "\n  ".join(map(str, errors))
        raise ConfigError(f"{path} is not valid; nothing was installed. Correct it, or pass --no-verify:\n  {listed}")
    return package


def _wait_options(function: F) -> F:
    wait = click.option("--wait", is_flag=True, help="Wait until the plan is complete.")
    timeout = click.option("--timeout", type=click.IntRange(1), default=300, show_default=True, help="Seconds to wait.")
    return wait(timeout(function))


def _parameters(values: Sequence[str], files: Sequence[Path]) -> dict[str, str]:
    """Return the values of -P and -p. Raises ConfigError."""
    found: dict[str, str] = {}
    for path in files:
        try:
            found |= parameter_values(path.read_text())
        except DecodeError as error:
            raise ConfigError(f"{path}: {error}") from error
    for each in values:
        name, equals, value = each.partition("=")
        if not name or not equals or not value:
            raise click.BadParameter(f"write NAME=VALUE, got {each!r}", param_hint="-p")
        found[name] = value
    return found


# ---- without a cluster


@command.command("verify", short_help="Check a package by KUDO's rules.")
@click.argument("package", type=click.Path(path_type=Path))
@click.option(
    "--param-checks",
    "checks",
    type=click.Choice(list(PARAMETER_CHECKS)),
    multiple=True,
    help="Optional checks of the texts of parameters. Can be repeated.",
)
@console.output_option
def verify_command(package: Path, checks: tuple[str, ...], output: str) -> None:
    """Check PACKAGE, a folder or a .tgz file, by the rules of KUDO, without a cluster.

    Checks plans, tasks, parameters and templates, and renders all templates with the defaults. Prints each finding with
    its file, line and field. Exit status 1 if there is an error; warnings do not fail.

    \b
    Optional checks of the texts of parameters:
      desc, display, hint   the description, display name and hint are there and well-formed
      type, hasgroup        the type and the group are there
      groups                the display names and descriptions of groups
      all                   all of them

    \b
    Examples:
      kubewright package verify zookeeper/operator
      kubewright package verify zookeeper-1.0.0.tgz --param-checks all --output json
    """
    report(package, verify(Package.load(package), checks), output)


def report(package: Path, findings: list[Finding], output: str) -> None:
    """Print the findings, and exit with status 1 if there is an error."""
    errors = sum(each.level == "error" for each in findings)
    if output == "json":
        listed = [asdict(each) for each in findings]
        console.document({"package": str(package), "valid": not errors, "findings": listed})
    else:
        for each in findings:
            console.say(f"{console.bad('Error') if each.level == 'error' else 'Warning'}: {each}")
        if not findings:
            console.say(console.good(f"{package} is valid."))
    sys.exit(1 if errors else 0)


# ---- the operator


@command.command("run", short_help="Run the operator of packages on this machine.")
@kubeconfig_options
def run_command(kubeconfig: Path | None, context: str | None) -> None:
    """Run the operator that executes the plans of Instances, until it is interrupted.

    Installs the CRDs of KUDO first. Uses the cluster of --kubeconfig or $KUBECONFIG, such as an embedded control plane
    that `kubewright up` started. To deploy the operator to a cluster, see the page on packages.

    \b
    Examples:
      kubewright package run
    """
    asyncio.run(_operate(config_of(kubeconfig, context)))


async def _operate(config: Config) -> None:
    await _install_kinds(config)
    stopped = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stopped.set)
    configure_logs()
    async with package_manager(config):
        console.note("The operator of packages runs. Press Ctrl-C to stop it.")
        await stopped.wait()


async def _install_kinds(config: Config) -> None:
    async with client_of(config) as client:
        async for change in crds.install(client, custom_resource_definitions([Operator, OperatorVersion, Instance])):
            if change.outcome != "unchanged":
                console.say(str(change))


# ---- instances


@command.command("install", short_help="Install a package, and make an instance.")
@click.argument("package", type=click.Path(path_type=Path))
@click.option("--instance", metavar="NAME", default="", help="Name of the instance.  [default: OPERATOR-instance]")
@_parameter_options
@_verify_option
@click.option("--skip-instance", is_flag=True, help="Make no instance.")
@click.option(
    "--create-namespace", is_flag=True, help="Create the namespace, from the package's manifest if it has one."
)
@_wait_options
@_target_options
def install_command(
    package: Path,
    instance: str,
    values: tuple[str, ...],
    files: tuple[Path, ...],
    verified: bool,
    skip_instance: bool,
    create_namespace: bool,
    wait: bool,
    timeout: int,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Install PACKAGE, a folder or a .tgz file, with the packages that it depends on, and make an instance.

    The operator of packages must run in the cluster: `kubewright package run`. Installs the CRDs of KUDO if needed.

    \b
    Examples:
      kubewright package install zookeeper/operator --wait
      kubewright package install kafka-1.3.0.tgz --instance events -p BROKER_COUNT=5 -P production.yaml
    """
    parameters = _parameters(values, files)
    loaded = _loaded(package, verified=verified)
    config = config_of(kubeconfig, context)
    name = instance or f"{loaded.operator.name}-instance"

    async def run() -> None:
        await _install_kinds(config)
        async with client_of(config) as client:
            target = Target(client, namespace or config.namespace or "default")
            await _say(
                install(
                    target,
                    package,
                    instance=name,
                    parameters=parameters,
                    skip_instance=skip_instance,
                    create_namespace=create_namespace,
                )
            )
            if wait and not skip_instance:
                await wait_for_plan(target, name, "", timeout)

    asyncio.run(run())


@command.command("upgrade", short_help="Change an instance to a newer version of its package.")
@click.argument("package", type=click.Path(path_type=Path))
@_instance_option
@_parameter_options
@_verify_option
@_wait_options
@_target_options
def upgrade_command(
    package: Path,
    instance: str,
    values: tuple[str, ...],
    files: tuple[Path, ...],
    verified: bool,
    wait: bool,
    timeout: int,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Install PACKAGE, a newer version of the package of an instance, and change the instance to it.

    Parameters keep their values, unless -p or -P changes them.

    \b
    Examples:
      kubewright package upgrade kafka-1.4.0.tgz --instance events --wait
    """
    parameters = _parameters(values, files)
    _loaded(package, verified=verified)

    async def change(target: Target) -> None:
        await _say(upgrade(target, package, instance=instance, parameters=parameters))

    _run(change, instance, wait, timeout, namespace, kubeconfig, context)


@command.command("update", short_help="Change parameters of an instance.")
@_instance_option
@_parameter_options
@_wait_options
@_target_options
def update_command(
    instance: str,
    values: tuple[str, ...],
    files: tuple[Path, ...],
    wait: bool,
    timeout: int,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Change parameters of an instance, which triggers the plan of these parameters.

    \b
    Examples:
      kubewright package update --instance events -p BROKER_COUNT=7 --wait
    """
    parameters = _parameters(values, files)
    if not parameters:
        raise click.UsageError("name the parameters to change: -p NAME=VALUE, or -P FILE")

    async def change(target: Target) -> None:
        console.say(str(await update(target, instance, parameters)))

    _run(change, instance, wait, timeout, namespace, kubeconfig, context)


@command.command("trigger", short_help="Start a plan of an instance.")
@click.argument("plan")
@_instance_option
@_wait_options
@_target_options
def trigger_command(
    plan: str, instance: str, wait: bool, timeout: int, namespace: str, kubeconfig: Path | None, context: str | None
) -> None:
    """Start PLAN of an instance, for example a backup.

    \b
    Examples:
      kubewright package trigger backup --instance events --wait
    """

    async def change(target: Target) -> None:
        await trigger(target, instance, plan)
        console.say(f"Plan {plan} of Instance {instance} triggered")

    _run(change, instance, wait, timeout, namespace, kubeconfig, context)


@command.command("uninstall", short_help="Delete an instance.")
@_instance_option
@_wait_options
@_target_options
def uninstall_command(
    instance: str, wait: bool, timeout: int, namespace: str, kubeconfig: Path | None, context: str | None
) -> None:
    """Delete an instance and everything that its plans made, after its plan `cleanup` if the package has one.

    The package stays installed for other instances.

    \b
    Examples:
      kubewright package uninstall --instance events --wait
    """

    async def run(target: Target) -> None:
        await uninstall(target, instance)
        if wait:
            await wait_for_deletion(target, instance, timeout)
        console.say(f"Instance {instance} {'deleted' if wait else 'is being deleted'}")

    _with_target(run, namespace, kubeconfig, context)


@command.command("status", short_help="Show the plans of an instance, with phases and steps.")
@_instance_option
@console.output_option
@_target_options
def status_command(instance: str, output: str, namespace: str, kubeconfig: Path | None, context: str | None) -> None:
    """Show the plan that runs or ran last, with phases, steps and messages, and whether the instance is ready.

    Exit status 1 if it is not ready.

    \b
    Examples:
      kubewright package status --instance events
      kubewright package status --instance events --output json
    """

    async def show(target: Target) -> bool:
        live = await target.instance(instance)
        if output == "json":
            console.document(codec.to_dict(live).get("status", {}))
        else:
            for line in plan_lines(live, await target.version(live)):
                console.say(line)
        return any(each.type == "Ready" and each.status == "True" for each in live.status.conditions)

    sys.exit(0 if _with_target(show, namespace, kubeconfig, context) else 1)


@command.command("history", short_help="Show when each plan ran last.")
@_instance_option
@_target_options
def history_command(instance: str, namespace: str, kubeconfig: Path | None, context: str | None) -> None:
    """Show for each plan of an instance when it ran last, and how it ended.

    \b
    Examples:
      kubewright package history --instance events
    """

    async def show(target: Target) -> None:
        console.table(["PLAN", "STATUS", "LAST UPDATED", "MESSAGE"], history_of(await target.instance(instance)))

    _with_target(show, namespace, kubeconfig, context)


def _request(name: str, text: str, what: str) -> None:
    """Add a command that asks the operator for something about the plan that runs or ran last."""

    @command.command(
        name, short_help=text, help=f"{text}\n\n\b\nExamples:\n  kubewright package {name} --instance events"
    )
    @_instance_option
    @_target_options
    def request(instance: str, namespace: str, kubeconfig: Path | None, context: str | None) -> None:
        async def ask(target: Target) -> None:
            live = await target.instance(instance)
            execution = live.status.execution
            if execution is None:
                raise ConfigError(f'Instance "{instance}" has not run a plan; is the operator of packages running?')
            if refusal := refused_request(name, live, execution):
                raise ConfigError(f'{execution.name} of Instance "{instance}" {refusal}')
            if name == "pause":
                await pause(target.client, live)
            elif name == "resume":
                await resume(target.client, live)
            else:
                await (cancel if name == "cancel" else retry)(target.client, live, execution.name)
            console.say(f"{execution.name} of Instance {instance} {what}")

        _with_target(ask, namespace, kubeconfig, context)


_request("pause", "Pause the plan that runs: no further task is executed.", "is paused")
_request("resume", "Continue a paused plan.", "is resumed")
_request("cancel", "End the plan that runs. Nothing is rolled back.", "is being canceled")
_request("retry", "Continue a plan that failed or was canceled, from the failed step.", "is retried")


# ---- running


async def _say(changes: AsyncIterator[Change]) -> None:
    async for each in changes:
        console.say(str(each))


R = TypeVar("R")


def _with_target(
    function: Callable[[Target], Awaitable[R]], namespace: str, kubeconfig: Path | None, context: str | None
) -> R:
    """Call a function with the target that the options name."""
    config = config_of(kubeconfig, context)

    async def run() -> R:
        async with client_of(config) as client:
            return await function(Target(client, namespace or config.namespace or "default"))

    return asyncio.run(run())


def _run(
    change: Callable[[Target], Awaitable[None]],
    instance: str,
    wait: bool,
    timeout: int,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Change an instance, and wait for its plan if asked to."""

    async def run(target: Target) -> None:
        before = (await target.instance(instance)).status.execution_uid
        await change(target)
        if wait:
            await wait_for_plan(target, instance, before, timeout)

    _with_target(run, namespace, kubeconfig, context)
