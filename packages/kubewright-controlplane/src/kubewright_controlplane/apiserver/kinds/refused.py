"""Kinds that cannot be created here, because nothing would act on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.machinery.errors import Forbidden, StatusDetails
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry.model import Strategy

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.registry.model import Attributes


class RefusedStrategy(Strategy):
    """Rejects creates of a kind, since accepting one would promise behavior that the server does not have."""

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        resource, name = attributes.resource, obj["metadata"]["name"]
        text = (
            f'{resource.qualified} "{name}" is forbidden: {resource.kind} is not supported yet '
            "by the embedded API server; use a real API server instead"
        )
        raise Forbidden(text, details=StatusDetails(name=name, group=resource.group, kind=resource.plural))
