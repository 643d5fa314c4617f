"""Built-in kinds with little behavior beyond their schema."""

from __future__ import annotations

from kubewright_controlplane.apiserver.registry.model import Strategy


class PlainStrategy(Strategy):
    """A kind without a generation."""

    has_generation = False


class UpsertStrategy(PlainStrategy):
    """A kind without a generation, which PUT may create."""

    allow_create_on_update = True
