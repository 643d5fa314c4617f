"""The model of the server: resources, the strategies of their kinds, subresources, and a write in progress.

A `Resource` is the same thing for a built-in kind and for a custom one. Only the source of its facts differs: the
catalog, or a CustomResourceDefinition. A `Strategy` is what a kind does beyond its schema. A `Subresource` is what
stands below one object in the URL. `Attributes` describe one write to strategies, subresources and admission.

Follows k8s.io/apiserver/pkg/registry/rest (strategies, subresources) and pkg/admission (attributes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Literal, Protocol, TypeAlias

from kubewright.http.message import Request, Response
from kubewright.machinery import names
from kubewright.machinery.fields import FieldError
from kubewright.machinery.gvk import GroupVersion, GroupVersionKind, GroupVersionResource
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.catalog.facts import Column
from kubewright_controlplane.apiserver.user import LOOPBACK, UserInfo
from kubewright_controlplane.schema.lazy import lazy
from kubewright_controlplane.schema.ownership.fieldset import FieldSet
from kubewright_controlplane.schema.structural.schema import Schema

ALL_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""Verbs, in the order in which discovery lists them for custom resources."""

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
"""What a request does to an object, as admission sees it."""

Convert: TypeAlias = Callable[[JSONObject], JSONObject]
"""Converts an object from one version to another. The result may share parts with the argument."""

Cells: TypeAlias = Callable[[JSONObject, datetime], list[object]]
"""Returns the cells of one object's row, one for each column. Ages are computed relative to the time."""

VersionedPlural: TypeAlias = tuple[str, str]
"""Version and plural name of a resource within its group."""

_NO_SELECTABLE_VALUES: Final[Mapping[str, str]] = {}
_NO_FIELDS: Final = FieldSet.of_paths()
_STATUS_FIELDS: Final = FieldSet.of_paths("status")
_SPEC_FIELDS: Final = FieldSet.of_paths("spec")


@dataclass(slots=True)
class Attributes:
    """One write on its way: passed to strategies, admission plugins and subresources alike.

    `object` is the document that will be stored; plugins and strategies change it in place. `old_object` is the
    stored document and must not be changed. For DELETE `object` is None, for CREATE `old_object` is None.
    """

    operation: Operation
    resource: Resource
    namespace: str
    name: str
    """Empty for a create with generateName until the object is validated."""
    object: JSONObject | None = None
    old_object: JSONObject | None = None
    subresource: str = ""
    user: UserInfo = LOOPBACK
    dry_run: bool = False
    options: JSONObject = field(default_factory=dict[str, Any])
    """CreateOptions, UpdateOptions, PatchOptions or DeleteOptions as the client sent them."""
    warnings: list[str] = field(default_factory=list[str])
    """Sent to the client as Warning headers."""
    in_collection: bool = False
    """One of many deletes of a deletecollection. Webhooks and policies see no name."""


class Review(Protocol):
    """The webhooks that one write may concern. Both methods raise an APIError to reject the write."""

    async def admit(self) -> None:
        """Let the mutating webhooks change or replace the object of the write, in order."""
        ...

    async def validate(self) -> None:
        """Let the validating webhooks check the final object."""
        ...


class Admission(Protocol):
    """The interface of admission. `admit` and `validate` are synchronous and raise an APIError to reject a write."""

    def review(self, attributes: Attributes) -> Review | None:
        """Return the webhooks that the write may concern; None, at no cost, if there are none.

        Requests of clients wait for webhooks between the two methods below and after them. Writes that the server
        makes for itself are not reviewed.
        """
        ...

    def admit(self, attributes: Attributes) -> None:
        """Let the plugins change `attributes.object`."""
        ...

    def validate(self, attributes: Attributes) -> None:
        """Let the plugins reject the final object."""
        ...


@dataclass(frozen=True)
class Subresource:
    """Base of `View`, `Action` and `Connection`. `kind` None means the resource's own kind."""

    kind: GroupVersionKind | None = None
    verbs: tuple[str, ...] = ()


@dataclass(frozen=True)
class View(Subresource):
    """Reads and writes a part or another form of the object: status, scale, approval, finalize.

    A write through a view updates the stored object, with managedFields, conflicts and events like any other update.
    """

    verbs: tuple[str, ...] = ("get", "patch", "update")

    def read(self, obj: JSONObject) -> JSONObject:
        """Return what the view shows of the object, by default all of it. The result may share parts with `obj`."""
        return obj

    def write(self, view: JSONObject, old: JSONObject, attributes: Attributes) -> JSONObject:
        """Return the object to store when `view` replaces what the view shows of `old`.

        The result may share parts with both arguments but must not change `old`. Its metadata must be a new dict.
        """
        return view

    def validate(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return []


@dataclass(frozen=True)
class Action(Subresource):
    """A POST that does something and answers with a document: binding, eviction, token."""

    verbs: tuple[str, ...] = ("create",)
    only_reads: bool = False
    """It changes nothing that others see, so it may run on the worker."""

    def create(self, body: JSONObject, attributes: Attributes) -> JSONObject:
        """Run the action and return the answer. Raises APIErrors to reject the request.

        `attributes.name` and `attributes.namespace` are those of the parent object. `body` is decoded and has the
        right `kind`. The answer is sent with code 201; a Status is sent with its own code.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Connection(Subresource):
    """Handles the whole request and returns the whole response: log, exec, proxy."""

    verbs: tuple[str, ...] = ("get",)
    is_admitted: bool = True
    """Admission sees the request, as operation CONNECT. It does not see a request that only reads, such as log."""
    methods: tuple[str, ...] = ()
    """HTTP methods that have no verb, and are accepted as well."""

    def options(self, query: Mapping[str, Sequence[str]]) -> JSONObject:
        """Return the fields of the connection's options, for admission."""
        return {}

    async def connect(self, request: Request, attributes: Attributes) -> Response:
        raise NotImplementedError


RESET_BY_STATUS: Final = ("deletionTimestamp", "labels", "annotations", "finalizers", "ownerReferences")
"""The fields of the metadata that newer kinds protect from writes of the status."""


class Strategy:
    """The behavior of a kind beyond its schema. Subclasses override what differs from a plain custom resource.

    Each API group has a module `kinds/<group>.py`, named after its Go package (`core`, `apps`, `rbac`). It holds the
    strategies of its kinds and a function `strategies(server: ServerParts) -> Mapping[str, Strategy]`, by plural.

    All methods run synchronously inside a write. Those of a large write run on the worker, so they change only the
    object. A strategy reads other objects from the ResourceSet. State that it keeps, such as addresses in use,
    follows observed commits, so a failed write has nothing to release.
    """

    allow_create_on_update: bool = False
    """PUT of an object that does not exist creates it."""
    allow_unconditional_update: bool = True
    """PUT without a resourceVersion overwrites. Custom resources and some built-in kinds reject it."""
    delete_answers_object: bool = False
    """DELETE that removes the object immediately answers with the object, not with a Status."""
    has_generation: bool = True
    """metadata.generation rises when anything outside metadata and status changes. False: it has none."""
    metadata_without_status: tuple[str, ...] = ()
    """Fields of the metadata that a write of the status never changes."""
    default_grace_seconds: int | None = None
    """Grace period of a delete that does not specify one. None: the kind is always deleted immediately."""
    deprecation_warning: str = ""
    """Sent with every answer of a deprecated kind."""
    records_grace: bool = True
    """A delete that only marks the object records its grace period and raises the generation. Few kinds do not."""
    selectable_fields: tuple[str, ...] = ()
    """The kind's own field selectors; `fields` returns their values."""
    unselectable: str = ""
    """The words in which this kind refuses a field selector, with `{}` for the field. Empty: those of most kinds."""
    stored_field_names: Mapping[str, str] = {}
    """The stored names of selectable fields that have other names in this version."""
    resets_status_on_create: bool = True
    """Status in a create is dropped, if the kind has a status subresource."""

    @property
    def subresources(self) -> Mapping[str, Subresource]:
        """The kind's own subresources, by name. `status` and `scale` are generic and not listed here."""
        return {}

    @property
    def action(self) -> Action | None:
        """The action of a create, for kinds that are never stored (reviews). None for all others."""
        return None

    def default(self, obj: JSONObject) -> None:
        """Set defaults that the schema cannot express. Called after the schema's, on each write; must be idempotent."""

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        """Normalize before validation: drop fields that a user may not set, and allocate values that the server
        assigns.
        """

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        """Normalize an update. `status` and `metadata` are already final."""

    def prepare_for_status_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        """Normalize an update through `status`. `spec` is already reset to the old one; change `status` only."""

    def validate(self, obj: JSONObject) -> list[FieldError]:
        """Return the errors that the schema does not find, on create and on update.

        For a built-in kind the schema finds only wrong types and values outside an enumeration. Required fields of
        such a kind are checked here.
        """
        return []

    def validate_create(self, obj: JSONObject) -> list[FieldError]:
        """Return the errors that only a new object can have. Called after `validate`."""
        return []

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        """Return the errors of the change itself, such as immutable fields. Called after `validate`."""
        return []

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return []

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        """Return warnings for the client of an accepted write."""
        return []

    def is_taken(self, obj: JSONObject) -> bool:
        """Return whether another object has what `prepare_for_create` or `prepare_for_update` allocated.

        Called right before the commit, because a write may wait between the two. It then begins again.
        """
        return False

    def before_delete(self, obj: JSONObject, attributes: Attributes) -> None:
        """Raise to reject a delete, or change `obj`, which is stored if it remains with a deletionTimestamp."""

    def grace_seconds(self, obj: JSONObject, asked: int | None) -> int:
        """Return the grace period of this object's delete; 0 for kinds without `default_grace_seconds`."""
        if self.default_grace_seconds is None:
            return 0
        return self.default_grace_seconds if asked is None else asked

    def keeps_deleted(self, obj: JSONObject) -> bool:
        """Return whether an object being deleted stays although it has no finalizers (a Namespace with content)."""
        return False

    def name_errors(self, name: str) -> list[str]:
        """Return the errors of a name of this kind."""
        return names.dns1123_subdomain(name)

    def fields(self, obj: JSONObject) -> Mapping[str, str]:
        """Return the values of the kind's selectable fields. They are stored with the object."""
        return _NO_SELECTABLE_VALUES


@dataclass(frozen=True, slots=True)
class Conversion:
    """The conversion between a served version of a kind and the stored version. The fields are those of `Resource`.

    The module of a group with several served forms of one kind lists them in `CONVERSIONS`, by version and plural.
    """

    storage: str
    storage_api_version: str
    to_storage: Convert
    from_storage: Convert


class Converter(Protocol):
    """Converts the objects of one kind between its versions, by asking a webhook."""

    async def convert(self, objects: Sequence[JSONObject], api_version: str) -> list[JSONObject]:
        """Return the objects in another version, in order. Raises InternalError."""
        ...

    def in_version(self, obj: JSONObject, api_version: str) -> tuple[JSONObject, Schema] | None:
        """Return an object in another version, and its schema; None if the version no longer exists.

        For steps that `conversions.settle` runs.
        """
        ...


@dataclass(frozen=True)
class Printer:
    """The output of `kubectl get` for a kind: its columns, and the row of an object."""

    columns: tuple[Column, ...]
    cells: Cells


@dataclass(frozen=True, eq=False)
class Resource:
    """One resource in one version.

    Immutable except for the schema, which is compiled on first use. A changed CRD installs a new Resource. Any thread
    may use it.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    load_schema: Callable[[], Schema]
    """Called once, for the first object that needs the schema. Most kinds of most servers never do."""
    strategy: Strategy = field(default_factory=Strategy)
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, Subresource] = field(default_factory=dict[str, Subresource])
    has_status: bool = False
    """There is a status subresource: writes to the resource itself leave `status` unchanged."""
    storage: str = ""
    """Name under which objects are stored, shared by all versions: `deployments.apps`. Empty for kinds never stored."""
    storage_api_version: str = ""
    """apiVersion of the stored form; empty: this one."""
    to_storage: Convert | None = None
    """Converts an object to the stored version; None if this is the stored version."""
    from_storage: Convert | None = None
    converter: Converter | None = None
    """Converts by asking a webhook. Then stored objects may have any version, and both functions above convert from
    any version, inside steps that `conversions.settle` runs.
    """
    load_printer: Callable[[], Printer | None] | None = None
    """Called once, for the first Table. Without a printer, a Table shows name and creation time."""
    custom: bool = False
    """Defined by a CustomResourceDefinition."""
    declared_versions: frozenset[str] | None = None
    """The apiVersions in the CustomResourceDefinition, also those that are not served; None for built-in kinds."""
    openapi_schema: JSONObject | None = None
    """The openAPIV3Schema of a custom resource, for publication; built-in documents come from the catalog."""
    selectable_fields: tuple[str, ...] = ()
    """Field selectors other than metadata.name and metadata.namespace, as paths without a leading dot."""
    storage_version_hash: str = ""
    deprecation_warning: str = ""
    """Sent as a Warning with every answer of a deprecated version."""

    @lazy
    def schema(self) -> Schema:
        return self.load_schema()

    @cached_property
    def printer(self) -> Printer | None:
        return self.load_printer() if self.load_printer is not None else None

    @cached_property
    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind(self.group, self.version, self.kind)

    @cached_property
    def gvr(self) -> GroupVersionResource:
        return GroupVersionResource(self.group, self.version, self.plural)

    @cached_property
    def group_version(self) -> GroupVersion:
        return GroupVersion(self.group, self.version)

    @cached_property
    def api_version(self) -> str:
        return str(self.group_version)

    @cached_property
    def qualified(self) -> str:
        """The name of the resource in error messages: `deployments.apps`, `pods`. Also its key in a ResourceSet."""
        return self.gvr.qualified_resource

    @property
    def is_storage_version(self) -> bool:
        """Whether new objects are stored in this version."""
        return not self.storage_api_version or self.storage_api_version == self.api_version

    def reset_fields(self, subresource: str) -> FieldSet:
        """Return the fields that a write through `subresource` (empty: the resource itself) leaves unchanged."""
        if subresource == "status":
            return _SPEC_FIELDS
        return _STATUS_FIELDS if self.has_status and not subresource else _NO_FIELDS
