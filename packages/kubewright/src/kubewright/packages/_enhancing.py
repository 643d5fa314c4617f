"""What KUDO adds to the objects of templates: labels, annotations, and a hash that restarts Pods.

The hash covers the ConfigMaps and Secrets in the volumes of a Pod template, and its pull secrets. It is the same as
that of KUDO.

Follows the enhancer of KUDO 0.19.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubewright.machinery import yaml
from kubewright.machinery.json import JSONObject, copied, is_array, is_object
from kubewright.packages import _names as names

_TEMPLATE: Final = ("spec", "template", "metadata")
_JOB_TEMPLATE: Final = ("spec", "jobTemplate", "spec", "template", "metadata")
_TEMPLATES: Final[Sequence[tuple[str, str, tuple[str, ...]]]] = (
    ("apps", "StatefulSet", _TEMPLATE),
    ("apps", "Deployment", _TEMPLATE),
    ("", "ReplicaSet", _TEMPLATE),
    ("", "ReplicationController", _TEMPLATE),
    ("", "DaemonSet", _TEMPLATE),
    ("batch", "Job", _TEMPLATE),
    ("batch", "CronJob", _JOB_TEMPLATE),
)
"""Where the metadata of Pod templates is, by API group (any, if empty) and kind."""
_VOLATILE: Final = (
    "namespace", "ownerReferences", "resourceVersion", "clusterName", "finalizers", "continue", "creationTimestamp",
    "deletionGracePeriodSeconds", "generateName", "generation", "managedFields", "remainingItemCount", "selfLink",
    "uid", "annotations",
)  # fmt: skip
_CLEARED: Final[JSONObject] = {
    "annotations": {},
    "deletionGracePeriodSeconds": 0,
    "finalizers": [],
    "managedFields": [],
    "ownerReferences": [],
    "remainingItemCount": 0,
}
"""What KUDO writes in place of fields that change."""

Find = Callable[[str, str], Awaitable[JSONObject | None]]
"""Returns a ConfigMap or Secret of the namespace, by kind and name; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an object comes from."""

    operator: str
    operator_version: str
    instance: str
    plan: str
    phase: str
    step: str
    uid: str
    """The uid of the plan's execution."""


def enhance(document: JSONObject, origin: Origin) -> None:
    """Add KUDO's labels and annotations to an object and its Pod templates."""
    labels = {
        names.HERITAGE_LABEL: names.HERITAGE,
        names.OPERATOR_LABEL: origin.operator,
        names.INSTANCE_LABEL: origin.instance,
    }
    _add(document, ("metadata", "labels"), labels)
    for path in _template_paths(document):
        _add(document, (*path, "labels"), labels)
        _add(document, (*path, "annotations"), {names.OPERATOR_VERSION_ANNOTATION: origin.operator_version})
    for claim in _claims(document):
        _add(claim, ("metadata", "labels"), labels)
    annotations = {
        names.PLAN_ANNOTATION: origin.plan,
        names.PHASE_ANNOTATION: origin.phase,
        names.STEP_ANNOTATION: origin.step,
        names.PLAN_UID_ANNOTATION: origin.uid,
    }
    _add(document, ("metadata", "annotations"), annotations)


async def add_hashes(documents: Sequence[JSONObject], find: Find) -> None:
    """Add the hash of its dependencies to each Pod template.

    A dependency is one of the documents, or else what `find` returns.
    """
    made = {(each["kind"], each["metadata"]["name"]): each for each in documents if each["apiVersion"] == "v1"}
    for document in documents:
        needed = sorted(_dependencies(document))
        if not needed:
            continue
        digest = hashlib.md5(usedforsecurity=False)
        for kind, name in needed:
            found = made.get((kind, name)) or await find(kind, name)
            digest.update(_hash(found))
        for path in _template_paths(document):
            _add(document, (*path, "annotations"), {names.DEPENDENCIES_HASH_ANNOTATION: digest.hexdigest()})


def _hash(document: JSONObject | None) -> bytes:
    """Return the hash of a dependency; zeros if it does not exist, or is exempt."""
    if document is None or names.SKIP_HASH_ANNOTATION in _at(document, ("metadata", "annotations")):
        return bytes(16)
    metadata = {key: value for key, value in document["metadata"].items() if key not in _VOLATILE}
    content = {**_stored(document), "apiVersion": "", "kind": "", "metadata": {**copied(metadata), **_CLEARED}}
    text = yaml.dump({"object": content})
    return hashlib.md5(text.encode(), usedforsecurity=False).digest()


def _stored(document: JSONObject) -> JSONObject:
    """Return a ConfigMap or Secret as the API server stores it, so that both forms have the same hash."""
    content: JSONObject = copied(document)
    if document["kind"] == "Secret":
        texts = _at(content, ("stringData",))
        content.pop("stringData", None)
        content["type"] = content.get("type") or "Opaque"
        for key, value in texts.items():
            content.setdefault("data", {})[key] = base64.b64encode(str(value).encode()).decode()
    return content


def _dependencies(document: JSONObject) -> Iterator[tuple[str, str]]:
    """Yield the kind and name of the ConfigMaps and Secrets of an object's Pod templates."""
    for path in (("spec", "template", "spec"), ("spec", "jobTemplate", "spec", "template", "spec")):
        pod = _at(document, path)
        for each in _objects(pod.get("imagePullSecrets")):
            yield "Secret", each.get("name", "")
        for volume in _objects(pod.get("volumes")):
            if is_object(found := volume.get("configMap")):
                yield "ConfigMap", found.get("name", "")
            if is_object(found := volume.get("secret")):
                yield "Secret", found.get("secretName", "")


def _template_paths(document: JSONObject) -> Iterator[tuple[str, ...]]:
    group = document["apiVersion"].rpartition("/")[0]
    for wanted, kind, path in _TEMPLATES:
        if kind == document["kind"] and wanted in ("", group):
            yield path


def _claims(document: JSONObject) -> Iterator[JSONObject]:
    if document["kind"] == "StatefulSet":
        yield from _objects(_at(document, ("spec",)).get("volumeClaimTemplates"))


def _objects(value: Any) -> list[JSONObject]:
    return [each for each in value if is_object(each)] if is_array(value) else []


def _at(document: Any, path: Sequence[str]) -> JSONObject:
    """Return the object at a path; an empty one if there is none."""
    for name in path:
        document = document.get(name) if is_object(document) else None
    return document if is_object(document) else {}


def _add(document: JSONObject, path: Sequence[str], values: Mapping[str, str]) -> None:
    """Add values to the map at a path, which is made if needed. Does nothing if something else is in its way."""
    at: Any = document
    for name in path:
        if at.get(name) is None:
            at[name] = {}
        at = at[name]
        if not is_object(at):
            return
    at.update(values)
