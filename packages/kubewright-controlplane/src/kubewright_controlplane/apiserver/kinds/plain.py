"""Built-in kinds that are little more than their schema."""

from __future__ import annotations

from kubewright_controlplane.apiserver.registry.model import Strategy


class PlainStrategy(Strategy):
    """A kind without a generation."""

    has_generation = False


class UpsertStrategy(PlainStrategy):
    """A kind without a generation that PUT creates."""

    allow_create_on_update = True
