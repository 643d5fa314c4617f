"""`kubewright create api`: add a kind, or another version of a kind."""

from __future__ import annotations

from typing import Final

import click

from kubewright.machinery.gvk import version_order
from kubewright.models._custom import plural_of
from kubewright_cli import console
from kubewright_cli.asking import SWITCH, Name, not_here, required
from kubewright_cli.commands.create.controller import create_controller
from kubewright_cli.commands.create.writing import say_next, write_with_controller
from kubewright_cli.scaffold import plan
from kubewright_cli.scaffold.kinds import group_of, group_option, only_group
from kubewright_cli.scaffold.names import group_errors, kind_errors, module_name, plural_errors, version_errors
from kubewright_cli.scaffold.record import Record, Resource, Webhooks, built_in, project_root

_GROUPS_OF_KUBERNETES: Final = ("apps", "core")
"""Groups that are more often meant to be those of Kubernetes than to be new ones."""


@click.command("api")
@click.option(
    "--group",
    help="API group, without the domain.  [default: that of the project's kinds, or the domain itself]",
)
@click.option("--version", type=Name(version_errors), help="Version of the kind: v1, v1beta1, ...")
@click.option("--kind", type=Name(kind_errors), help="The kind, in CamelCase.")
@click.option("--plural", type=Name(plural_errors), default=None, help="The plural of the kind, if it is irregular.")
@click.option("--namespaced", help="Objects belong to namespaces.  [default: true, or as in other versions]", **SWITCH)
@click.option("--resource", default=True, help="Write the types.  [default: true]", **SWITCH)
@click.option(
    "--controller", help="Write a controller.  [default: true, unless another version of the kind has one]", **SWITCH
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@not_here("--make", "`make manifests` generates files; omit the option")
@not_here("--plugins", "there is only one layout; omit the option")
def command(
    group: str | None,
    version: str | None,
    kind: str | None,
    plural: str | None,
    namespaced: bool | None,
    resource: bool,
    controller: bool | None,
    force: bool,
) -> None:
    """Add a kind, or another version of a kind: types, a controller and a test.

    The types of another version start as a copy of the newest version. It is not the version that objects are stored
    in. If you change its fields, add a conversion: `kubewright create webhook --conversion`.

    \b
    Examples:
      kubewright create api --version v1 --kind WebServer
      kubewright create api --group ship --version v1beta1 --kind Frigate --controller=false
      kubewright create api --group ship --version v1 --kind Fleet --namespaced=false
    """
    root = project_root()
    record = Record.load(root)
    version = required("--version", version, "What version (v1, v1alpha1, ...)", version_errors)
    kind = required("--kind", kind, "What kind (in CamelCase, like WebServer)", kind_errors)
    if not resource:
        if controller is False:
            raise click.UsageError("--resource=false and --controller=false leave nothing to create")
        create_controller(root, record, group or "", version, kind, force=force)
        return
    if group is None:
        group = group_of(record, kind) or only_group(record)
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
        webhooks=next((each.webhooks for each in others if each.version == version), Webhooks()),
    )
    _warn_about_built_in(added)
    record.refuse_clash(added, again=force)
    addition = plan.api(root, record, added)
    write_with_controller(addition, force=force)
    if others and version not in {each.version for each in others}:
        _explain_versions(added, others, plan.stored(root, others), addition.copied_from)
    say_next("the types and the controller" if added.controller else "the types")


def _explain_versions(added: Resource, others: list[Resource], stored: Resource, copied_from: str) -> None:
    """Say what versions with different fields need, and how another version becomes the stored one."""
    if not copied_from:
        newest = min((each.version for each in others), key=version_order)
        console.warn(f"the types of {newest} could not be copied: {added.version} has an example field instead")
    converted = any(each.webhooks.spokes for each in others)
    spoke, hub = (
        (f" --spoke {added.version}", "") if converted else ("", " Its hub is the version that is stored then.")
    )
    command = f"kubewright create webhook {group_option(added)}--kind {added.kind} --conversion{spoke}"
    versions = ", ".join(each.version for each in others)
    copied = f" The types of {added.version} are a copy of {copied_from}." if copied_from else ""
    console.note(
        f"\n{added.kind} now has the versions {versions} and {added.version}.{copied} Objects are stored in "
        f"{stored.version}.\n\n"
        f"To store objects in {added.version}, make two edits: remove storage=False from the class {added.kind} in "
        f"{plan.source(added.path)}, and add storage=False to the class {added.kind} in {plan.source(stored.path)}. "
        "After the next deploy, run `kubewright migrate` in each cluster.\n\n"
        "With the same fields in all versions, nothing else is needed. When the fields differ, `kubewright generate` "
        f"requires a conversion. First edit the types, then write it.{hub}\n\n"
        f"  {command}"
    )
    if version_order(added.version) < version_order(stored.version):
        console.note(
            f'\nTo warn clients of {stored.version}, add deprecated="{added.kind} in {stored.version} is deprecated; '
            f'use {added.version}" to its class.'
        )


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


def _plural(given: str | None, kind: str, others: list[Resource]) -> str:
    """Return the plural for the record: empty if it is regular."""
    if given is None and others:
        return others[0].plural
    return "" if given in (None, plural_of(kind.lower())) else str(given)


def _check_group(record: Record, group: str) -> None:
    for error in group_errors(group, record.domain):
        raise click.BadParameter(f'"{group}" {error}', param_hint="'--group'")
