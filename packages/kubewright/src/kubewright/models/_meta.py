"""The structures of meta/v1, which every kind shares.

Names are "" and lists and maps empty where nothing is set, as in Go; none of those is sent. A `Time` is an aware
`datetime`; the API server keeps whole seconds of it.

Follows k8s.io/apimachinery/pkg/apis/meta/v1.
"""

# ruff: noqa: RUF012, E501 - descriptions are those of meta/v1, line by line; each struct gets an empty list or map of its own

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

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

if TYPE_CHECKING:
    from kubewright.models._resource import Object

Time: TypeAlias = datetime
"""A moment to the second (metav1.Time). Aware; `machinery.time.truncate` gives it as the server keeps it."""

Quantity: TypeAlias = Annotated[str, QUANTITY]
"""An amount with a suffix: `500m`, `1.5Gi`. `machinery.quantity.Quantity` reads, compares and adds them."""

IntOrString: TypeAlias = Annotated[int | str, INT_OR_STRING]
"""A number, or a name or percentage: `8080`, `http`, `25%`."""

Int32: TypeAlias = Annotated[int, Format("int32")]
"""A whole number that has to fit into 32 bits."""

Int64: TypeAlias = Annotated[int, Format("int64")]
"""A whole number that has to fit into 64 bits."""

RawExtension: TypeAlias = Annotated[dict[str, Any], PreserveUnknownFields()]
"""An object of any shape, kept as it is (runtime.RawExtension)."""

JSON: TypeAlias = Annotated[Any, PreserveUnknownFields()]
"""Any value at all, kept as it is (apiextensions JSON)."""


class MicroTime(datetime):
    """A moment to the microsecond (metav1.MicroTime), written with all six digits as the API server demands."""

    @classmethod
    def of(cls, moment: datetime) -> MicroTime:
        """`moment`, which is aware, as a MicroTime."""
        utc = moment.astimezone(UTC)
        return cls.combine(utc.date(), utc.timetz())


class OwnerReference(Struct):
    """The object that this one belongs to, and with which it is deleted; it is in the same namespace or in none."""

    api_version: str
    kind: str
    name: str
    uid: str
    """A namesake that was made later is another owner."""
    controller: bool | None = None
    """The owner that is responsible: at most one is, and its controller hears of changes."""
    block_owner_deletion: bool | None = None
    """With a foreground deletion the owner waits until this object is gone."""


class ManagedFieldsEntry(Struct):
    """The fields of an object that one manager owns, kept as JSON (`fields_v1`): they are many, and rarely read."""

    manager: str = ""
    """Who wrote them: `kubectl`, an operator's name."""
    operation: str = ""
    """`Apply`, or `Update` for every other write."""
    api_version: str = ""
    time: Time | None = None
    """When they last changed."""
    fields_type: str = ""
    """`FieldsV1`, so far."""
    fields_v1: msgspec.Raw = field(default=msgspec.Raw(), name="fieldsV1")
    subresource: str = ""
    """Through which they were written: `status`, or none."""


class ObjectMeta(Struct):
    """What every object has: its name, its labels, its owners, and what the system keeps about it."""

    name: str = ""
    """Unique among objects of the kind, in the namespace; never changes."""
    generate_name: str = ""
    """In a create without a name: the server appends five characters that make it one."""
    namespace: str = ""
    """None for cluster-scoped kinds."""
    uid: str = ""
    """One life of an object: a namesake that is made later has another."""
    resource_version: str = ""
    """Changes with every write. To be compared for equality alone; an update that carries an old one is a Conflict."""
    generation: int | None = None
    """Counts changes of the desired state, which a status says it has observed."""
    creation_timestamp: Time | None = None
    """By the server's clock."""
    deletion_timestamp: Time | None = None
    """Deletion was asked for; the object goes when no finalizer is left, and a Pod after its grace period."""
    deletion_grace_period_seconds: int | None = None
    """What a Pod is given to end in good order."""
    labels: dict[str, str] = {}
    """To select by; a value has at most 63 characters."""
    annotations: dict[str, str] = {}
    """For tools and people; nothing selects by them."""
    owner_references: list[OwnerReference] = []
    """With whom it goes."""
    finalizers: list[str] = []
    """Who has something to do before it goes."""
    managed_fields: list[ManagedFieldsEntry] = []
    """Which fields are whose, for server-side apply. Left out of caches where nothing looks at it."""
    self_link: str = ""
    """Not set any more."""


class ListMeta(Struct):
    """What every list has: the version it was read at, and where it goes on."""

    resource_version: str = ""
    """Where a watch goes on from."""
    continue_: str = ""
    """Where the next page begins; none when this is the last one."""
    remaining_item_count: int | None = None
    """How many are still to come, where the server counted."""
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
    """One condition on a field, as authorization sees it; `values` for `In` and `NotIn` only."""

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


class Preconditions(Struct):
    """What has to be true of an object for it to be deleted."""

    uid: str | None = None
    """Only this life of it."""
    resource_version: str | None = None
    """Only this state of it; else Conflict."""


class DeleteOptions(Struct):
    """How an object is deleted."""

    grace_period_seconds: int | None = None
    """Of a Pod; 0 is at once."""
    preconditions: Preconditions | None = None
    propagation_policy: Literal["Orphan", "Background", "Foreground"] | None = None
    """What becomes of what it owns: `Background`, `Foreground`, `Orphan`."""
    dry_run: list[str] = []
    """`All`: check, and delete nothing."""


def owner_reference(owner: Object, *, controller: bool = True) -> OwnerReference:
    """The reference that makes `owner` the owner of an object, and with `controller` the one that manages it.

    `owner` has been read from the server: it has a uid. It blocks `owner`'s deletion in the foreground, as
    controller-runtime's SetControllerReference does.
    """
    return OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=controller or None,
        block_owner_deletion=controller or None,
    )


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
    """Set the condition of that type, and tell whether anything changed.

    The time of transition moves only when the status does (k8s.io/apimachinery/pkg/api/meta.SetStatusCondition), so
    that setting what is there already makes no new object to write.
    """
    held = next((each for each in conditions if each.type == type), None)
    moment = held.last_transition_time if held and held.status == status else truncate(now or datetime.now(UTC))
    wanted = Condition(
        type=type,
        status=status,
        reason=reason,
        message=message,
        observed_generation=observed_generation,
        last_transition_time=moment,
    )
    if held == wanted:
        return False
    if held is None:
        conditions.append(wanted)
    else:
        conditions[conditions.index(held)] = wanted
    return True
