"""The kinds and versions that the options of `kubewright create` name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kubewright.machinery.errors import ConfigError
from kubewright.models import Object
from kubewright_cli.scaffold import plan, webhooks
from kubewright_cli.scaffold.record import Record, Resource, Webhooks, built_in

_EXTERNAL: Final = "for a kind of another project, name the module of its class: --external-api-path"


def known_kind(record: Record, group: str, version: str, kind: str, other_way: str = "") -> Resource:
    """Return a kind that PROJECT lists or Kubernetes has. As in kubebuilder, `core` is the group without a name.

    Raises ConfigError, which ends with `other_way`, if there is no such kind.
    """
    group = group or group_of(record, kind)
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


def reviewed_version(
    root: Path, record: Record, group: str, version: str | None, kind: str, *, conversion: bool
) -> Resource:
    """Return the version of a kind that webhooks are added for: by default the one that has some, or is stored. A
    conversion is added for the one that is its hub, or is stored.
    """
    group = group or group_of(record, kind)
    versions = [each for each in record.versions_of(group, kind) if each.api]
    if not versions:
        return known_kind(record, group, version or "v1", kind, f"; {_EXTERNAL}")
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


def third_party_kind(record: Record, group: str, version: str | None, found: type[Object], module: str) -> Resource:
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


def spokes_of(hub: Resource, others: list[Resource], given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the versions that are converted to and from the hub."""
    if not hub.api:
        owner = "another project" if hub.external else "Kubernetes"
        raise ConfigError(f"--conversion: {hub.kind} is a kind of {owner}, which converts it itself; omit it")
    if not others:
        raise ConfigError(
            f"{hub.kind} has one version, {hub.version}, and needs no conversion; `kubewright create api "
            f"{group_option(hub)}--version <another> --kind {hub.kind}` adds another version"
        )
    known = [each.version for each in others]
    named = [version for each in given for version in each.split(",")] or known
    for version in named:
        if version == hub.version:
            raise ConfigError(
                f"--spoke {version}: this is the hub; name another version: {', '.join(known)}, or make one of them "
                f"the hub of a new conversion with --version"
            )
        if version not in known:
            raise ConfigError(
                f"--spoke {version}: {hub.kind} has the versions {', '.join([hub.version, *known])}; `kubewright "
                f"create api {group_option(hub)}--version {version} --kind {hub.kind}` adds another version"
            )
    return tuple(dict.fromkeys(named))


def refuse_existing(record: Record, versions: list[Resource], resource: Resource, asked: Webhooks) -> None:
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


def group_of(record: Record, kind: str) -> str:
    """Return the group of a kind of this project; empty if the project has none, or several in different groups."""
    groups = {each.group for each in record.resources if each.api and each.kind == kind}
    return groups.pop() if len(groups) == 1 else ""


def only_group(record: Record) -> str:
    """Return the group of all kinds of a project with one group."""
    groups = {each.group for each in record.resources if each.api}
    return groups.pop() if len(groups) == 1 and not record.multigroup else ""


def group_option(resource: Resource) -> str:
    """Return the option `--group` that names the group of a kind in a command; empty if it has none."""
    return f"--group {resource.group} " if resource.group else ""
