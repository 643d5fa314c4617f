"""`kubewright run`: run the project's operator as a process on this machine."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import click
from msgspec.structs import replace

from kubewright.client import Config
from kubewright.machinery.errors import ConfigError, KubewrightError
from kubewright.manager import Manager
from kubewright.manager._program import loop_factory, run_program
from kubewright.manager._serving import BIND_HOST
from kubewright_cli import console
from kubewright_cli.commands.install import install
from kubewright_cli.deployed import client_of
from kubewright_cli.deployment.pods import deployed_rival
from kubewright_cli.options import config_of, kubeconfig_options
from kubewright_cli.project import Project, find_root
from kubewright_cli.sources import Sources
from kubewright_cli.supervisor import Supervisor, stop_with_supervisor

_NAME = "kubewright run"


def _show_help(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if not asked or context.resilient_parsing:
        return
    click.echo(f"{context.get_help()}\n\nFLAGS, as the operator accepts them:\n")
    try:
        manager = Project.load().manager
    except ConfigError:  # without a project: the flags of every operator
        manager = Manager(name="<operator>")
    run_program(manager, ["--help"], name=_NAME)


@click.command("run", context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.option("--embedded", is_flag=True, help="Start an embedded control plane, and install the CRDs there.")
@click.option(
    "--stand-ins",
    is_flag=True,
    help="With --embedded: run Pods of nginx, busybox and agnhost as processes on this machine, like `kubewright up`.",
)
@click.option("--reload", is_flag=True, help="Restart the operator when its code changes.")
@click.option("--install", "installs", is_flag=True, help="Install the CRDs first.")
@click.option(
    "--webhook-url",
    metavar="URL",
    default="",
    help="Where the API server reaches the webhooks of this process, https://HOST:PORT. By default, an API server on "
    "this machine calls 127.0.0.1.",
)
@kubeconfig_options
@click.option(
    "--help",
    "-h",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_help,
    help="Show this message and exit.",
)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def command(
    embedded: bool,
    stand_ins: bool,
    reload: bool,
    installs: bool,
    webhook_url: str,
    kubeconfig: Path | None,
    context: str | None,
    flags: tuple[str, ...],
) -> None:
    """Run the operator of this project, on the cluster of $KUBECONFIG by default.

    FLAGS go to the operator's Manager; --help lists them. Ports are open to this machine only, unless a flag names a
    host: 0.0.0.0:8080.

    Webhooks are registered while the operator runs, with failurePolicy Ignore and a certificate of their own. Those of
    a deployed operator stay in use. --webhook-port=-1 runs without webhooks. Admission policies are registered while
    the operator runs, too.

    \b
    Examples:
      kubewright run
      kubewright run --embedded --reload
      kubewright run --install --context=staging --leader-elect --log-level=debug
    """
    if embedded and (kubeconfig or context):
        raise click.UsageError("--embedded starts its own cluster; omit --kubeconfig and --context")
    if stand_ins and not embedded:
        raise click.UsageError("--stand-ins needs --embedded: it is about the Pods of the embedded control plane")
    # On one interface: operators in Pods that run as processes on this machine need the ports of the others.
    os.environ.setdefault(BIND_HOST, "127.0.0.1")
    access = _access_flags(kubeconfig, context)
    if embedded or reload:
        install_flag = ["--install"] if embedded or installs else []
        url_flag = [f"--webhook-url={webhook_url}"] if webhook_url else []
        arguments = [*install_flag, *url_flag, *access, *flags]
        sys.exit(_supervise(arguments, embedded=embedded, stand_ins=stand_ins, reload=reload))
    stop_with_supervisor()
    project = Project.load()
    if installs:
        asyncio.run(_install(project, config_of(kubeconfig, context)))
    if project.manager.webhooks:
        _register_webhooks(project.manager, webhook_url)
    if project.manager.policies:
        _register_policies(project.manager)
    asyncio.run(_warn_about_deployed(project, kubeconfig, context))
    run_program(project.manager, [*access, *flags], name=_NAME)


async def _install(project: Project, config: Config) -> None:
    async with client_of(config) as client:
        await install(project, client)


async def _warn_about_deployed(project: Project, kubeconfig: Path | None, context: str | None) -> None:
    """Warn if a deployed manager of this project reconciles the same objects. Any obstacle is left to the operator,
    which reports it.
    """
    try:
        async with client_of(config_of(kubeconfig, context)) as client:
            rival = await deployed_rival(client, project.manifests())
    except KubewrightError:
        return
    if rival:
        console.warn(rival)


def _register_webhooks(manager: Manager, url: str) -> None:
    """Have the API server call this process, as the program says or by `url`, at a free port unless one is given."""
    from kubewright.webhooks import LocalWebhooks  # only operators with webhooks load it

    options = manager.options
    registration = LocalWebhooks(url=url) if url else options.webhook_registration or LocalWebhooks()
    port = options.webhook_port if options.webhook_port is not None or registration.url else 0
    manager.configure(replace(options, webhook_registration=registration, webhook_port=port))


def _register_policies(manager: Manager) -> None:
    """Have the API server evaluate the policies while this process runs."""
    from kubewright.policies import LocalPolicies  # only operators with policies load it

    options = manager.options
    manager.configure(replace(options, policy_registration=options.policy_registration or LocalPolicies()))


def _access_flags(kubeconfig: Path | None, context: str | None) -> list[str]:
    """Return the operator's flags for the same options."""
    flags = [f"--kubeconfig={kubeconfig}"] if kubeconfig else []
    return [*flags, f"--context={context}"] if context else flags


def _supervise(arguments: Sequence[str], *, embedded: bool, stand_ins: bool, reload: bool) -> int:
    sources = Sources(find_root()) if reload else None
    with ExitStack() as stack:
        kubeconfig = None
        if embedded:
            from kubewright_controlplane.serving import KUBECONFIG, owned

            kubeconfig = stack.enter_context(owned(KUBECONFIG, way_out="stop it, or omit --embedded to use it"))
        runner = stack.enter_context(asyncio.Runner(loop_factory=loop_factory()))
        return runner.run(_run_aside(arguments, kubeconfig, stand_ins, sources))


async def _run_aside(
    arguments: Sequence[str], kubeconfig: Path | None, stand_ins: bool, sources: Sources | None
) -> int:
    async with AsyncExitStack() as stack:
        environment: dict[str, str] = {}
        if kubeconfig is not None:
            from kubewright_controlplane.environment import Environment
            from kubewright_controlplane.kubelet.images import STAND_INS
            from kubewright_controlplane.serving import serving  # only --embedded loads the server

            control_plane = Environment(images=STAND_INS if stand_ins else None)
            await stack.enter_async_context(serving(control_plane, kubeconfig))
            environment["KUBECONFIG"] = str(kubeconfig)
        return await Supervisor(arguments, environment, sources).run()
