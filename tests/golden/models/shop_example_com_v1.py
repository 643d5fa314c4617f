# Made by `kubewright generate models`, which writes it anew: change nothing here.
# ruff: noqa: E501, RUF100 - descriptions are their authors', line by line
"""The kinds of shop.example.com/v1, from their CustomResourceDefinitions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from kubewright.models import (
    UNSET,
    CustomResource,
    Model,
    PrintColumn,
    Scale,
    UnsetType,
    field,
)
from kubewright.markers import (
    Default,
    Description,
    EmbeddedResource,
    Example,
    Format,
    Keywords,
    ListMapKey,
    ListType,
    MapType,
    Maximum,
    MaxItems,
    MaxLength,
    MaxProperties,
    Minimum,
    MinItems,
    MinLength,
    MultipleOf,
    Pattern,
    PreserveUnknownFields,
    Title,
    Type,
    XValidation,
)
from kubewright.apis.meta.v1 import (
    JSON,
    Int32,
    Int64,
    IntOrString,
    Quantity,
    RawExtension,
    Time,
)


class BasketSpecPaymentCard(Model, markers=[MapType("atomic")]):
    number: Annotated[str, MinLength(8)]
    valid_until: Annotated[str | None, Format("date")] = None


class BasketSpecPaymentCash(Model):
    pass


class BasketSpecPayment(
    Model,
    markers=[Keywords({"oneOf": [{"required": ["card"]}, {"required": ["cash"]}]})],
):
    """How it is paid."""

    card: BasketSpecPaymentCard | None = None
    cash: BasketSpecPaymentCash | None = None


class BasketSpecItems(Model):
    """Item is one thing, or several of a kind."""

    sku: str
    packaging: str = "none"
    count: int = 1
    from_: str | None = None
    """Where it is from."""
    parts: dict[
        str,
        list[Annotated[str, MinLength(1), Description("A part, by name.")]],
    ] = field(default_factory=dict[str, list[str]])


class BasketSpecWrapping(Model):
    paper: str = "red"
    ribbon_url: Annotated[
        str | None,
        Format("uri"),
    ] = field(default=None, name="ribbonURL")
    list_: list[str] = field(default_factory=list[str])


class BasketSpecOpen(Model, markers=[PreserveUnknownFields()]):
    known: int | None = None


class BasketSpec(
    Model,
    markers=[
        XValidation(
            "has(self.discount) || !has(self.coupon)",
            message_expression="'a coupon needs a discount, ' + self.owner",
            reason="FieldValueRequired",
            field_path=".discount",
        ),
    ],
):
    """BasketSpec is what the customer wants."""

    owner: Annotated[
        str,
        Pattern("^[a-z]([-a-z0-9]*[a-z0-9])?$"),
        MaxLength(63),
        XValidation("self == oldSelf", message="a basket stays with its owner"),
    ]
    """
    "owner" pays
    """
    note: str | None
    comment: str | UnsetType | None = UNSET
    size: Annotated[Int32, Minimum(0), Maximum(100)] = 1
    weight: Annotated[
        float | None,
        Type("number"),
        Format("double"),
        Minimum(0, exclusive=True),
    ] = None
    price: Annotated[Int64 | None, MultipleOf(5)] = None
    gift: bool = False
    discount: IntOrString = "10%"
    """Discount in percent, or as an amount."""
    coupon: Annotated[IntOrString | None, Keywords({"pattern": "^[0-9A-Z]+$"})] = None
    volume: Quantity | None = None
    deliver_at: Time | None = None
    seal: bytes | None = None
    delivery: Literal["Express", "Standard"] = "Standard"
    priority: Literal[1, 2, 3] | None = None
    payment: BasketSpecPayment | None = None
    items: Annotated[
        list[BasketSpecItems],
        MinItems(1),
        MaxItems(10),
        ListType("map"),
        ListMapKey("sku", "packaging"),
    ]
    tags: Annotated[
        list[str],
        ListType("set"),
        Default(["new"]),
    ] = field(default_factory=list[str])
    labels: Annotated[
        dict[str, str],
        MaxProperties(5),
        MapType("atomic"),
    ] = field(default_factory=dict[str, str])
    sums: dict[str, int | None] = field(default_factory=dict[str, int | None])
    wrapping: Annotated[BasketSpecWrapping | None, Default({})] = None
    pod_ips: list[str] = field(default_factory=list[str], name="podIPs")
    x_extra_field: Annotated[
        str | None,
        Example("hello"),
        Title("Extra"),
    ] = field(default=None, name="x-extra-field")
    settings: RawExtension | None = None
    anything: JSON | None = None
    open: BasketSpecOpen | None = None
    template: Annotated[dict[str, Any] | None, EmbeddedResource()] = None


class BasketStatus(Model):
    size: int | None = None
    selector: str | None = None


class Basket(
    CustomResource,
    group="shop.example.com",
    version="v1",
    short_names=["bk"],
    categories=["all", "shop"],
    selectable_fields=[".spec.owner"],
    columns=[
        PrintColumn("Owner", ".spec.owner"),
        PrintColumn(
            "Items",
            ".spec.size",
            type="integer",
            priority=1,
            description="How many there are",
        ),
    ],
    scale=Scale(
        replicas=".spec.size",
        status_replicas=".status.size",
        selector=".status.selector",
    ),
    markers=[
        XValidation(
            "self.metadata.name.size() < 20",
            message="the name is too long for a label",
        ),
    ],
):
    """Basket is what a customer carries.

    It has a "second" paragraph, with a \\ in it.
    """

    spec: BasketSpec
    status: BasketStatus = field(default_factory=BasketStatus)


class PersonStatus(Model):
    seen: bool | None = None


class Person(
    CustomResource,
    group="shop.example.com",
    version="v1",
    plural="people",
    status_subresource=False,
    namespaced=False,
):
    data: str | None = None
    kind_of: str | None = None
    status: PersonStatus = field(default_factory=PersonStatus)
