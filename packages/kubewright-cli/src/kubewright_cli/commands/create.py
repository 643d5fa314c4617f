"""`kubewright create`: add kinds, controllers and webhooks to a project."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from kubewright.machinery.errors import ConfigError
from kubewright.models import Object
from kubewright.models._custom import plural_of
from kubewright.webhooks._names import path_error
from kubewright_cli import console
from kubewright_cli.asking import SWITCH, Name, not_here, required
from kubewright_cli.project import Project, load_class
from kubewright_cli.scaffold import plan, webhooks
from kubewright_cli.scaffold.changes import Changes, WouldOverwrite
from kubewright_cli.scaffold.names import group_errors, kind_errors, module_name, plural_errors, version_errors
from kubewright_cli.scaffold.record import Record, Resource, Webhooks, built_in, project_root
from kubewright_cli.scaffold.versions import newness

_GROUPS_OF_KUBERNETES: Final = ("apps", "core")
"""Groups that are more often meant to be those of Kubernetes than to be new ones."""
_THIRD_PARTY: Final = "for a kind of another project, name the module of its class: --external-api-path"


def _path_errors(path: str) -> list[str]:
    return [error] if (error := path_error(path)) else []


@click.group("create")
def command() -> None:
    """Add a kind, a controller or webhooks to this project.

    \b
    Examples:
      kubewright create api --version v1 --kind WebServer
      kubewright create controller --group apps --version v1 --kind Deployment
      kubewright create webhook --kind WebServer --defaulting --programmatic-validation
    """


@command.command("api")
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
def api(
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
        _create_controller(root, record, group or "", version, kind, force=force)
        return
    if group is None:
        group = _group_of(record, kind) or _only_group(record)
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
    _write_with_controller(addition, force=force)
    if others and version not in {each.version for each in others}:
        _explain_versions(added, others, plan.stored(root, others), addition.copied_from)
    _say_next("the types and the controller" if added.controller else "the types")


@command.command("controller")
@click.option(
    "--group",
    default="",
    help="API group. For kinds of this project, without the domain.  [default: that of the kind]",
)
@click.option("--version", type=Name(version_errors), help="Version of the kind.")
@click.option("--kind", type=Name(kind_errors), help="The kind.")
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
    version = required("--version", version, "What version", version_errors)
    kind = required("--kind", kind, "What kind", kind_errors)
    _create_controller(root, record, group, version, kind, force=force)


@command.command("webhook")
@click.option(
    "--group",
    default="",
    help="API group. For kinds of this project, without the domain.  [default: that of the kind]",
)
@click.option(
    "--version",
    type=Name(version_errors),
    help="Version of the kind: that of the reviewed objects, and the hub of a conversion.  [default: the version "
    "that has webhooks, or the stored one; for a conversion, the stored one]",
)
@click.option("--kind", type=Name(kind_errors), help="The kind.")
@click.option("--defaulting", is_flag=True, help="Write a defaulter, which changes objects before they are stored.")
@click.option("--programmatic-validation", is_flag=True, help="Write a validator, which refuses objects.")
@click.option("--conversion", is_flag=True, help="Write a conversion between the versions of the kind.")
@click.option(
    "--spoke",
    "spokes",
    metavar="VERSION,...",
    multiple=True,
    help="With --conversion: a version to convert to and from. May be repeated.  [default: all other versions]",
)
@click.option("--defaulting-path", metavar="PATH", type=Name(_path_errors), help="URL path of the defaulter.")
@click.option("--validation-path", metavar="PATH", type=Name(_path_errors), help="URL path of the validator.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@not_here("--make", "`make manifests` generates files; omit the option")
@not_here("--plural", "the plural is that of the kind; omit the option")
@click.option(
    "--external-api-path",
    "module",
    metavar="MODULE",
    default="",
    help="For a third-party kind: the module of its class, as `kubewright generate models` writes it.",
)
@not_here("--external-api-domain", "the class says which group it has; omit the option")
def webhook_command(
    group: str,
    version: str | None,
    kind: str | None,
    defaulting: bool,
    programmatic_validation: bool,
    conversion: bool,
    spokes: tuple[str, ...],
    defaulting_path: str | None,
    validation_path: str | None,
    module: str,
    force: bool,
) -> None:
    """Add webhooks for an existing kind of this project, of Kubernetes or of another project.

    Writes functions to edit and their tests, and adds them to the Manager, with a certificate. Run it again to add
    others: your edits stay.

    \b
    Examples:
      kubewright create webhook --kind WebServer --defaulting --programmatic-validation
      kubewright create webhook --version v1 --kind WebServer --conversion --spoke v1alpha1
      kubewright create webhook --group core --version v1 --kind Pod --programmatic-validation
      kubewright create webhook --kind Certificate --defaulting --external-api-path my_operator.apis.cert_manager_io_v1
    """
    root = project_root()
    record = Record.load(root)
    kind = required("--kind", kind, "What kind", kind_errors)
    if not (defaulting or programmatic_validation or conversion):
        raise click.UsageError("nothing to write; pass --defaulting, --programmatic-validation or --conversion")
    _refuse_alone("--spoke", spokes, "--conversion", conversion)
    _refuse_alone("--defaulting-path", defaulting_path, "--defaulting", defaulting)
    _refuse_alone("--validation-path", validation_path, "--programmatic-validation", programmatic_validation)
    if module:
        resource = _third_party(record, group, version, load_class(root, module, kind), module)
    else:
        resource = _reviewed(root, record, group, version, kind, conversion=conversion)
    others = [each for each in record.versions_of(resource.group, kind) if each.api and each != resource]
    asked = Webhooks(
        defaulting,
        programmatic_validation,
        _spokes(resource, others, spokes) if conversion else (),
        defaulting_path or "",
        validation_path or "",
    )
    if not force:
        _refuse_existing(record, [resource, *others], resource, asked)
    _create_webhooks(root, record, resource, asked, force=force)


def _refuse_alone(option: str, given: object, needed: str, has_needed: bool) -> None:
    """Raise UsageError for an option that means nothing without another one."""
    if given and not has_needed:
        raise click.UsageError(f"{option} needs {needed}")


def _create_webhooks(root: Path, record: Record, resource: Resource, asked: Webhooks, *, force: bool) -> None:
    kinds = Project.load(root).kinds if asked.spokes else _declared_elsewhere(root, resource)
    addition = webhooks.webhook(root, record, resource, asked, kinds, force=force)
    _write(addition.changes, addition.by_hand, force=force)
    if addition.missing:
        place = webhooks.module_file(record, resource, "conversion")
        console.warn(
            f"write the conversion of these fields in {place}, which the other version lacks or has with another "
            f"type: {'; '.join(addition.missing)}. Until then, type checkers report the calls that lack them"
        )
    _say_next("the functions and their tests")


def _create_controller(root: Path, record: Record, group: str, version: str, kind: str, *, force: bool) -> None:
    resource = _known(record, group, version, kind)
    holders = [each for each in record.versions_of(resource.group, kind) if each.controller]
    if holders and not (force and resource in holders):
        raise ConfigError(f"{kind} already has a controller, for {holders[0].api_version}; a kind has one controller")
    _write_with_controller(plan.controller(root, record, resource), force=force)
    _say_next("the controller and its test")


def _reviewed(root: Path, record: Record, group: str, version: str | None, kind: str, *, conversion: bool) -> Resource:
    """Return the version of a kind that webhooks are added for: by default the one that has some, or is stored. A
    conversion is added for the one that is its hub, or is stored.
    """
    group = group or _group_of(record, kind)
    versions = [each for each in record.versions_of(group, kind) if each.api]
    if not versions:
        return _known(record, group, version or "v1", kind, f"; {_THIRD_PARTY}")
    named = {each.version: each for each in versions}
    if version is None:
        having = [each for each in versions if (each.webhooks.spokes if conversion else each.webhooks != Webhooks())]
        return (having or [plan.stored(root, versions)])[0]
    if version not in named:
        raise ConfigError(
            f"{kind} has the versions {', '.join(named)}, not {version}; `kubewright create api --version {version} "
            f"--kind {kind}` adds it"
        )
    return named[version]


def _third_party(record: Record, group: str, version: str | None, found: type[Object], module: str) -> Resource:
    """Return the kind of a class that the project can import, as the options name it. Raises ConfigError."""
    api = found.__api__
    if (group or api.group, version or api.version) != (api.group, api.version):
        named = f"{group or api.group}/{version or api.version}"
        raise ConfigError(
            f"{module}.{api.kind} is a class of {api.api_version}, not {named}; omit --group and --version"
        )
    known = [each for each in record.resources if (each.api_version, each.kind) == (api.api_version, api.kind)]
    if known and known[0].api:
        raise ConfigError(f"{api.kind} of {api.api_version} is a kind of this project; omit --external-api-path")
    made = Resource(api.group, "", api.version, api.kind, module, api=False, namespaced=api.namespaced, external=True)
    return known[0] if known else made


def _declared_elsewhere(root: Path, resource: Resource) -> Sequence[type[Object]]:
    """Return the class of a kind of Kubernetes or of another project."""
    if resource.external:
        return [load_class(root, resource.path, resource.kind)]
    found = None if resource.api else built_in(resource.group, resource.version, resource.kind)
    return [] if found is None else [found]


def _spokes(hub: Resource, others: list[Resource], given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the versions that are converted to and from the hub."""
    if not hub.api:
        owner = "another project" if hub.external else "Kubernetes"
        raise click.UsageError(f"--conversion: {hub.kind} is a kind of {owner}, which converts it itself; omit it")
    if not others:
        raise ConfigError(
            f"{hub.kind} has one version, {hub.version}, and needs no conversion; `kubewright create api "
            f"{_group_option(hub)}--version <another> --kind {hub.kind}` adds another version"
        )
    known = [each.version for each in others]
    named = [version for each in given for version in each.split(",")] or known
    for version in named:
        if version == hub.version:
            raise click.UsageError(
                f"--spoke {version}: this is the hub; name another version: {', '.join(known)}, or make one of them "
                f"the hub of a new conversion with --version"
            )
        if version not in known:
            raise ConfigError(
                f"--spoke {version}: {hub.kind} has the versions {', '.join([hub.version, *known])}; `kubewright "
                f"create api {_group_option(hub)}--version {version} --kind {hub.kind}` adds another version"
            )
    return tuple(dict.fromkeys(named))


def _refuse_existing(record: Record, versions: list[Resource], resource: Resource, asked: Webhooks) -> None:
    """Raise ConfigError for webhooks that a version of the kind has already."""
    for each in versions:
        place = webhooks.module_file(record, each, each.version)
        for what, is_asked, exists in (
            ("defaulter", asked.defaulting, each.webhooks.defaulting),
            ("validator", asked.validation, each.webhooks.validation),
        ):
            if is_asked and exists:
                way_out = (
                    "edit it, or overwrite the file with --force"
                    if each == resource
                    else "the API server converts objects of other versions for it"
                )
                raise ConfigError(f"{each.kind} already has a {what} for {each.version}, in {place}; {way_out}")
        if asked.spokes and each.webhooks.spokes:
            place = webhooks.module_file(record, each, "conversion")
            if each != resource:
                raise ConfigError(
                    f"{each.kind} already has a conversion, with {each.version} as its hub, in {place}; omit --version "
                    "to extend it"
                )
            if set(asked.spokes) <= set(each.webhooks.spokes):
                raise ConfigError(
                    f"{each.kind} already has a conversion of all these versions, in {place}; edit it, or "
                    "overwrite the file with --force"
                )


def _group_option(resource: Resource) -> str:
    return f"--group {resource.group} " if resource.group else ""


def _known(record: Record, group: str, version: str, kind: str, other_way: str = "") -> Resource:
    """Return a kind that PROJECT lists or Kubernetes has. As in kubebuilder, `core` is the group without a name.

    Raises ConfigError, which ends with `other_way`, if there is no such kind.
    """
    group = group or _group_of(record, kind)
    for each in record.versions_of(group, kind):
        if each.version == version:
            return each
    found = built_in(group, version, kind)
    group = group or "core"
    if found is None:
        raise ConfigError(
            f"neither this project nor Kubernetes has {kind} in {group}/{version}; `kubewright create api` adds it to "
            f"this project{other_way}"
        )
    return Resource(group, "", version, kind, found.__module__, api=False, namespaced=found.__api__.namespaced)


def _group_of(record: Record, kind: str) -> str:
    """Return the group of a kind of this project; empty if the project has none, or several in different groups."""
    groups = {each.group for each in record.resources if each.api and each.kind == kind}
    return groups.pop() if len(groups) == 1 else ""


def _only_group(record: Record) -> str:
    """Return the group of all kinds of a project with one group."""
    groups = {each.group for each in record.resources if each.api}
    return groups.pop() if len(groups) == 1 and not record.multigroup else ""


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


def _explain_versions(added: Resource, others: list[Resource], stored: Resource, copied_from: str) -> None:
    """Say what versions with different fields need, and how another version becomes the stored one."""
    if not copied_from:
        newest = max((each.version for each in others), key=newness)
        console.warn(f"the types of {newest} could not be copied: {added.version} has an example field instead")
    converted = any(each.webhooks.spokes for each in others)
    spoke, hub = (
        (f" --spoke {added.version}", "") if converted else ("", " Its hub is the version that is stored then.")
    )
    command = f"kubewright create webhook {_group_option(added)}--kind {added.kind} --conversion{spoke}"
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
    if newness(added.version) > newness(stored.version):
        console.note(
            f'\nTo warn clients of {stored.version}, add deprecated="{added.kind} in {stored.version} is deprecated; '
            f'use {added.version}" to its class.'
        )


def _plural(given: str | None, kind: str, others: list[Resource]) -> str:
    """Return the plural for the record: empty if it is regular."""
    if given is None and others:
        return others[0].plural
    return "" if given in (None, plural_of(kind.lower())) else str(given)


def _check_group(record: Record, group: str) -> None:
    for error in group_errors(group, record.domain):
        raise click.BadParameter(f'"{group}" {error}', param_hint="'--group'")


def _write_with_controller(addition: plan.Addition, *, force: bool) -> None:
    by_hand = addition.by_hand
    left = by_hand and (
        "main.py has changed since `kubewright init` wrote it, and was not edited. Add these lines to it:\n\n"
        f"  {by_hand.statement}\n\n  and to the Manager's controllers: {by_hand.reference()}"
    )
    _write(addition.changes, (left,) if left else (), force=force)


def _write(changes: Changes, by_hand: Sequence[str], *, force: bool) -> None:
    """Write files, and say what is left to their author."""
    written = changes.paths
    try:
        changes.write(overwrite=force)
    except WouldOverwrite as error:
        console.note(error.difference)
        raise ConfigError(f"{error}; --force overwrites it") from error
    for path in written:
        console.say(f"wrote {path}")
    for each in by_hand:
        console.warn(each)
