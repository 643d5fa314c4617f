"""Subresources: what hangs below one object in the URL.

Three sorts. A View reads and writes the object itself in a narrower or another form (status, scale, approval,
ephemeralcontainers, finalize). An Action takes a body and does something (binding, eviction, token). A Connection
answers with a stream or a document of its own (log, exec, proxy).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubewright.http.message import Request, Response
from kubewright.machinery.fields import FieldError
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.registry.attributes import Attributes


@dataclass(frozen=True)
class Subresource:
    """Base of the three. `kind` is what its documents are; None: the resource's own kind."""

    kind: GroupVersionKind | None = None
    verbs: tuple[str, ...] = ()


@dataclass(frozen=True)
class View(Subresource):
    """The object through a window. Serves get, update and patch; the stored object changes, with managedFields,
    conflicts and events as for any other update.
    """

    verbs: tuple[str, ...] = ("get", "patch", "update")

    def read(self, obj: JSONObject) -> JSONObject:
        """What is shown of the object: by default all of it. May share parts with `obj`."""
        return obj

    def write(self, view: JSONObject, old: JSONObject, attributes: Attributes) -> JSONObject:
        """The object to store when `view` is written over `old`. `old` must not be changed, but may be shared."""
        return view

    def validate(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return []


@dataclass(frozen=True)
class Action(Subresource):
    """A POST that does something and answers with a document."""

    verbs: tuple[str, ...] = ("create",)

    def create(self, body: JSONObject, attributes: Attributes) -> JSONObject:
        """Do it. `attributes.name` and `.namespace` are the parent object's; `body` is decoded, `kind` checked.

        The answer is sent with 201, except a Status, which is sent with its code. Raises APIErrors to refuse.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Connection(Subresource):
    """Takes the request whole and gives the response whole."""

    verbs: tuple[str, ...] = ("get",)

    async def connect(self, request: Request, attributes: Attributes) -> Response:
        raise NotImplementedError
