"""What an admission plugin sees of a write, and what a plugin is.

Follows k8s.io/apiserver/pkg/admission.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.user import LOOPBACK, UserInfo

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.registry.resource import Resource

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True)
class Attributes:
    """One write on its way: handed to strategies, admission plugins and subresources alike.

    `object` is the document as it will be stored; plugins and strategies change it in place. `old_object` is what is
    stored now and must not be changed. For DELETE `object` is None, for CREATE `old_object` is.
    """

    operation: Operation
    resource: Resource
    namespace: str
    name: str
    """Empty while a generateName is not resolved: never inside admission."""
    object: JSONObject | None = None
    old_object: JSONObject | None = None
    subresource: str = ""
    user: UserInfo = LOOPBACK
    dry_run: bool = False
    options: JSONObject = field(default_factory=dict[str, Any])
    """CreateOptions, UpdateOptions, PatchOptions or DeleteOptions as sent."""
    warnings: list[str] = field(default_factory=list[str])
    """Sent to the client as Warning headers."""


class AdmissionPlugin(Protocol):
    """One plugin of the chain. Both methods run synchronously between the read and the commit of a write.

    `admit` may change `attributes.object`; `validate` sees the final object. Either refuses by raising an APIError
    (usually Forbidden). Every write of every resource comes by, also those of subresources: a plugin looks at
    `attributes` first and returns at once when it is not concerned.
    """

    name: str

    def admit(self, attributes: Attributes) -> None: ...

    def validate(self, attributes: Attributes) -> None: ...
