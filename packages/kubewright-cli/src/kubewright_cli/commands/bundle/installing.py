"""What `bundle run` and `bundle upgrade` share: options, and one installation with its output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

import click

from kubewright.client import Client, Config
from kubewright_cli import console
from kubewright_cli.deployed import failing_log, print_changes, timeout_option, unfinished, valid_namespace
from kubewright_cli.installation.code import map_images
from kubewright_cli.installation.install import InstallOptions, install_bundle
from kubewright_cli.installation.inventory import inventories
from kubewright_cli.installation.source import InstallableBundle
from kubewright_cli.options import kubeconfig_options

F = TypeVar("F", bound=Callable[..., object])

_REMAINS: Final = "the objects listed above are applied, the others are not; run the same command to finish"


def installing_options(function: F) -> F:
    """Add the options of commands that install a bundle."""
    options = (
        click.option(
            "--namespace",
            "-n",
            default="",
            callback=valid_namespace,
            help="Namespace of the operator.  [default: where it is, or what the bundle suggests]",
        ),
        click.option(
            "--watch-namespace",
            "watched",
            multiple=True,
            metavar="NAMESPACE",
            help="Namespace that the operator works in. Can be repeated.  [default: all, if the bundle supports that]",
        ),
        click.option(
            "--unsafe-crds", is_flag=True, help="Apply CRDs that are not compatible with those in the cluster."
        ),
        click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the operator runs."),
        timeout_option(180),
        click.option("--plain-http", is_flag=True, help="Connect to registries without TLS."),
        kubeconfig_options,
    )
    for option in reversed(options):
        function = option(function)
    return function


async def install(client: Client, config: Config, bundle: InstallableBundle, options: InstallOptions) -> None:
    """Install a bundle, or continue that, and print what changes."""
    found = await inventories(client, bundle.package, options.namespace)
    images, simulated = await map_images(client, config, bundle, options.namespace)
    for each in simulated:
        console.warn(f"image {each} has no command on this control plane, so its Pods are simulated")
    with unfinished(_REMAINS) as done, failing_log(), console.progress(f"Installing {bundle.name}") as step:
        complete = replace(options, adapt=images.adapt, report=step, warn=console.warn)
        await print_changes(install_bundle(client, bundle, complete, found[0] if found else None), done)
    state = "runs" if options.timeout is not None and bundle.deployments else "is applied"
    console.say(console.good(f"{bundle.name} {state} in namespace {options.namespace}"))
