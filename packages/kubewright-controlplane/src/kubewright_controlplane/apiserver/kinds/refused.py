"""Kinds that are known and cannot be created here, since nothing would act on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubewright.machinery.errors import Forbidden, StatusDetails
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry.model import Strategy

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.registry.model import Attributes


class RefusedStrategy(Strategy):
    """Refuses to create objects of a kind: accepting one would promise what the server does not do."""

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        resource, name = attributes.resource, obj["metadata"]["name"]
        text = (
            f'{resource.qualified} "{name}" is forbidden: {resource.kind} is not supported yet '
            "by the embedded API server; use a real one for what depends on it"
        )
        raise Forbidden(text, details=StatusDetails(name=name, group=resource.group, kind=resource.plural))
