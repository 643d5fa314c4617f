"""The class that is the default of a cluster, by an annotation."""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry.registry import Registry


def newest_default(classes: Registry, annotations: Sequence[str]) -> str | None:
    """Return the name of the newest class that one of these annotations marks; None if there is none.

    Of several that were created at the same time, it is the first by name.
    """
    marked = [each for each in classes.read_all() if _is_marked(each, annotations)]
    newest = max(marked, key=lambda each: str(each["metadata"]["creationTimestamp"]), default=None)
    return None if newest is None else str(newest["metadata"]["name"])


def _is_marked(obj: JSONObject, annotations: Sequence[str]) -> bool:
    given = obj["metadata"].get("annotations") or {}
    return any(given.get(each) == "true" for each in annotations)
