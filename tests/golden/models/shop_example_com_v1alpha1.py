# Made by `kubewright generate models`, which writes it anew: change nothing here.
# ruff: noqa: E501, RUF100 - descriptions are their authors', line by line
"""The kinds of shop.example.com/v1alpha1, from their CustomResourceDefinitions."""

from __future__ import annotations

from kubewright.models import CustomResource, Model
from kubewright.apis.meta.v1 import RawExtension


class BasketStatus(Model):
    phase: str


class Basket(
    CustomResource,
    group="shop.example.com",
    version="v1alpha1",
    short_names=["bk"],
    categories=["all", "shop"],
    storage=False,
    served=False,
    deprecated="shop.example.com/v1alpha1 Basket is gone; use v1",
):
    spec: RawExtension | None = None
    status: BasketStatus | None = None
