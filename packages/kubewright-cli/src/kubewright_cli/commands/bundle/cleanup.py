"""`kubewright bundle cleanup`: remove what a bundle has installed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

import click

from kubewright.client import Config
from kubewright.machinery.errors import ConfigError
from kubewright_cli import console
from kubewright_cli.deployed import (
    client_of,
    confirmed,
    print_deletions,
    timeout_option,
    unfinished,
    valid_namespace,
    yes_option,
)
from kubewright_cli.installation.cleanup import cleanup_bundle, own_definitions
from kubewright_cli.installation.inventory import find_installation
from kubewright_cli.olm.catalog import ReleasedBundle
from kubewright_cli.options import config_of, kubeconfig_options

_BUNDLE: Final = Path("bundle")
_REMAINS: Final = (
    "what is listed above is deleted, the rest is being deleted or remains; run the same command to finish"
)


@click.command("cleanup", short_help="Remove what a bundle has installed.")
@click.argument("package", default="", metavar="[PACKAGE]")
@click.option("--keep-crds", is_flag=True, help="Keep the CRDs and every object of their kinds.")
@yes_option
@timeout_option(120)
@click.option(
    "--namespace",
    "-n",
    default="",
    callback=valid_namespace,
    help="Namespace of the operator.  [default: where the package is]",
)
@kubeconfig_options
def command(
    package: str, keep_crds: bool, yes: bool, timeout: int, namespace: str, kubeconfig: Path | None, context: str | None
) -> None:
    """Remove exactly what `kubewright bundle run` and `upgrade` have installed of a package.

    PACKAGE is the name of the package [default: that of the folder bundle]. Objects of its kinds are deleted first,
    while the operator runs and can finalize them. The command asks at a terminal before it deletes them. Without a
    terminal, --yes or --keep-crds is required. Objects that someone else has made, or has made again, remain. A
    namespace that `run` created is deleted, unless it has other objects. The command waits until everything is gone.

    \b
    Examples:
      kubewright bundle cleanup
      kubewright bundle cleanup my-operator --keep-crds
    """
    done = asyncio.run(
        _cleanup(
            config_of(kubeconfig, context),
            package or _package(),
            namespace,
            keep_crds=keep_crds,
            yes=yes,
            timeout=timeout,
        )
    )
    sys.exit(0 if done else 1)


def _package() -> str:
    """Return the package of the bundle in the current folder."""
    if not _BUNDLE.is_dir():
        raise ConfigError(f"there is no folder {_BUNDLE}; name the package: `kubewright bundle cleanup PACKAGE`")
    return ReleasedBundle.read(_BUNDLE, str(_BUNDLE)).package


async def _cleanup(config: Config, package: str, namespace: str, *, keep_crds: bool, yes: bool, timeout: int) -> bool:
    async with client_of(config) as client:
        found = await find_installation(client, package, namespace)
        nothing = f"Nothing of package {package} is installed{f' in namespace {namespace}' if namespace else ''}"
        if found is None:
            console.say(nothing)
            return True
        definitions = await own_definitions(client, found)
        or_else = ", or --keep-crds to keep them"
        if not keep_crds and not await confirmed(client, definitions, yes=yes, or_else=or_else):
            console.note("Nothing was deleted.")
            return False
        with unfinished(_REMAINS) as done, console.progress("Deleting") as step:
            changes = cleanup_bundle(client, found, keep_crds=keep_crds, timeout=timeout, warn=console.warn)
            await print_deletions(changes, done, step)
        if not done.changes and found.inventory is None:
            console.say(nothing)
    return True
