"""`kubewright doctor`: find problems, and say what to do."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path

import click

from kubewright.machinery.errors import KubewrightError
from kubewright_cli import console
from kubewright_cli.deployed import Target, namespace_option
from kubewright_cli.deployment.doctor import examine, finding_of, server_version
from kubewright_cli.deployment.embedded import foreign_image, image_of, table_of
from kubewright_cli.deployment.finding import Finding


@click.command("doctor")
@console.output_option
@namespace_option
def command(output: str, namespace: str, kubeconfig: Path | None, context: str | None) -> None:
    """Find problems of the operator in the cluster. Prints one line for each, with what to do.

    Checks the API server, the CRDs (against the program's), objects that the operator has not reconciled or
    whose reconciles keep failing, objects that were not Ready or could not be finalized for over a minute, the
    webhooks (certificate, CA, Service, configurations and conversions that nothing answers; a dry run shows whether
    they are called), the admission policies (also those that a killed `kubewright run` left on this host), the
    permissions of the ServiceAccount (against what the controllers need), the Deployment, its Pods and images, and the
    leader. Exit status 1 if there is a finding.

    \b
    Examples:
      kubewright doctor
      kubewright doctor --context staging --output json
    """
    version, server = "", ""
    findings: list[Finding] = []
    try:
        target = Target.of(kubeconfig, context, namespace=namespace)
        server = target.config.server
        version, findings = asyncio.run(_examine(target))
    except KubewrightError as error:
        if output != "json":
            raise
        findings = [finding_of("cluster" if server else "project", error)]
    if output == "json":
        console.document({"server": version, "findings": [asdict(each) for each in findings]})
    else:
        console.say(f"API server {version} at {server}")
        for each in findings:
            console.say(f"{console.bad(each.subject)}: {each.problem}; {each.remedy}")
        if not findings:
            console.say(console.good("Nothing is wrong."))
    sys.exit(1 if findings else 0)


async def _examine(target: Target) -> tuple[str, list[Finding]]:
    async with target.client() as client:
        with console.progress("Checking"):
            version = await server_version(client)
            return version, [each async for each in examine(client, target.manifests, foreign_image=_foreign(target))]


def _foreign(target: Target) -> str | None:
    """Return the other project whose code the manager's image runs on an embedded control plane."""
    table = table_of(target.config)
    if table is None:
        return None
    own = image_of(target.project.root, target.manifests.settings.manager)
    return foreign_image(table, target.manifests, own)
