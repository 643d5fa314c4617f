"""PROJECT: the scaffolded kinds, in kubebuilder's format (https://book.kubebuilder.io/reference/project-config).

`create` uses the record to add to the project without overwriting it. Settings are in pyproject.toml.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.json import JSONObject
from kubewright.models import Object
from kubewright.models._custom import plural_of
from kubewright_cli.scaffold.names import module_name, qualified_group

FILE: Final = "PROJECT"
_LAYOUT: Final = "kubewright/v1"
_HEADER: Final = (
    "# Written by `kubewright init` and `kubewright create`. Do not edit: settings are in pyproject.toml.\n"
)


class _API(msgspec.Struct):
    namespaced: bool = False


class _WebhooksInFile(msgspec.Struct, rename="camel"):
    conversion: bool = False
    defaulting: bool = False
    validation: bool = False
    spoke: list[str] = []
    defaulting_path: str = ""
    validation_path: str = ""


class _ResourceInFile(msgspec.Struct):
    """A resource in PROJECT."""

    version: str
    kind: str
    path: str
    group: str = ""
    domain: str = ""
    api: _API | None = None
    controller: bool = False
    external: bool = False
    plural: str = ""
    webhooks: _WebhooksInFile | None = None


class _File(msgspec.Struct, rename="camel"):
    """The fields of PROJECT that are read."""

    project_name: str
    domain: str
    repo: str
    multigroup: bool = False
    namespaced: bool = False
    resources: list[_ResourceInFile] = []


def project_root() -> Path:
    """Return the current folder, or the nearest above it, with a record. Raises ConfigError."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / FILE).is_file():
            return folder
    raise ConfigError(f"there is no {FILE} in {here} or above it; `kubewright init` creates a project")


@dataclass(frozen=True, slots=True)
class Webhooks:
    """The webhooks that were scaffolded for one version of a kind."""

    defaulting: bool = False
    validation: bool = False
    spokes: tuple[str, ...] = ()
    """The versions that this version, the hub, is converted to and from; none without a conversion."""
    defaulting_path: str = ""
    """Empty for the usual path."""
    validation_path: str = ""

    @property
    def admission(self) -> bool:
        """Whether there is a defaulter or a validator."""
        return self.defaulting or self.validation

    def document(self) -> JSONObject:
        content: JSONObject = {
            "conversion": bool(self.spokes),
            "defaulting": self.defaulting,
            "defaultingPath": self.defaulting_path,
            "spoke": list(self.spokes),
            "validation": self.validation,
            "validationPath": self.validation_path,
        }
        given = {key: value for key, value in content.items() if value}
        return given and given | {"webhookVersion": "v1"}

    @classmethod
    def of(cls, file: _WebhooksInFile | None) -> Webhooks:
        if file is None:
            return cls()
        return cls(file.defaulting, file.validation, tuple(file.spoke), file.defaulting_path, file.validation_path)


@dataclass(frozen=True, slots=True)
class Resource:
    """One version of a kind that the project declares or reconciles."""

    group: str
    """The group without the domain."""
    domain: str
    version: str
    kind: str
    path: str
    """The module of the class: `fleet.api.v1.frigate`."""
    api: bool = True
    """Whether the project declares the kind."""
    controller: bool = False
    namespaced: bool = True
    plural: str = ""
    """In lower case; empty if it is the regular plural."""
    webhooks: Webhooks = Webhooks()
    external: bool = False
    """Whether the kind is a third-party kind: neither of the project nor of Kubernetes."""

    @property
    def api_group(self) -> str:
        return qualified_group(self.group, self.domain)

    @property
    def api_version(self) -> str:
        return f"{self.api_group}/{self.version}" if self.api_group else self.version

    @property
    def resource(self) -> str:
        """The plural in URLs: `frigates`."""
        return self.plural or plural_of(self.kind.lower())

    @property
    def module(self) -> str:
        """The last part of module names."""
        return module_name(self.kind)

    @property
    def is_cluster_scoped(self) -> bool:
        """Whether objects of the kind belong to no namespace."""
        if self.api:
            return not self.namespaced
        found = built_in(self.group, self.version, self.kind)
        return found is not None and not found.__api__.namespaced

    def document(self) -> JSONObject:
        content: JSONObject = {"group": self.group, "kind": self.kind, "path": self.path, "version": self.version}
        if self.api:
            scope: JSONObject = {"namespaced": True} if self.namespaced else {}
            content |= {"api": {"crdVersion": "v1"} | scope, "domain": self.domain, "plural": self.plural}
        else:
            content["external" if self.external else "core"] = True
        if self.controller:
            content["controller"] = True
        if webhooks := self.webhooks.document():
            content["webhooks"] = webhooks
        return {key: value for key, value in content.items() if value != ""}

    @classmethod
    def of(cls, file: _ResourceInFile) -> Resource:
        return cls(
            group=file.group,
            domain=file.domain,
            version=file.version,
            kind=file.kind,
            path=file.path,
            api=file.api is not None,
            controller=file.controller,
            namespaced=file.api is None or file.api.namespaced,
            plural=file.plural,
            webhooks=Webhooks.of(file.webhooks),
            external=file.external,
        )


@dataclass(frozen=True, slots=True)
class Record:
    """The content of PROJECT."""

    name: str
    domain: str
    package: str
    multigroup: bool = False
    namespaced: bool = False
    resources: tuple[Resource, ...] = ()

    @classmethod
    def load(cls, root: Path) -> Record:
        """Load the record of the project in `root`. Raises ConfigError if it is unreadable or has another layout."""
        path = root / FILE
        try:
            document = yaml.load(path.read_text())
        except (OSError, UnicodeDecodeError, DecodeError) as error:
            raise ConfigError(f"{path}: {error}") from error
        if document.get("layout") != [_LAYOUT]:
            raise ConfigError(f"{path}: layout is {document.get('layout')}, expected {_LAYOUT}")
        try:
            file = msgspec.convert(document, _File)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{path} is not a record of `kubewright init` and `create`: {error}") from error
        resources = tuple(map(Resource.of, file.resources))
        return cls(file.project_name, file.domain, file.repo, file.multigroup, file.namespaced, resources)

    def text(self) -> str:
        """Return the content of the file."""
        document: JSONObject = {
            "cliVersion": version("kubewright"),
            "domain": self.domain,
            "layout": [_LAYOUT],
            "projectName": self.name,
            "repo": self.package,
            "version": "3",
        }
        if self.multigroup:
            document["multigroup"] = True
        if self.namespaced:
            document["namespaced"] = True
        if self.resources:
            document["resources"] = [each.document() for each in self.resources]
        return _HEADER + yaml.dump(document)

    def versions_of(self, group: str, kind: str) -> list[Resource]:
        """Return the versions of a kind, in the order of creation."""
        return [each for each in self.resources if (each.group, each.kind) == (group, kind)]

    def having(self, resource: Resource) -> Record:
        """Return the record with `resource`: in place of the same version, or at the end."""
        key = (resource.group, resource.version, resource.kind)
        kept = [resource if (each.group, each.version, each.kind) == key else each for each in self.resources]
        return replace(self, resources=tuple(kept) if resource in kept else (*kept, resource))

    def refuse_clash(self, resource: Resource, *, again: bool) -> None:
        """Raise ConfigError if a kind clashes with another. With `again`, the same version may exist."""
        others = self.versions_of(resource.group, resource.kind)
        shown = f"{resource.kind} of {resource.api_version}"
        if any(each.version == resource.version for each in others) and not again:
            raise ConfigError(f"{shown} already exists in this project; --force overwrites its files")
        for each in others:
            if (each.namespaced, each.resource) != (resource.namespaced, resource.resource):
                raise ConfigError(
                    f"{resource.kind} is {_as_served(each)} in {each.version}, and cannot be {_as_served(resource)} in "
                    f"{resource.version}: scope and plural are the same in all versions"
                )
            if each.controller and resource.controller and each.version != resource.version:
                raise ConfigError(
                    f"{resource.kind} already has a controller, for {each.version}; a kind has one controller"
                )
        for each in self.resources:
            if each.api and (each.group, each.resource) == (resource.group, resource.resource) and each not in others:
                raise ConfigError(
                    f'{each.kind} in {each.api_group} has the plural "{each.resource}"; choose another with --plural'
                )
            shorter, longer = sorted((each.kind, resource.kind), key=len)
            if each.api and each.group == resource.group and longer == f"{shorter}List":
                raise ConfigError(f'"{longer}" is the list kind of {shorter}; choose another --kind')
        groups = {each.group for each in self.resources if each.api} - {resource.group}
        if groups and not self.multigroup:
            raise ConfigError(
                f"the kinds of this project are in the group {qualified_group(groups.pop(), self.domain)}; to add "
                "another group, first run `kubewright edit --multigroup`"
            )


def built_in(group: str, version: str, kind: str) -> type[Object] | None:
    """Return the kind of Kubernetes, if there is one. As in kubebuilder, `core` is the group without a name."""
    try:
        module = importlib.import_module(f"kubewright.apis.{(group or 'core').partition('.')[0]}.{version}")
    except ModuleNotFoundError:
        return None
    found = getattr(module, kind, None)
    return found if isinstance(found, type) and issubclass(found, Object) else None


def _as_served(resource: Resource) -> str:
    return f"{'namespaced' if resource.namespaced else 'cluster-wide'} {resource.resource}"
