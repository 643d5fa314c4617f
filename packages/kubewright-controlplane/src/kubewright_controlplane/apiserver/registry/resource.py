"""One served resource: what it is called, what its objects look like, and how it behaves.

A Resource is the same thing for a built-in kind and for a custom one; only where its facts come from differs
(the catalog, or a CustomResourceDefinition). It is immutable but for its lazily compiled schema: a CRD that changes is
installed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final

from kubewright.machinery.gvk import GroupVersion, GroupVersionKind, GroupVersionResource
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.catalog.facts import Column
from kubewright_controlplane.apiserver.registry.strategy import Strategy
from kubewright_controlplane.apiserver.registry.subresource import Subresource
from kubewright_controlplane.schema.fieldset import FieldSet
from kubewright_controlplane.schema.structural import Schema

ALL_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""In the order in which custom resources are discovered with them."""

_NONE: Final = FieldSet.of_paths()
_STATUS: Final = FieldSet.of_paths("status")
_NOT_STATUS: Final = FieldSet.of_paths("spec")

Convert = Callable[[JSONObject], JSONObject]
"""Turns an object of one version into one of another; the result may share parts with the argument."""


Cells = Callable[[JSONObject, datetime], list[object]]
"""The cells of one object's row, one for each column; the time is what ages are told from."""


@dataclass(frozen=True)
class Printer:
    """How `kubectl get` shows a kind: its columns, and the row of an object."""

    columns: tuple[Column, ...]
    cells: Cells


@dataclass(frozen=True, eq=False)
class Resource:
    """One resource in one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    load_schema: Callable[[], Schema]
    """Called once, at the first object that needs it: most kinds of most servers are never touched."""
    strategy: Strategy = field(default_factory=Strategy)
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, Subresource] = field(default_factory=dict[str, Subresource])
    has_status: bool = False
    """There is a status subresource: writes to the resource itself leave `status` alone."""
    storage: str = ""
    """Name under which objects are stored, shared by all versions: `deployments.apps`. Empty for kinds never stored."""
    storage_api_version: str = ""
    """apiVersion of the stored form; empty: this one."""
    to_storage: Convert | None = None
    """Makes the stored version of an object of this one; None where they are the same."""
    from_storage: Convert | None = None
    load_printer: Callable[[], Printer | None] | None = None
    """Called once, at the first Table; no printer: name and creation time."""
    custom: bool = False
    """Defined by a CustomResourceDefinition."""
    openapi_schema: JSONObject | None = None
    """The openAPIV3Schema of a custom resource, for publication; built-in documents come from the catalog."""
    selectable_fields: tuple[str, ...] = ()
    """Field selectors beyond metadata.name and metadata.namespace, as paths without a leading dot."""
    storage_version_hash: str = ""
    deprecation_warning: str = ""
    """Sent as a Warning with every answer of a deprecated version."""

    @cached_property
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
        """The resource as error messages name it: `deployments.apps`, `pods`. Also its key in a ResourceSet."""
        return self.gvr.qualified_resource

    def reset_fields(self, subresource: str) -> FieldSet:
        """Fields that a write through `subresource` (empty: the resource itself) leaves as they were."""
        if subresource == "status":
            return _NOT_STATUS
        return _STATUS if self.has_status and not subresource else _NONE
