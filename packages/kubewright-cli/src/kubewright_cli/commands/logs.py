"""`kubewright logs`: print the log of the deployed manager."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path

import click

from kubewright.machinery import time
from kubewright_cli import console
from kubewright_cli.deployed import Target, namespace_option
from kubewright_cli.deployment import pods
from kubewright_cli.deployment.ownership import RENAME, require_own


@click.command("logs")
@click.option("--follow", "-f", is_flag=True, help="Follow the log, across restarts and new Pods.")
@click.option("--previous", "-p", is_flag=True, help="Print the log of the container before its last restart.")
@click.option("--tail", type=click.IntRange(0), help="Print only this many lines from the end.")
@click.option("--since", help="Print only lines newer than this: 90s, 5m, 2h.")
@click.option("--timestamps", is_flag=True, help="Print the time of each line.")
@namespace_option
def command(
    follow: bool,
    previous: bool,
    tail: int | None,
    since: str | None,
    timestamps: bool,
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Print the log of the deployed manager: of the leader, if there are several Pods.

    \b
    Examples:
      kubewright logs -f
      kubewright logs --previous --tail 20
    """
    if follow and previous:
        raise click.UsageError("a previous log cannot be followed; omit --follow or --previous")
    age = _duration(since)
    target = Target.of(kubeconfig, context, namespace=namespace)

    async def show() -> None:
        async with target.client() as client:
            await require_own(client, target.manifests, f"To see its log, {RENAME}, or choose --namespace")
            lines = pods.logs(
                client,
                target.manifests,
                follow=follow,
                previous=previous,
                tail=tail,
                since=age,
                timestamps=timestamps,
            )
            async with aclosing(lines):
                async for line in lines:
                    console.say(line)

    asyncio.run(show())


def _duration(text: str | None) -> timedelta | None:
    if text is None:
        return None
    try:
        return time.parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--since") from None
