"""Measures an operator: one experiment for each claim, in one namespace, and a report of them all."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.client import Client, Config
from kubewright.client._crds import until_established
from kubewright.machinery._suggestions import nearest
from kubewright.machinery.errors import ConfigError, KubewrightError, NotFound
from kubewright.machinery.time import format as format_time
from kubewright.models import codec
from kubewright.testing._cluster import connected
from kubewright.testing._waiting import eventually
from kubewright.testing.levels import _autopilot, _basic, _insights, _lifecycle, _upgrades
from kubewright.testing.levels._catalog import BY_ID, CLAIMS, Asked
from kubewright.testing.levels._declaration import Declaration
from kubewright.testing.levels._lab import Lab, NotApplicable, NotShown
from kubewright.testing.levels._operator import Operator
from kubewright.testing.levels._report import Claim, Level, Outcome, Report, level_of

Progress: TypeAlias = Callable[[Claim], None]
"""Is called with each claim as soon as it is measured."""

_Show: TypeAlias = Callable[[Lab], Awaitable[str]]

_INSTALL: Final = "I.install"
_REST: Final = 5.0
"""Seconds that an experiment waits for the rest of the one before."""
_UNTIED: Final[dict[str, _Show]] = {
    "I.samples": _basic.samples,
    "I.bundle": _basic.bundle,
    "I.schema": _basic.schema,
    "I.resources": _basic.resources,
    "I.documented": _basic.documented,
}
"""What can be checked without running the operator."""
_TRIED: Final[dict[str, _Show]] = {
    "I.descriptors": _basic.descriptors,
    "I.status": _basic.status,
    "I.health": _basic.health,
    "I.images": _basic.images,
    "I.change": _basic.change,
    "II.operand": _upgrades.operand,
    "III.rolling": _lifecycle.rolling,
    "II.unsupported": _upgrades.unsupported,
    "II.restart": _upgrades.restart,
    "II.catch-up": _upgrades.catch_up,
    "II.operator": _upgrades.operator,
    "III.budget": _lifecycle.budget,
    "III.requests": _lifecycle.requests,
    "III.probes": _lifecycle.probes,
    "III.scale": _lifecycle.scale,
    "III.killed": _lifecycle.killed,
    "III.outage": _lifecycle.outage,
    "III.volume": _lifecycle.volume,
    "IV.metrics": _insights.metrics,
    "IV.object-metrics": _insights.object_metrics,
    "IV.operand-metrics": _insights.operand_metrics,
    "IV.alerts": _insights.alerts,
    "IV.dashboard": _insights.dashboard,
    "IV.events": _insights.events,
    "V.scales": _autopilot.scales,
    "V.heals": _autopilot.heals,
    "V.tunes": _autopilot.tunes,
    "V.detects": _autopilot.detects,
    "III.backup": _lifecycle.backup,
}
"""Experiments with the installed samples, in the order in which they are carried out."""
_NEEDS: Final = {"III.rolling": "II.operand"}
"""Claims that another experiment shows as well."""


async def measure(
    operator: Operator,
    config: Config,
    declaration: Declaration | None = None,
    *,
    claims: Collection[str] = (),
    progress: Progress | None = None,
) -> Report:
    """Measure the capability level of an operator on a cluster that tests may write to.

    Installs the CRDs, and works in a namespace of its own, which is deleted at the end. The operator runs with the
    permissions that it asks for and no others.

    config: an administrator's access to the cluster.
    declaration: what the suite cannot know of the operator.
    claims: the ids of the claims to measure, such as `I.status`; by default all. With some, the level is not known.
    progress: called with each claim.
    Raises ConfigError for an unknown claim, and KubewrightError if the cluster cannot be used.
    """
    wanted = _wanted(claims)
    declaration = declaration or Declaration()
    found: dict[str, Claim] = {}
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(connected(config))
        if declaration.images and cluster.config.image_table is not None:
            await stack.enter_async_context(cluster.images(declaration.images))
        await _install(cluster.client, operator)
        namespace = await stack.enter_async_context(cluster.namespace("levels"))
        account = await stack.enter_async_context(cluster.service_account(operator.permissions, namespace=namespace))
        lab = Lab(operator, declaration, cluster, account, namespace)
        await stack.enter_async_context(lab.recorder.running())

        async def show(name: str, experiment: _Show) -> None:
            if name in wanted:
                found[name] = await _shown(lab, BY_ID[name], experiment)
                if progress is not None:
                    progress(found[name])

        try:
            await _carry_out(lab, found, show)
        finally:
            await _clean_up(lab)
        server = await _server_version(cluster.client)
    return _report(operator, server, [found[each.id] for each in CLAIMS if each.id in found], bool(claims))


async def measure_project(
    folder: Path, config: Config, *, claims: Collection[str] = (), progress: Progress | None = None
) -> Report:
    """Measure the operator of a project with its declaration, as `kubewright levels` does.

    Needs the package kubewright-cli. Raises ConfigError if the project, its settings or its declaration are wrong.
    """
    try:
        from kubewright_cli.olm.levels import declaration_of, operator_of
        from kubewright_cli.project import Project
    except ModuleNotFoundError as error:
        raise ConfigError("measure_project needs the package kubewright-cli: pip install 'kubewright[dev]'") from error
    project = Project.load(folder)
    declaration = declaration_of(project)
    return await measure(operator_of(project, declaration), config, declaration, claims=claims, progress=progress)


async def _carry_out(lab: Lab, found: dict[str, Claim], show: Callable[[str, _Show], Awaitable[None]]) -> None:
    for name, experiment in _UNTIED.items():
        await show(name, experiment)
    await show(_INSTALL, _basic.install)
    for name, experiment in _TRIED.items():
        await show(name, experiment if found[_INSTALL].outcome == "held" else _impossible)


async def _impossible(lab: Lab) -> str:
    raise NotShown("The samples do not become ready, so this could not be tried.")


def _wanted(claims: Collection[str]) -> set[str]:
    for each in claims:
        if each not in BY_ID:
            similar = nearest(each, BY_ID)
            hint = f'did you mean "{similar}"?' if similar else f"known claims: {', '.join(BY_ID)}"
            raise ConfigError(f'claims: there is no claim "{each}"; {hint}')
    chosen = set(claims or BY_ID)
    return {_INSTALL, *chosen, *(_NEEDS[each] for each in chosen if each in _NEEDS)}


async def _shown(lab: Lab, asked: Asked, experiment: _Show) -> Claim:
    if experiment is not _impossible:
        with suppress(AssertionError):  # the experiment itself reports what does not rest
            await lab.settle(within=_REST)
    lab.take_evidence()
    began = lab.elapsed()
    outcome: Outcome = "held"
    try:
        summary = await experiment(lab)
    except NotApplicable as reason:
        outcome, summary = "not applicable", str(reason)
    except NotShown as reason:
        outcome, summary = "missing", str(reason)
    except AssertionError as error:
        outcome, summary = "failed", _sentence(str(error) or _place(error))
    except Exception as error:  # noqa: BLE001 - experiments are the author's code
        outcome, summary = "failed", _sentence(f"{type(error).__name__}: {error} ({_place(error)})")
    return Claim(
        id=asked.id,
        level=asked.level,
        title=asked.title,
        outcome=outcome,
        summary=summary,
        remedy="" if outcome in ("held", "not applicable") else asked.remedy,
        seconds=round(lab.elapsed() - began, 3),
        evidence=lab.take_evidence(),
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "!", "?")) else ".")


def _place(error: BaseException) -> str:
    """Return the place where an experiment failed without a message."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}, line {frame.lineno}: {frame.line}"


async def _install(client: Client, operator: Operator) -> None:
    for document in operator.installed_crds():
        crd = await client.apply(codec.from_dict(CustomResourceDefinition, document), force=True)
        await until_established(client, crd.metadata.name)


async def _clean_up(lab: Lab) -> None:
    """Delete the operator's objects while it runs, so that it can release its finalizers, and stop the operator."""
    try:
        for each in reversed(lab.samples):
            with suppress(NotFound):
                await lab.client.delete(each)
        for version in lab.created_by_experiments():
            with suppress(NotFound):
                await lab.delete(version)

        def check() -> None:
            left = [each.metadata.name for each in lab.samples if lab.version_of(each) is not None]
            left += [each.name for each in lab.created_by_experiments()]
            assert not left, f"not deleted: {', '.join(left)}"

        with suppress(AssertionError):
            await eventually(check, within=lab.declaration.timeout)
    finally:
        with suppress(KubewrightError):
            await lab.stop()


async def _server_version(client: Client) -> str:
    answer = msgspec.json.decode(await client.rest.request("GET", "/version"), type=dict[str, str])
    return answer.get("gitVersion", "")


def _report(operator: Operator, server: str, claims: list[Claim], partial: bool) -> Report:
    level = Level.NONE if partial else level_of(claims)
    return Report(
        operator=operator.name,
        version=operator.version,
        measured_at=format_time(datetime.now(UTC).replace(microsecond=0)),
        server=server,
        program=operator.digest,
        partial=partial,
        level=int(level),
        capability=level.capability,
        claims=tuple(claims),
    )
