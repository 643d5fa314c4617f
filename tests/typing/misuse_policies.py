"""Mistakes in the declaration of a policy are errors for type checkers."""

from __future__ import annotations

from typing import Any, assert_type

from kubewright import CustomResource, Manager, Model
from kubewright.apis.core.v1 import ConfigMap
from kubewright.policies import Binding, JSONPatch, MutatingPolicy, ParamRef, Rule, ValidatingPolicy, Validation
from kubewright.testing import Evaluation, evaluate


class ShopSpec(Model):
    size: int = 1


class Shop(CustomResource, group="my.domain", version="v1"):
    spec: ShopSpec


FINE = Validation("object.spec.size > 0")
one = ValidatingPolicy("one", Shop, validations=[FINE], params=ConfigMap, bindings=[Binding(params=ParamRef(name="a"))])
several = ValidatingPolicy("several", [Shop, Rule.of(ConfigMap, operations=["DELETE"])], validations=[FINE])
change = MutatingPolicy("change", Shop, mutations=[JSONPatch("[]")])
Manager(policies=[one, several, change])

ValidatingPolicy("p", "Shop", validations=[FINE])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
ValidatingPolicy("p", Shop, validations=["true"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
ValidatingPolicy("p", Shop, validations=[FINE], operations=["create"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
ValidatingPolicy("p", Shop, validations=[FINE], params="Shop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
ValidatingPolicy("p", Shop, mutations=[JSONPatch("[]")])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
MutatingPolicy("p", Shop, mutations=[FINE])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
Binding(actions=["Block"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
Manager(policies=[FINE])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


def tests() -> None:
    shop = Shop(spec=ShopSpec())
    assert_type(evaluate(one, create=shop), Evaluation[Shop])
    assert_type(evaluate(change, update=shop, old=shop).object, Shop)
    document: dict[str, Any] = {"apiVersion": "my.domain/v1", "kind": "Shop"}
    assert_type(evaluate(one, create=document, params=ConfigMap()).object, dict[str, Any])
    evaluate(one, create="shop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
