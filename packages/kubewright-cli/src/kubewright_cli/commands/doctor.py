"""`kubewright doctor`: what is wrong, and what to do."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path

import click

from kubewright_cli import console
from kubewright_cli.deployed import Target, namespace_option
from kubewright_cli.deployment.doctor import Finding, examine, server_version


@click.command("doctor")
@console.output_option
@namespace_option
def command(output: str, namespace: str, kubeconfig: Path | None, context: str | None) -> None:
    """Look for what is wrong with the operator in the cluster: a line a finding, with what to do.

    Looks at the API server, the CRDs (against the program's), the rights of the ServiceAccount (against what the
    controllers need), the Deployment, its Pods and images, and who leads. Exit status 1 when there is a finding.

    \b
    Examples:
      kubewright doctor
      kubewright doctor --context staging --output json
    """
    target = Target.of(kubeconfig, context, namespace=namespace)
    version, findings = asyncio.run(_examine(target))
    if output == "json":
        console.document({"server": version, "findings": [asdict(each) for each in findings]})
    else:
        console.say(f"API server {version} at {target.config.server}")
        for each in findings:
            console.say(f"{console.bad(each.subject)}: {each.problem}; {each.remedy}")
        if not findings:
            console.say(console.good("Nothing is wrong."))
    sys.exit(1 if findings else 0)


async def _examine(target: Target) -> tuple[str, list[Finding]]:
    async with target.client() as client:
        with console.progress("Looking"):
            version = await server_version(client)
            return version, [each async for each in examine(client, target.manifests)]
