"""The structures of meta/v1, which all kinds share.

Unset names are "" and unset lists and maps are empty, as in Go; none of these is sent. A `Time` is an aware `datetime`,
of which the API server stores whole seconds.

Follows k8s.io/apimachinery/pkg/apis/meta/v1.
"""

# ruff: noqa: RUF012, E501 - descriptions are those of meta/v1, line by line; each struct gets an empty list or map of its own

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from kubewright.machinery.time import truncate
from kubewright.markers import (
    INT_OR_STRING,
    QUANTITY,
    Format,
    ListType,
    MapType,
    MaxLength,
    Minimum,
    MinLength,
    Pattern,
    PreserveUnknownFields,
)
from kubewright.models._struct import Struct, field

Time: TypeAlias = datetime
"""A time with a precision of seconds (metav1.Time). Aware; `machinery.time.truncate` rounds as the server does."""

Quantity: TypeAlias = Annotated[str, QUANTITY]
"""An amount with a suffix: `500m`, `1.5Gi`. `machinery.quantity.Quantity` parses, compares and adds them."""

IntOrString: TypeAlias = Annotated[int | str, INT_OR_STRING]
"""A number, or a name or percentage: `8080`, `http`, `25%`."""

Int32: TypeAlias = Annotated[int, Format("int32")]
"""An integer of 32 bits."""

Int64: TypeAlias = Annotated[int, Format("int64")]
"""An integer of 64 bits."""

RawExtension: TypeAlias = Annotated[dict[str, Any], PreserveUnknownFields()]
"""An object of any shape, stored unchanged (runtime.RawExtension)."""

JSON: TypeAlias = Annotated[Any, PreserveUnknownFields()]
"""Any value, stored unchanged (apiextensions JSON)."""


class MicroTime(datetime):
    """A time with a precision of microseconds (metav1.MicroTime), written with six digits as the API server requires."""

    @classmethod
    def of(cls, moment: datetime) -> MicroTime:
        """Convert `moment`, which must be aware."""
        utc = moment.astimezone(UTC)
        return cls.combine(utc.date(), utc.timetz())


class OwnerReference(Struct):
    """An owner of the object, in the same namespace or cluster-scoped. The object is deleted with its last owner."""

    api_version: str
    kind: str
    name: str
    uid: str
    """A later object of the same name is another owner."""
    controller: bool | None = None
    """Whether this owner controls the object. At most one does, and its controller receives events of the object."""
    block_owner_deletion: bool | None = None
    """Whether a foreground deletion of the owner waits until this object is deleted."""


class ManagedFieldsEntry(Struct):
    """The fields of an object that one manager owns. `fields_v1` stays encoded: it is large and rarely read."""

    manager: str = ""
    """The name of the client that wrote them: `kubectl`, the name of an operator."""
    operation: str = ""
    """`Apply`, or `Update` for every other write."""
    api_version: str = ""
    time: Time | None = None
    """When they last changed."""
    fields_type: str = ""
    """Always `FieldsV1`."""
    fields_v1: msgspec.Raw = field(default=msgspec.Raw(), name="fieldsV1")
    subresource: str = ""
    """The subresource through which they were written: `status`, or ""."""


class ObjectMeta(Struct):
    """The metadata of every object: name, labels, owners, and what the system records about it."""

    name: str = ""
    """Unique among objects of the kind in the namespace. Never changes."""
    generate_name: str = ""
    """For a create without a name: the server appends five characters to make one."""
    namespace: str = ""
    """Empty for cluster-scoped kinds."""
    uid: str = ""
    """Identifies one object in time: a later object of the same name has another uid."""
    resource_version: str = ""
    """Changes with every write. An update with an old one raises Conflict."""
    generation: int | None = None
    """Increases with every change of the desired state; a status reports which one was observed."""
    creation_timestamp: Time | None = None
    """By the server's clock."""
    deletion_timestamp: Time | None = None
    """When deletion was requested. The object is removed once it has no finalizers, a Pod after its grace period."""
    deletion_grace_period_seconds: int | None = None
    """How long a Pod may take to shut down."""
    labels: dict[str, str] = {}
    """Used by selectors; values have at most 63 characters."""
    annotations: dict[str, str] = {}
    """For tools and people; selectors do not see them."""
    owner_references: list[OwnerReference] = []
    """The owners, with which the object is deleted."""
    finalizers: list[str] = []
    """Keep the object until their controllers have cleaned up and removed them."""
    managed_fields: list[ManagedFieldsEntry] = []
    """Which manager owns which fields, for server-side apply. Caches omit it unless it is used."""
    self_link: str = ""
    """Deprecated; no longer set."""


class ListMeta(Struct):
    """The metadata of every list: the version it was read at, and where the next page starts."""

    resource_version: str = ""
    """The version from which a watch continues."""
    continue_: str = ""
    """Where the next page starts; empty on the last page."""
    remaining_item_count: int | None = None
    """How many items follow, if the server counted."""
    self_link: str = ""


class LabelSelectorRequirement(Struct):
    """A label selector requirement is a selector that contains values, a key, and an operator that
    relates the key and values."""

    key: str
    """key is the label key that the selector applies to."""
    operator: str
    """operator represents a key's relationship to a set of values.
    Valid operators are In, NotIn, Exists and DoesNotExist."""
    values: Annotated[list[str], ListType("atomic")] = []
    """values is an array of string values. If the operator is In or NotIn,
    the values array must be non-empty. If the operator is Exists or DoesNotExist,
    the values array must be empty. This array is replaced during a strategic
    merge patch."""


class FieldSelectorRequirement(Struct):
    """A requirement on a field, as authorization uses it; `values` only for `In` and `NotIn`."""

    key: str
    operator: str
    values: list[str] = []


class LabelSelector(Struct):
    """A label selector is a label query over a set of resources. The result of matchLabels and
    matchExpressions are ANDed. An empty label selector matches all objects. A null
    label selector matches no objects."""

    __markers__ = (MapType("atomic"),)

    match_expressions: Annotated[list[LabelSelectorRequirement], ListType("atomic")] = []
    """matchExpressions is a list of label selector requirements. The requirements are ANDed."""
    match_labels: dict[str, str] = {}
    """matchLabels is a map of {key,value} pairs. A single {key,value} in the matchLabels
    map is equivalent to an element of matchExpressions, whose key field is "key", the
    operator is "In", and the values array contains only "value". The requirements are ANDed."""


class Condition(Struct):
    """Condition contains details for one aspect of the current state of this API Resource."""

    type: Annotated[
        str,
        MaxLength(316),
        Pattern(
            r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        ),
    ]
    """type of condition in CamelCase or in foo.example.com/CamelCase."""
    status: Literal["True", "False", "Unknown"]
    """status of the condition, one of True, False, Unknown."""
    observed_generation: Annotated[Int64 | None, Minimum(0)] = None
    """observedGeneration represents the .metadata.generation that the condition was set based upon.
    For instance, if .metadata.generation is currently 12, but the .status.conditions[x].observedGeneration is 9, the condition is out of date
    with respect to the current state of the instance."""
    last_transition_time: Time
    """lastTransitionTime is the last time the condition transitioned from one status to another.
    This should be when the underlying condition changed.  If that is not known, then using the time when the API field changed is acceptable."""
    reason: Annotated[str, MinLength(1), MaxLength(1024), Pattern(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """reason contains a programmatic identifier indicating the reason for the condition's last transition.
    Producers of specific condition types may define expected values and meanings for this field,
    and whether the values are considered a guaranteed API.
    The value should be a CamelCase string.
    This field may not be empty."""
    message: Annotated[str, MaxLength(32768)]
    """message is a human readable message indicating details about the transition.
    This may be an empty string."""


class GroupResource(Struct):
    """A resource in any version: its API group and its plural."""

    group: str
    """The API group; empty for the core group."""
    resource: str
    """The plural, in lower case."""


class Preconditions(Struct):
    """Conditions that an object must meet to be deleted."""

    uid: str | None = None
    """The uid it must have."""
    resource_version: str | None = None
    """The resource version it must have; otherwise Conflict."""


class DeleteOptions(Struct):
    """Options of a delete."""

    grace_period_seconds: int | None = None
    """Of a Pod; 0 deletes it immediately."""
    preconditions: Preconditions | None = None
    propagation_policy: Literal["Orphan", "Background", "Foreground"] | None = None
    """How objects that it owns are deleted: `Background`, `Foreground`, `Orphan`."""
    dry_run: list[str] = []
    """`All`: validate only, delete nothing."""


def set_condition(
    conditions: list[Condition],
    type: str,
    status: Literal["True", "False", "Unknown"],
    *,
    reason: str,
    message: str = "",
    observed_generation: int | None = None,
    now: datetime | None = None,
) -> bool:
    """Set the condition of that type, and return whether anything changed.

    The transition time changes only with the status (k8s.io/apimachinery/pkg/api/meta.SetStatusCondition). Setting an
    equal condition again changes nothing, so there is nothing to write.
    """
    held = next((each for each in conditions if each.type == type), None)
    if held is not None and held.status == status:
        same = (reason, message, observed_generation)
        if (held.reason, held.message, held.observed_generation) == same:
            return False
        moment = held.last_transition_time
    else:
        moment = truncate(now or datetime.now(UTC))
    wanted = Condition(
        type=type,
        status=status,
        reason=reason,
        message=message,
        observed_generation=observed_generation,
        last_transition_time=moment,
    )
    if held is None:
        conditions.append(wanted)
    else:
        conditions[conditions.index(held)] = wanted
    return True
