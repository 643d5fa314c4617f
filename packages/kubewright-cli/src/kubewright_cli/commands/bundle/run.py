"""`kubewright bundle run`: install a bundle without OLM."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from kubewright.client import Config
from kubewright.machinery.errors import ConfigError
from kubewright_cli import console
from kubewright_cli.commands.bundle.installing import install, installing_options
from kubewright_cli.deployed import client_of
from kubewright_cli.installation.install import InstallOptions
from kubewright_cli.installation.inventory import only_inventory
from kubewright_cli.installation.source import opened_bundle
from kubewright_cli.options import config_of


@click.command("run", short_help="Install a bundle without OLM.")
@click.argument("source", default="bundle", metavar="[SOURCE]")
@installing_options
def command(
    source: str,
    namespace: str,
    watched: tuple[str, ...],
    unsafe_crds: bool,
    wait: bool,
    timeout: int,
    plain_http: bool,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Install the bundle SOURCE in the cluster of the kubeconfig, as OLM would, without OLM.

    SOURCE is the folder of a bundle [default: bundle], or its image in a registry. Installs the CRDs, the Deployments
    with their accounts and permissions, the other manifests, and the webhooks with certificates. Before the first
    change, checks install modes, minKubeVersion and dependencies, whether the CRDs are compatible with those in the
    cluster, and that no object belongs to someone else.

    Run it again to repair the installation, to apply a changed bundle of the same version, and to renew the
    certificates, which happens in the 90 days before they end. The ConfigMap bundle-PACKAGE in the operator's namespace
    says what is installed. The namespace is the one that the bundle suggests, unless --namespace names another one.

    On an embedded control plane (`kubewright up`) no image is needed for the bundle of a project: the Pods run the
    project's code directly.

    \b
    Examples:
      kubewright bundle run
      kubewright bundle run --namespace operators --watch-namespace shop
      kubewright bundle run ghcr.io/me/my-operator-bundle:v1.0.0
    """
    options = InstallOptions(namespace, watched, unsafe_crds, timeout if wait else None)
    asyncio.run(_run(config_of(kubeconfig, context), source, options, plain_http=plain_http))


async def _run(config: Config, source: str, options: InstallOptions, *, plain_http: bool) -> None:
    async with opened_bundle(source, console.note, plain_http=plain_http) as bundle, client_of(config) as client:
        found = await only_inventory(client, bundle.package, options.namespace)
        if found is not None and found.bundle != bundle.name and found.state != "removing":
            raise ConfigError(
                f"{found.bundle} is installed in namespace {found.namespace}, and not {bundle.name}. Nothing was "
                "changed; `kubewright bundle upgrade` upgrades it, `kubewright bundle cleanup` removes it"
            )
        namespace = options.namespace or (found.namespace if found is not None else bundle.suggested_namespace)
        await install(client, config, bundle, options.in_namespace(namespace))
