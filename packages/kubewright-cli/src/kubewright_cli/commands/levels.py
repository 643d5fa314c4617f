"""`kubewright levels`: measure the capability level of the operator, and say what is missing for the next one."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kubewright.client import Config
from kubewright_cli import console
from kubewright_cli.options import config_of, kubeconfig_options
from kubewright_cli.project import Project

if TYPE_CHECKING:
    from kubewright.testing.levels import Claim, Report

_REPORT: Final = "levels.json"
_NUMERALS: Final = ("I", "II", "III", "IV", "V")


@click.command("levels")
@click.option("--require", type=click.Choice(_NUMERALS), help="Fail unless the operator has at least this level.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write the report as a page, too.")
@click.option(
    "--claim", "claims", multiple=True, metavar="ID", help="Measure only this claim. Can be repeated; writes no file."
)
@click.option("--verbose", "-v", is_flag=True, help="Show the evidence of each claim, and the operator's log.")
@console.output_option
@kubeconfig_options
def command(
    require: str | None,
    html: Path | None,
    claims: tuple[str, ...],
    verbose: bool,
    output: str,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Measure the capability level of the operator, from I (Basic Install) to V (Auto Pilot), and write levels.json.

    Runs the operator with its samples on an embedded control plane, or with --kubeconfig or --context on a cluster
    that tests may write to. Each thing that a level asks is an experiment: the samples install, a spec changes under
    load, the operator is killed, a Pod is lost. tests/levels.py declares what cannot be found out: versions, backups,
    experiments. `kubewright generate bundle` writes the measured level into the bundle.

    \b
    Examples:
      kubewright levels
      kubewright levels --html build/levels.html --require III
      kubewright levels --claim II.restart -v
    """
    project = Project.load()
    show = partial(_show, verbose=verbose) if output == "text" else None
    with nullcontext() if verbose else _without_logs():
        report = asyncio.run(_measure(project, claims, show, kubeconfig, context))
    if not claims:
        (project.root / _REPORT).write_bytes(report.json())
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(report.html())
    if output == "text":
        _conclude(report)
    else:
        sys.stdout.write(report.json().decode())
    sys.exit(0 if _is_enough(report, require) else 1)


def _is_enough(report: Report, require: str | None) -> bool:
    if report.partial:
        return all(each.is_held for each in report.claims)
    return require is None or report.level > _NUMERALS.index(require)


@contextmanager
def _without_logs() -> Iterator[None]:
    """Leave out the logs of Kubewright: an experiment provokes warnings."""
    logger = logging.getLogger("kubewright")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


async def _measure(
    project: Project,
    claims: Collection[str],
    show: Callable[[Claim], None] | None,
    kubeconfig: Path | None,
    context: str | None,
) -> Report:
    from kubewright.testing.levels import measure
    from kubewright_cli.olm.levels import declaration_of, operator_of  # load the suite: not for completion

    declaration = declaration_of(project)
    operator = operator_of(project, declaration)
    async with _cluster(kubeconfig, context) as config:
        return await measure(operator, config, declaration, claims=claims, progress=show)


@asynccontextmanager
async def _cluster(kubeconfig: Path | None, context: str | None) -> AsyncGenerator[Config]:
    if kubeconfig or context:
        yield config_of(kubeconfig, context)
        return
    from kubewright_controlplane.environment import Environment

    async with Environment() as cluster:
        yield cluster.config


def _show(claim: Claim, *, verbose: bool) -> None:
    paint = {"held": console.good, "failed": console.bad}.get(claim.outcome, str)
    console.say(f"{paint(claim.outcome.ljust(14))}  {claim.id.ljust(18)}  {claim.summary}")
    if verbose:
        for each in claim.evidence:
            about = f" {each.object}:" if each.object else ""
            console.say(f"    {each.at:7.2f} s  {each.action}{about} {each.text}")


def _conclude(report: Report) -> None:
    from kubewright.testing.levels import Level

    console.say("")
    if not report.partial:
        name = f"level {Level(report.level).numeral}, {report.capability}" if report.level else "no level yet"
        console.say(console.strong(f"{report.operator} {report.version}: {name}"))
    missing = [each for each in report.claims if not each.is_held] if report.partial else report.missing
    if missing:
        what = "Missing" if report.partial else f"Missing for level {Level(report.level + 1).numeral}"
        console.say(f"\n{what}:")
    for each in missing:
        console.say(f"- {each.title} ({each.id}). {each.summary}\n  {each.remedy}")
