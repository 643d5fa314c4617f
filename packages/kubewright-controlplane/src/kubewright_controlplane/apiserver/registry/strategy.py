"""What a kind does beyond its schema. The base does nothing: a kind without a strategy of its own behaves as a custom
resource does. One module a group, `kinds/<group>.py`, holds the strategies of its kinds and a function
`strategies(server: ServerParts) -> Mapping[str, Strategy]`, by plural. The group is named as its Go package is (`core`,
`apps`, `rbac`, ...).
A module with a kind that is served in several forms (autoscaling, events) also has `CONVERSIONS`; see `conversion`.

All methods run synchronously inside a write. What a strategy must know of other objects it reads from the ResourceSet;
what it must remember (addresses in use) it keeps up by observing commits: nothing needs releasing when a write fails.

Follows k8s.io/apiserver/pkg/registry/rest (create, update, delete and reset fields strategies).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError
from kubewright.machinery.json import JSONObject

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.registry.attributes import Attributes
    from kubewright_controlplane.apiserver.registry.subresource import Action, Subresource

_NO_FIELDS: Mapping[str, str] = {}


class Strategy:
    """Behaviour of one kind. Subclasses override what differs."""

    allow_create_on_update: bool = False
    """PUT of an object that does not exist creates it."""
    allow_unconditional_update: bool = True
    """PUT without a resourceVersion overwrites. Custom resources and some built-in kinds refuse it."""
    delete_answers_object: bool = False
    """DELETE that removes at once answers with the object, not with a Status."""
    has_generation: bool = True
    """metadata.generation rises when anything outside metadata and status changes. False: the kind has none."""
    default_grace_seconds: int | None = None
    """Grace of a delete that names none. None: the kind is deleted at once, whatever is asked."""
    deprecation_warning: str = ""
    """Sent with every answer of a kind that its users should leave."""
    notes_grace: bool = True
    """A delete that leaves the object for now notes its grace and raises the generation. Few kinds do not."""
    selectable_fields: tuple[str, ...] = ()
    """The kind's own field selectors; `fields` gives their values."""
    resets_status_on_create: bool = True
    """Status in a create is dropped, where the kind has a status subresource."""

    @property
    def subresources(self) -> Mapping[str, Subresource]:
        """The kind's own subresources, by name, beside `status` and `scale`, which are generic."""
        return {}

    @property
    def action(self) -> Action | None:
        """For kinds that are never stored (reviews): what a create of one does. None for all others."""
        return None

    def default(self, obj: JSONObject) -> None:
        """Set defaults that the schema cannot express. Called after the schema's, on each write; must be idempotent."""

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        """Normalise before validation: drop what a user may not set, allocate what the server gives."""

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        """The same for an update. `status` and `metadata` have been dealt with already."""

    def prepare_for_status_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        """The same for an update through `status`; `spec` has been reset to the old one already."""

    def validate(self, obj: JSONObject) -> list[FieldError]:
        """Faults that the schema does not find, on create and on update.

        For a built-in kind the schema finds wrong types and values outside an enumeration, nothing else: required
        fields are asked for here.
        """
        return []

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        """Faults of the change itself, such as immutable fields; asked in addition to `validate`."""
        return []

    def validate_status_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return []

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        """What a client should be told though the write is accepted."""
        return []

    def before_delete(self, obj: JSONObject, attributes: Attributes) -> None:
        """Raise to refuse a delete, or change `obj` (which is then stored if it lives on with a deletionTimestamp)."""

    def grace_seconds(self, obj: JSONObject, asked: int | None) -> int:
        """Grace that a delete gives this object. Kinds without `default_grace_seconds` get none."""
        if self.default_grace_seconds is None:
            return 0
        return self.default_grace_seconds if asked is None else asked

    def keeps_deleted(self, obj: JSONObject) -> bool:
        """Whether an object being deleted lives on though no finalizer is left (a Namespace with content)."""
        return False

    def name_faults(self, name: str) -> list[str]:
        """What is wrong with a name of this kind."""
        return names.dns1123_subdomain(name)

    def fields(self, obj: JSONObject) -> Mapping[str, str]:
        """Values of the kind's selectable fields, kept beside the stored object; see `Resource.selectable_fields`."""
        return _NO_FIELDS
