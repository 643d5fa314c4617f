"""`kubewright bundle upgrade`: upgrade an installed bundle along the upgrade graph."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from kubewright.client import Client, Config
from kubewright.machinery.errors import ConfigError
from kubewright_cli import console
from kubewright_cli.commands.bundle.installing import install, installing_options
from kubewright_cli.deployed import client_of
from kubewright_cli.installation.graph import require_edge
from kubewright_cli.installation.install import InstallOptions
from kubewright_cli.installation.inventory import Inventory, only_inventory
from kubewright_cli.installation.preflight import require_upgradeable
from kubewright_cli.installation.source import opened_bundle
from kubewright_cli.installation.steps import FOLDERS, CatalogUpgrade, catalog_upgrade
from kubewright_cli.options import config_of


@click.command("upgrade", short_help="Upgrade an installed bundle along the upgrade graph.")
@click.argument("source", default="", metavar="[SOURCE]")
@click.option(
    "--catalog",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of a file-based catalog, in which the steps are found.",
)
@click.option("--channel", default="", help="Channel of the catalog.  [default: the default channel]")
@click.option("--to", "target", metavar="VERSION", default="", help="Version in the catalog.  [default: the newest]")
@click.option("--package", default="", help="Package of the catalog.  [default: its only one]")
@click.option(
    "--bundles",
    multiple=True,
    metavar="PATTERN",
    help="Folders of the catalog's bundles; the others are pulled.  [default: bundles/*, bundle]",
)
@installing_options
def command(
    source: str,
    catalog: Path | None,
    channel: str,
    target: str,
    package: str,
    bundles: tuple[str, ...],
    namespace: str,
    watched: tuple[str, ...],
    unsafe_crds: bool,
    wait: bool,
    timeout: int,
    plain_http: bool,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Upgrade an installed bundle to the bundle SOURCE, or step by step to a version in a catalog.

    SOURCE is the folder of a bundle [default: bundle], or its image in a registry. It must follow the installed bundle:
    replace it, skip it, or have its version in olm.skipRange. With --catalog, the steps from the installed version
    to the newest one, or to --to, are those of the catalog's channel; each step is complete before the next begins.

    Checks what `kubewright bundle run` checks, before the first change of each step. An OperatorCondition with the name
    of the installed bundle whose condition Upgradeable is False stops the upgrade. Deletes the objects that the new
    version no longer has; a CRD that has objects remains.

    If it is interrupted, run it again: an upgrade goes forward, and never back.

    \b
    Examples:
      kubewright bundle upgrade
      kubewright bundle upgrade ghcr.io/me/my-operator-bundle:v1.1.0
      kubewright bundle upgrade --catalog catalog --to 1.3.0
    """
    options = InstallOptions(namespace, watched, unsafe_crds, timeout if wait else None)
    config = config_of(kubeconfig, context)
    if catalog is None:
        if channel or target or package or bundles:
            raise click.UsageError("--channel, --to, --package and --bundles need --catalog")
        asyncio.run(_upgrade(config, source or "bundle", options, plain_http=plain_http))
        return
    if source:
        raise click.UsageError("name either SOURCE or --catalog")
    if not wait:
        raise click.UsageError("--catalog waits for each step; omit --no-wait")
    found = catalog_upgrade(catalog, bundles or FOLDERS, package=package, channel=channel, target=target)
    asyncio.run(_upgrade_by_catalog(config, found, options, plain_http=plain_http))


async def _upgrade(config: Config, source: str, options: InstallOptions, *, plain_http: bool) -> None:
    async with opened_bundle(source, console.note, plain_http=plain_http) as bundle, client_of(config) as client:
        found = await _installed(client, bundle.package, options.namespace)
        if found.bundle != bundle.name:
            require_edge(bundle, found.bundle, found.semver)
            await require_upgradeable(client, found)
        elif found.state == "installed":
            console.say(f"{found.bundle} is installed already; its objects are checked")
        await install(client, config, bundle, options.in_namespace(found.namespace))


async def _upgrade_by_catalog(
    config: Config, upgrade: CatalogUpgrade, options: InstallOptions, *, plain_http: bool
) -> None:
    async with client_of(config) as client:
        found = await _installed(client, upgrade.channel.package, options.namespace)
        steps = upgrade.steps(found)
        if not steps:
            console.say(f"{found.bundle} is installed already")
            return
        console.say(
            f"Steps: {' -> '.join((found.bundle, *(each.name for each in steps if each.name != found.bundle)))}"
        )
        for step in steps:
            found = await _installed(client, upgrade.channel.package, found.namespace)
            if step.name != found.bundle:
                await require_upgradeable(client, found)
            async with upgrade.opened(step, console.note, plain_http=plain_http) as bundle:
                await install(client, config, bundle, options.in_namespace(found.namespace))


async def _installed(client: Client, package: str, namespace: str) -> Inventory:
    found = await only_inventory(client, package, namespace)
    if found is None:
        where = f" in namespace {namespace}" if namespace else ""
        raise ConfigError(f"package {package} is not installed{where}; `kubewright bundle run` installs it")
    if found.state == "removing":
        raise ConfigError(
            f"the cleanup of {found.bundle} in namespace {found.namespace} is not finished; finish it with `kubewright "
            "bundle cleanup`, or install the bundle again with `kubewright bundle run`"
        )
    return found
