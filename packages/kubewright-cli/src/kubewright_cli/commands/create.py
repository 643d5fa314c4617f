"""`kubewright create`: add kinds and controllers to a project."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kubewright.machinery.errors import ConfigError
from kubewright.models._custom import plural_of
from kubewright_cli import console
from kubewright_cli.asking import SWITCH, Name, not_here, required
from kubewright_cli.scaffold import plan
from kubewright_cli.scaffold.changes import WouldOverwrite
from kubewright_cli.scaffold.names import group_faults, kind_faults, module_name, plural_faults, version_faults
from kubewright_cli.scaffold.record import Record, Resource, built_in, project_root

_GROUPS_OF_KUBERNETES: Final = ("apps", "core")
"""Groups that are more often meant to be those of Kubernetes than to be new ones."""


@click.group("create")
def command() -> None:
    """Add a kind or a controller to this project.

    \b
    Examples:
      kubewright create api --version v1 --kind WebServer
      kubewright create controller --group apps --version v1 --kind Deployment
    """


@command.command("api")
@click.option("--group", default="", help="API group, without the domain.  [default: the domain itself]")
@click.option("--version", type=Name(version_faults), help="Version of the kind: v1, v1beta1, ...")
@click.option("--kind", type=Name(kind_faults), help="The kind, in CamelCase.")
@click.option("--plural", type=Name(plural_faults), default=None, help="The plural of the kind, if it is irregular.")
@click.option("--namespaced", help="Objects belong to namespaces.  [default: true, or as in other versions]", **SWITCH)
@click.option("--resource", default=True, help="Write the types.  [default: true]", **SWITCH)
@click.option(
    "--controller", help="Write a controller.  [default: true, unless another version of the kind has one]", **SWITCH
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@not_here("--make", "`make manifests` generates files; omit the option")
@not_here("--plugins", "there is only one layout; omit the option")
def api(
    group: str,
    version: str | None,
    kind: str | None,
    plural: str | None,
    namespaced: bool | None,
    resource: bool,
    controller: bool | None,
    force: bool,
) -> None:
    """Add a kind, or another version of a kind: types, a controller and a test.

    The types of another version start as a copy. Versions are not converted, so all versions need the same fields.

    \b
    Examples:
      kubewright create api --version v1 --kind WebServer
      kubewright create api --group ship --version v1beta1 --kind Frigate --controller=false
      kubewright create api --group ship --version v1 --kind Fleet --namespaced=false
    """
    root = project_root()
    record = Record.load(root)
    version = required("--version", version, "What version (v1, v1alpha1, ...)", version_faults)
    kind = required("--kind", kind, "What kind (in CamelCase, like WebServer)", kind_faults)
    if not resource:
        if controller is False:
            raise click.UsageError("--resource=false and --controller=false leave nothing to create")
        _create_controller(root, record, group, version, kind, force=force)
        return
    _check_group(record, group)
    others = [each for each in record.versions_of(group, kind) if each.api]
    added = Resource(
        group=group,
        domain=record.domain,
        version=version,
        kind=kind,
        path=plan.module_path(record, "api", group, version, module_name(kind)),
        controller=not any(each.controller for each in others) if controller is None else controller,
        namespaced=others[0].namespaced if namespaced is None and others else namespaced is not False,
        plural=_plural(plural, kind, others),
    )
    _warn_about_built_in(added)
    record.refuse_clash(added, again=force)
    addition = plan.api(root, record, added)
    _write(addition, force=force)
    if others and version not in {each.version for each in others}:
        _explain_versions(added, others[0], plan.stored(root, others), addition.copied_from)
    _say_next("the types and the controller" if added.controller else "the types")


@command.command("webhook", context_settings={"ignore_unknown_options": True}, add_help_option=False, hidden=True)
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
def webhook(flags: tuple[str, ...]) -> None:
    """Fail, and say how to write webhooks: there is no scaffold of them yet.

    \b
    Example:
      kubewright create webhook
    """
    raise ConfigError(
        "there is no scaffold of webhooks yet. Write them as functions, and give them to the Manager. Often markers, "
        'CEL rules (m.XValidation) and defaults in the types are enough. See the page "Webhooks" of the documentation'
    )


@command.command("controller")
@click.option("--group", default="", help="API group. For kinds of this project, without the domain.")
@click.option("--version", type=Name(version_faults), help="Version of the kind.")
@click.option("--kind", type=Name(kind_faults), help="The kind.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def controller_command(group: str, version: str | None, kind: str | None, force: bool) -> None:
    """Add a controller for an existing kind of this project or of Kubernetes.

    \b
    Examples:
      kubewright create controller --group ship --version v1beta1 --kind Frigate
      kubewright create controller --group apps --version v1 --kind Deployment
      kubewright create controller --version v1 --kind Pod
    """
    root = project_root()
    record = Record.load(root)
    version = required("--version", version, "What version", version_faults)
    kind = required("--kind", kind, "What kind", kind_faults)
    _create_controller(root, record, group, version, kind, force=force)


def _create_controller(root: Path, record: Record, group: str, version: str, kind: str, *, force: bool) -> None:
    resource = _known(record, group, version, kind)
    holders = [each for each in record.versions_of(resource.group, kind) if each.controller]
    if holders and not (force and resource in holders):
        raise ConfigError(f"{kind} already has a controller, for {holders[0].api_version}; a kind has one controller")
    _write(plan.controller(root, record, resource), force=force)
    _say_next("the controller and its test")


def _known(record: Record, group: str, version: str, kind: str) -> Resource:
    """Return a kind of the project or of Kubernetes. As in kubebuilder, `core` is the group without a name."""
    for each in record.versions_of(group, kind):
        if each.version == version:
            return each
    found = built_in(group, version, kind)
    group = group or "core"
    if found is None:
        raise ConfigError(
            f"neither this project nor Kubernetes has {kind} in {group}/{version}; `kubewright create api` adds it to "
            "this project"
        )
    return Resource(group, "", version, kind, found.__module__, api=False, namespaced=found.__api__.namespaced)


def _warn_about_built_in(added: Resource) -> None:
    """Point at `create controller` if the group or the kind is one of Kubernetes."""
    of_kubernetes = built_in(added.group, added.version, added.kind) is not None
    if not of_kubernetes and added.group not in _GROUPS_OF_KUBERNETES:
        return
    group = f"--group {added.group} " if added.group else ""
    what = f"{added.kind} is a kind" if of_kubernetes else f'"{added.group}" is an API group'
    console.warn(
        f"{what} of Kubernetes, and this adds another kind: {added.kind} of {added.api_version}. For a controller of a "
        f"kind of Kubernetes: kubewright create controller {group}--version {added.version} --kind {added.kind}"
    )


def _say_next(edited: str) -> None:
    console.say(f"\nNext: edit {edited}, then run\n\n  make manifests\n  make test")


def _explain_versions(added: Resource, other: Resource, stored: Resource, copied_from: str) -> None:
    """Say what it means that the API server does not convert between versions."""
    if not copied_from:
        console.warn(f"the types of {other.version} could not be copied: {added.version} has an example field instead")
    console.note(
        f"{added.kind} now has versions {other.version} and {added.version}. Versions are not converted (conversion "
        "strategy None): all have the fields of the one stored object, and a write through a version deletes fields "
        "that this version lacks. `kubewright generate` warns of such fields. kubectl shows the newest stable version "
        f"by default. Objects are stored in {stored.version}. To store them in {added.version}, make two edits: remove "
        f"storage=False from the class {added.kind} in {plan.source(added.path)}, and add storage=False to the class "
        f"{added.kind} in {plan.source(stored.path)}."
    )


def _plural(given: str | None, kind: str, others: list[Resource]) -> str:
    """Return the plural for the record: empty if it is regular."""
    if given is None and others:
        return others[0].plural
    return "" if given in (None, plural_of(kind.lower())) else str(given)


def _check_group(record: Record, group: str) -> None:
    for fault in group_faults(group, record.domain):
        raise click.BadParameter(f'"{group}" {fault}', param_hint="'--group'")


def _write(addition: plan.Addition, *, force: bool) -> None:
    written = addition.changes.paths
    try:
        addition.changes.write(overwrite=force)
    except WouldOverwrite as error:
        console.note(error.difference)
        raise ConfigError(f"{error}; --force overwrites it") from error
    for path in written:
        console.say(f"wrote {path}")
    if addition.by_hand:
        console.warn(
            "main.py has changed since `kubewright init` wrote it, and was not edited. Add these lines to it:\n\n"
            f"  {addition.by_hand.statement}\n\n  and to the Manager's controllers: {addition.by_hand.reference}"
        )
