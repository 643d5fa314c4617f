"""Changes of the very object that was looked at.

A JSON patch that begins with a test of the uid is the one way to tie a change to an object that works for every kind
and every subresource: the status of a custom resource is patched whatever uid a merge patch says.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from kubewright.client._client import Client
from kubewright.client._patch import JSONPatch
from kubewright.machinery.errors import Conflict, Invalid
from kubewright.machinery.json import JSONObject
from kubewright.models import Object

T = TypeVar("T", bound=Object)


def test(path: str, value: object) -> JSONObject:
    """The operation that stops a patch unless there is `value` at `path`."""
    return {"op": "test", "path": path, "value": value}


async def guarded_patch(
    client: Client, obj: T, operations: Iterable[JSONObject], *, subresource: str | None = None
) -> T:
    """Carry out `operations` (RFC 6902) on `obj`, and never on a namesake made since. Gives it as it then is.

    Raises Conflict when `obj` is not what is there, or not as `operations` take it to be; Invalid when it would break a
    rule; NotFound.
    """
    try:
        patch = JSONPatch((test("/metadata/uid", obj.metadata.uid), *operations))
        return await client.patch(obj, patch, subresource=subresource)
    except Invalid as error:
        if not error.patch_did_not_apply:
            raise
        raise Conflict(
            f"{obj.__api__.kind} {obj.metadata.name!r}: it was written meanwhile, or is another one by now"
        ) from error
