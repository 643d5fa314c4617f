"""Bodies and patches of built-in kinds: documents that clients write."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from hostile import values
from hostile.exchanges import JSON, Exchange, request
from hostile.kinds import NAMESPACE, Kind, built_in, random_change, random_document
from kubewright.machinery.errors import DecodeError
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver import protobuf

YAML: Final = "application/yaml"
PATCHES: Final = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
QUERIES: Final = ("", "", "?fieldValidation=Strict", "?fieldValidation=Ignore", "?dryRun=All", "?fieldManager=x")
ACCEPTS: Final = (
    JSON,
    JSON,
    YAML,
    protobuf.CONTENT_TYPE,
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "*/*",
    "application/cbor",
    "text/html",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
)


def encoded(rng: Random, document: Any) -> tuple[bytes, str]:
    """Return a document in one of the encodings, mostly JSON, and its content type."""
    pick = rng.random()
    if pick < 0.6:
        return values.text(rng, document), JSON
    if pick < 0.75:
        return values.yaml_text(rng, document), YAML
    if pick < 0.9:
        try:
            data = protobuf.encode(values.plain(document))
        except (DecodeError, KeyError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return values.text(rng, document), JSON  # not a document of its kind
        return values.damaged(rng, data, rng.choice((0, 1, 3))), protobuf.CONTENT_TYPE
    types = (
        "application/cbor",
        "",
        "text/plain",
        "application/json; charset=latin-1",
        "APPLICATION/JSON",
        "application/yaml;a=b",
        "a",
        "multipart/form-data",
    )
    data = b"\xd9\xd9\xf7" + rng.randbytes(30) if rng.random() < 0.3 else values.text(rng, document)
    return data, rng.choice(types)


def hostile_document(rng: Random, document: Any) -> Any:
    """Change a valid document, or leave it as it is."""
    pick = rng.random()
    if pick < 0.15:
        return document
    if pick < 0.8:
        return values.mutate(rng, document, rng.choice((1, 1, 2, 4)), keep=("apiVersion", "kind") if pick < 0.7 else ())
    return values.twice(rng, document) if pick < 0.92 else values.insert_broken(rng, document)


def _document(rng: Random, kind: Kind) -> tuple[JSONObject, str]:
    document, name = kind.named(rng)
    pick = rng.random()
    if pick < 0.3:
        document = random_document(rng, kind)
    elif pick < 0.6:
        document = _merged(document, random_change(rng, kind))
    if rng.random() < 0.7:
        document["metadata"] = (
            document["metadata"] | {"name": name} if isinstance(document.get("metadata"), dict) else {}
        )
    return document, name


def _merged(document: Any, change: Any) -> Any:
    """Return a document with the values of a change in it. Of lists, the first items are merged."""
    if isinstance(document, dict) and isinstance(change, dict):
        return document | {key: _merged(document.get(key), item) for key, item in change.items()}
    if isinstance(document, list) and isinstance(change, list) and document and change:
        return [_merged(document[0], change[0]), *document[1:]]
    return change


def write_objects(rng: Random) -> list[Exchange]:
    """Create an object of a built-in kind, change it, and sometimes write its status, read it and delete it."""
    kind = rng.choice(built_in())
    document, name = _document(rng, kind)
    data, type = encoded(rng, hostile_document(rng, document))
    sent = [request("POST", kind.path() + rng.choice(QUERIES), data, type=type, headers=_accept(rng))]
    below = f"{kind.path()}/{name}"
    if rng.random() < 0.4:
        second, _ = kind.named(rng, name)
        sent.append(request("POST", kind.path(), values.text(rng, second), type=JSON))
        data, type = encoded(rng, hostile_document(rng, _merged(second, random_change(rng, kind))))
        sent.append(request("PUT", below + rng.choice(QUERIES), data, type=type))
    if kind.subresources and rng.random() < 0.4:
        sub = rng.choice(kind.subresources)
        data, type = encoded(rng, hostile_document(rng, _subresource_document(rng, kind, document, sub)))
        sent.append(request(rng.choice(("PUT", "POST", "PATCH", "GET")), f"{below}/{sub}", data, type=type))
    if rng.random() < 0.3:
        sent.append(request("GET", below, headers=[("Accept", rng.choice(ACCEPTS))]))
    if rng.random() < 0.3:
        sent.append(_delete(rng, below))
    return sent


def _accept(rng: Random) -> list[tuple[str, str]]:
    return [("Accept", rng.choice(ACCEPTS))] if rng.random() < 0.3 else []


def _subresource_document(rng: Random, kind: Kind, document: JSONObject, sub: str) -> Any:
    metadata = document["metadata"] if isinstance(document.get("metadata"), dict) else {}
    meta = {"name": metadata.get("name"), "namespace": NAMESPACE}
    special: dict[str, JSONObject] = {
        "scale": {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta, "spec": {"replicas": 3}},
        "eviction": {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": meta,
            "deleteOptions": {"dryRun": ["All"]},
        },
        "binding": {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": {"kind": "Node", "name": "a"}},
        "token": {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": ["a"], "expirationSeconds": 600},
        },
    }
    if sub in special:
        return special[sub]
    return _merged(document, {"status": random_document(rng, kind).get("status", {})})


def _delete(rng: Random, target: str) -> Exchange:
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": rng.choice(("Foreground", "Background", "Orphan")),
        "gracePeriodSeconds": rng.choice((0, 1, -1)),
        "preconditions": {"uid": "a", "resourceVersion": "5"},
        "dryRun": ["All"],
    }
    chosen = {key: item for key, item in options.items() if rng.random() < 0.5}
    data, type = encoded(rng, hostile_document(rng, chosen) if chosen else {})
    return request("DELETE", target, data if rng.random() < 0.7 else b"", type=type)


# Patches


def patch_objects(rng: Random) -> list[Exchange]:
    """Create an object and patch it."""
    kind = rng.choice([each for each in built_in() if "patch" in each.verbs])
    document, name = kind.named(rng)
    sent = [request("POST", kind.path(), values.text(rng, document), type=JSON)]
    target = f"{kind.path()}/{name}" + (
        f"/{rng.choice(kind.subresources)}" if kind.subresources and rng.random() < 0.2 else ""
    )
    return sent + [_patch(rng, kind, document, target) for _ in range(rng.choice((1, 1, 2, 3)))]


def _patch(rng: Random, kind: Kind, document: JSONObject, target: str) -> Exchange:
    form = rng.choice(tuple(PATCHES))
    make: dict[str, Callable[[Random, Kind, JSONObject], Any]] = {
        "json": _json_patch,
        "merge": _merge_patch,
        "strategic": _strategic_patch,
        "apply": _configuration,
    }
    patch = make[form](rng, kind, document)
    patch = hostile_document(rng, patch) if patch and rng.random() < 0.4 else patch
    data = values.yaml_text(rng, patch) if form == "apply" and rng.random() < 0.5 else values.text(rng, patch)
    if rng.random() < 0.05:
        data = values.damaged(rng, data)
    options = rng.choice(
        ("fieldManager=x", "fieldManager=y&force=true", "fieldManager=z&force=1&dryRun=All", "")
        if form == "apply"
        else ("", "", "fieldManager=x", "fieldValidation=Strict", "force=true")
    )
    return request(
        "PATCH", f"{target}?{options}" if options else target, data, type=PATCHES[form], headers=_accept(rng)
    )


def pointer(path: values.Path) -> str:
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in path)


def _json_patch(rng: Random, kind: Kind, document: JSONObject) -> Any:
    found = list(values.paths(document))
    operations: list[Any] = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        operation: JSONObject = {"op": rng.choice(("add", "remove", "replace", "move", "copy", "test"))}
        operation["path"] = pointer(rng.choice(found)) + rng.choice(
            ("", "", "", "/-", "/0", "/-1", "/x", "/01", "/9999999999999999999999")
        )
        if operation["op"] in ("move", "copy"):
            operation["from"] = pointer(rng.choice(found))
        elif operation["op"] != "remove":
            change = random_change(rng, kind)
            operation["value"] = rng.choice(
                (values.scalar(rng), change, document, values.get(document, rng.choice(found)))
            )
        operations.append(operation)
    return operations


def _merge_patch(rng: Random, kind: Kind, document: JSONObject) -> Any:
    change = random_change(rng, kind, 0.1)
    return change if rng.random() < 0.7 else _merged(document, change)


_DIRECTIVES: Final = ("$patch", "$retainKeys", "$setElementOrder/", "$deleteFromPrimitiveList/")


def _strategic_patch(rng: Random, kind: Kind, document: JSONObject) -> Any:
    patch = values.copied(_merge_patch(rng, kind, document))
    if rng.random() < 0.6:
        objects = [each for each in (values.get(patch, path) for path in values.paths(patch)) if isinstance(each, dict)]
        if objects:
            chosen, directive = rng.choice(objects), rng.choice(_DIRECTIVES)
            if directive.endswith("/"):
                key = rng.choice(
                    (*(name for name in chosen if isinstance(name, str)), "finalizers", "containers", "ports")
                )
                chosen[directive + key] = rng.choice(
                    (["a"], [{"name": "a"}], [{"name": 5}], "a", {}, None, [None], [["a"]])
                )
            else:
                chosen[directive] = rng.choice(("delete", "replace", "merge", "x", 5, None, ["spec"], [5], {}))
    return patch


def _configuration(rng: Random, kind: Kind, document: JSONObject) -> Any:
    configured = _merged(document, random_change(rng, kind)) if rng.random() < 0.6 else document
    if rng.random() < 0.1 and isinstance(configured.get("metadata"), dict):
        configured["metadata"] = configured["metadata"] | {
            "managedFields": rng.choice(([], [{}], None, [{"fieldsV1": {"f:a": {"k:{": {}}}}]))
        }
    return {key: item for key, item in configured.items() if key != "status" or rng.random() < 0.2}
