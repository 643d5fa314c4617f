"""`kubewright migrate`: write stored objects in the storage version."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import click

from kubewright.client import Client, Config
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright.models import custom_resource_definitions
from kubewright_cli import console
from kubewright_cli.deployed import client_of, unfinished
from kubewright_cli.deployment import migration
from kubewright_cli.deployment.servermigration import NOT_SERVED, discard
from kubewright_cli.options import config_of, kubeconfig_options
from kubewright_cli.project import Project

_REMAINS: Final = "the kinds listed above are migrated, the others are not; run the same command to finish"


@click.command("migrate")
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@click.option("--dry-run", is_flag=True, help="Change nothing; print what would be written.")
@kubeconfig_options
def command(kinds: tuple[str, ...], dry_run: bool, kubeconfig: Path | None, context: str | None) -> None:
    """Store all objects of the project's kinds, or of each KIND, in the storage version.

    After another version became the storage version, existing objects stay stored in the old one until they are
    written again. This writes each of them once, without a change, and then removes the old versions from
    status.storedVersions of the CRD. After that, an old version can be removed from the program.

    If the API server serves StorageVersionMigration, its migrator writes the objects. If it makes no progress for 30
    seconds, this command writes them itself. The output says which of the two wrote them.

    Run it after `kubewright install` or `kubewright deploy`. If it is interrupted, run it again.

    \b
    Examples:
      kubewright migrate --dry-run
      kubewright migrate WebServer --context staging
    """
    project = Project.load()
    crds = _chosen(custom_resource_definitions(project.kinds), kinds)
    asyncio.run(_run(crds, config_of(kubeconfig, context), dry_run=dry_run))


def _chosen(crds: list[JSONObject], kinds: tuple[str, ...]) -> list[JSONObject]:
    """Return the CRDs of the kinds, all if none is named. Raises ConfigError for an unknown kind."""
    known = [crd["spec"]["names"]["kind"] for crd in crds]
    wanted = {each.lower() for each in kinds}
    unknown = [each for each in kinds if each.lower() not in {kind.lower() for kind in known}]
    if unknown:
        raise ConfigError(f"{', '.join(unknown)}: not a kind of this project; its kinds are {', '.join(known)}")
    return [crd for crd, kind in zip(crds, known, strict=True) if not wanted or kind.lower() in wanted]


async def _run(crds: list[JSONObject], config: Config, *, dry_run: bool) -> None:
    async with client_of(config) as client:
        await migrate(client, crds, dry_run=dry_run)


async def migrate(client: Client, crds: list[JSONObject], *, dry_run: bool = False) -> None:
    """Store all objects of the CRDs in the storage version, and print what happened. A dry run changes nothing."""
    with unfinished(_REMAINS) as done, console.progress("Migrating") as step:
        for crd in crds:
            planned = await migration.plan(client, crd)
            if dry_run:
                console.say(_outcome(planned, would=True))
                continue
            if not planned.old_versions and await discard(client, planned.crd):
                planned = await migration.plan(client, crd)
            reason = await migration.migrate(client, planned, step) if planned.old_versions else ""
            done.changes += bool(planned.old_versions)
            if reason and reason != NOT_SERVED:
                console.note(f"{planned.name}: the API server did not write the objects: {reason}")
            console.say(_outcome(planned, by="this command" if reason else "the API server"))


def _outcome(planned: migration.Migration, *, by: str = "", would: bool = False) -> str:
    version, old = planned.api.version, ", ".join(planned.old_versions)
    if not old:
        return f"{planned.name}: all objects are stored in {version}"
    count = f"{len(planned.objects)} object{'' if len(planned.objects) == 1 else 's'}"
    if would:
        return f"{planned.name}: would write {count} in {version}, and remove {old} from status.storedVersions"
    return f"{planned.name}: {count} written in {version} by {by}, {old} removed from status.storedVersions"
