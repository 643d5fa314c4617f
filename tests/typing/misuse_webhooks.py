"""Mistakes in the declaration of a webhook, or in its function, are errors for type checkers."""

from __future__ import annotations

from typing import assert_type

from kubewright import CustomResource, Manager, Model
from kubewright.apis.autoscaling.v1 import Scale
from kubewright.apis.core.v1 import Pod
from kubewright.machinery.json import JSONObject
from kubewright.testing import Review, review
from kubewright.webhooks import (
    AdmissionContext,
    AdmissionResponse,
    Conversion,
    Defaulter,
    FieldError,
    RawAdmissionContext,
    RawWebhook,
    Spoke,
    Validator,
    admission_handler,
    defaulter,
    validator,
)


class ShopSpec(Model):
    size: int = 1


class Shop(CustomResource, group="my.domain", version="v1"):
    spec: ShopSpec


class OldShop(CustomResource, group="my.domain", version="v1beta1", kind="Shop", storage=False):
    spec: ShopSpec


@defaulter(Shop)
def set_size(ctx: AdmissionContext[Shop]) -> None:
    ctx.object.spec.size = 3
    ctx.object.spec.size = "3"  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
    ctx.object = Pod()  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]


@validator(Shop, operations=["CREATE", "DELETE"])
async def check(ctx: AdmissionContext[Shop]) -> list[FieldError] | None:
    assert_type(ctx.object, Shop)
    assert_type(ctx.old_object, Shop | None)
    assert_type(await ctx.get(Pod, "a"), Pod)
    return None


@validator(Scale, parent=Shop, subresources=["scale"])
def limit(ctx: AdmissionContext[Scale]) -> list[FieldError]:
    return []


@admission_handler("/all", name="all.my.domain", groups=["*"], versions=["*"], resources=["*"], operations=["CREATE"])
def allow(ctx: RawAdmissionContext) -> AdmissionResponse:
    assert_type(ctx.object, JSONObject | None)
    return AdmissionResponse()


assert_type(set_size, Defaulter[Shop])
assert_type(check, Validator[Shop])
assert_type(limit, Validator[Scale])
assert_type(allow, RawWebhook)


def of_pods(ctx: AdmissionContext[Pod]) -> None: ...


def of_shops(ctx: AdmissionContext[Shop]) -> None: ...


def of_text(ctx: AdmissionContext[Shop]) -> str:
    return "wrong"


validator(Shop)(of_pods)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
validator(Shop)(of_text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
defaulter(Shop)(of_text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
validator(Shop, operations=["create"])(of_shops)  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
validator(Shop, failure_policy="Never")(of_shops)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
validator(Shop, timeouts=3)(of_shops)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
validator(Shop, reinvocation_policy="Never")(of_shops)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def to_new(old: OldShop) -> Shop:
    return Shop(spec=old.spec)


def to_old(new: Shop) -> OldShop:
    return OldShop(spec=new.spec)


conversion = Conversion(Shop, Spoke(OldShop, convert_to=to_new, convert_from=to_old))
assert_type(conversion.convert(Shop(spec=ShopSpec()), OldShop), OldShop)
Spoke(OldShop, convert_to=to_old, convert_from=to_new)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

Manager(webhooks=[set_size, check, limit, allow, conversion])
Manager(webhooks=[of_shops])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


async def tests() -> None:
    assert_type(await review(set_size, create=Shop(spec=ShopSpec())), Review[Shop])
    assert_type(await review(allow, create={"kind": "Shop"}), Review[JSONObject])
    await review(set_size, create=Pod())  # type: ignore[misc]  # pyright: ignore[reportArgumentType, reportCallIssue]
