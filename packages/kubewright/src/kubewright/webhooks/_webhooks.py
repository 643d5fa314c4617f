"""The webhooks of one manager."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias

from kubewright.machinery.errors import ConfigError
from kubewright.webhooks._conversion import Conversion
from kubewright.webhooks._declaration import AdmissionWebhook

Webhook: TypeAlias = AdmissionWebhook | Conversion[Any]
"""What a manager can serve: the result of `defaulter`, `validator` or `admission_handler`, or a `Conversion`."""


def check_webhooks(webhooks: Sequence[object]) -> None:
    """Raise ConfigError for webhooks that one manager cannot serve together."""
    for each in webhooks:
        if not isinstance(each, (AdmissionWebhook, Conversion)):
            name = getattr(each, "__qualname__", repr(each))
            raise ConfigError(f"webhooks: {name} is not a webhook; decorate it with @defaulter or @validator")
    admission = [each for each in webhooks if isinstance(each, AdmissionWebhook)]
    advice = "give one of them another one: @validator(..., name=..., path=...)"
    if name := _repeated(each.name for each in admission):
        raise ConfigError(f"two webhooks have the name {name}, by which the API server tells them apart; {advice}")
    if path := _repeated(each.path for each in admission):
        raise ConfigError(f"two webhooks have the path {path}; {advice}")
    conversions: list[Conversion[Any]] = [each for each in webhooks if isinstance(each, Conversion)]
    if kind := _repeated(each.hub.__api__.gvk.qualified_kind for each in conversions):
        raise ConfigError(f"two Conversions are of {kind}; make one, with a Spoke for each version")


def _repeated(values: Iterable[Hashable]) -> Hashable | None:
    seen: set[Hashable] = set()
    for each in values:
        if each in seen:
            return each
        seen.add(each)
    return None
