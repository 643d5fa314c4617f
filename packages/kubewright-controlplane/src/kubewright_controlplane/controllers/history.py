"""The history of a StatefulSet's or DaemonSet's Pod template, as ControllerRevisions.

The data of a revision is a patch that restores the template, as `kubectl rollout undo` sends it. Its name ends with a
hash of that data. So a template has one revision, even if the controller restarts between two writes. A template that
was used before gets its old revision with a new number.

Follows kubernetes/pkg/controller/history.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from kubewright.apis.apps.v1 import ControllerRevision
from kubewright.apis.core.v1 import PodTemplateSpec
from kubewright.apis.meta.v1 import LabelSelector, ObjectMeta, owner_reference
from kubewright.client._client import Client
from kubewright.client._patch import MergePatch
from kubewright.controllers import Context
from kubewright.machinery.errors import AlreadyExists
from kubewright.machinery.json import JSONObject
from kubewright.models import Object
from kubewright_controlplane.controllers.claims import Claims
from kubewright_controlplane.controllers.hashing import short_hash

T = TypeVar("T", bound=Object)

HASH: Final = "controller.kubernetes.io/hash"
"""The label of a StatefulSet's revision with the end of its name."""
REVISION_HASH: Final = "controller-revision-hash"
"""The label of a Pod with the name of its revision, and of a DaemonSet's revision with the end of its name."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The data of a revision."""

    template: PodTemplateSpec
    selector: LabelSelector
    annotations: Mapping[str, str]
    collisions: int
    hash_label: str
    """The label of a revision with the end of its name."""


@dataclass(frozen=True, slots=True)
class Revisions:
    """The revisions of an object, oldest first. The newest has the current template."""

    revisions: Sequence[ControllerRevision]
    collisions: int

    @property
    def newest(self) -> ControllerRevision:
        return self.revisions[-1]

    def named(self, name: str | None) -> ControllerRevision | None:
        return next((each for each in self.revisions if each.metadata.name == name), None)


class History:
    """Keeps the revisions of objects with a Pod template."""

    def __init__(self, live: Client) -> None:
        """`live` reads from the server where the cache is not enough."""
        self._live = live
        self._claims = Claims(live)

    async def of(self, ctx: Context[T], present: Snapshot) -> Revisions:
        """Return all revisions, including one for the current template."""
        revisions = _in_order(await self._claims.of(ctx, ControllerRevision, present.selector))
        number = (revisions[-1].revision if revisions else 0) + 1
        same = [each for each in revisions if _comparable(template_of(each)) == _comparable(present.template)]
        if not same:
            return await self._with_new(ctx, present, revisions, number)
        if same[-1] is not revisions[-1]:
            metadata = {"resourceVersion": same[-1].metadata.resource_version}
            renumbered = await ctx.patch(same[-1], MergePatch({"metadata": metadata, "revision": number}))
            revisions = [each for each in revisions if each is not same[-1]] + [renumbered]
        return Revisions(revisions, present.collisions)

    async def _with_new(
        self, ctx: Context[T], present: Snapshot, revisions: Sequence[ControllerRevision], number: int
    ) -> Revisions:
        """Create a revision. If another object has its name, tries other names."""
        collisions = present.collisions
        while True:
            desired = _revision(ctx.object, present, collisions, number)
            try:
                return Revisions([*revisions, await ctx.client.create(desired)], collisions)
            except AlreadyExists:
                taken = await self._live.get(
                    ControllerRevision, desired.metadata.name, namespace=desired.metadata.namespace
                )
                ours = any(each.uid == ctx.object.metadata.uid for each in taken.metadata.owner_references)
                if ours and _comparable(template_of(taken)) == _comparable(present.template):
                    # created just now, and the cache does not show it yet
                    return Revisions([*revisions, taken], collisions)
                collisions += 1

    async def forget(self, ctx: Context[T], past: Revisions, live: Collection[str], limit: int | None) -> None:
        """Delete the oldest revisions beyond `limit`, except the newest and those named in `live`."""
        old = [each for each in past.revisions[:-1] if each.metadata.name not in live]
        for each in old[: max(0, len(old) - (10 if limit is None else limit))]:
            await ctx.delete(each)


def template_of(revision: ControllerRevision) -> PodTemplateSpec:
    """Return the Pod template of a revision."""
    template = (revision.data or {}).get("spec", {}).get("template", {})
    return msgspec.json.decode(msgspec.json.encode(template), type=PodTemplateSpec)


def hash_of(revision: ControllerRevision) -> str:
    """Return the end of the name of a revision."""
    labels = revision.metadata.labels
    return labels.get(REVISION_HASH) or labels.get(HASH, "")


def _revision(owner: Object, present: Snapshot, collisions: int, number: int) -> ControllerRevision:
    content = _comparable(present.template)
    hashed = short_hash(content + (str(collisions).encode() if collisions else b""))
    template: JSONObject = {"$patch": "replace", **msgspec.json.decode(content)}  # in order: clients compare bytes
    data: dict[str, Any] = {"spec": {"template": template}}
    return ControllerRevision(
        metadata=ObjectMeta(
            name=f"{owner.metadata.name[:223]}-{hashed}",
            namespace=owner.metadata.namespace,
            labels={**present.template.metadata.labels, present.hash_label: hashed},
            annotations=dict(present.annotations),
            owner_references=[owner_reference(owner)],
        ),
        data=data,
        revision=number,
    )


def _in_order(revisions: Sequence[ControllerRevision]) -> list[ControllerRevision]:
    return sorted(
        revisions, key=lambda each: (each.revision, str(each.metadata.creation_timestamp), each.metadata.name)
    )


def _comparable(template: PodTemplateSpec) -> bytes:
    return msgspec.json.encode(msgspec.to_builtins(template), order="sorted")
