"""Queries and paths: what clients ask for."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from random import Random
from typing import Any, Final
from urllib.parse import quote

from hostile import values
from hostile.exchanges import JSON, Exchange, User, request
from hostile.kinds import NAMES, NAMESPACE, TENANT, VAULT, Kind, built_in, kind_of

_KEYS: Final = (
    "a",
    "a.b/c",
    "app",
    "metadata.name",
    "/",
    "a/b/c",
    "A_b",
    "-a",
    "é",
    "",
    "!a",
    "kubernetes.io/metadata.name",
    "x" * 64,
)
_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "status.phase",
    "type",
    "involvedObject.name",
    "reason",
    "spec.unschedulable",
    "status.podIP",
    "spec.a",
    "data.a",
    "metadata.uid",
    "nope",
    "spec.signerName",
    "immutable",
    "involvedObject.fieldPath",
)
_OPERATORS: Final = ("=", "==", "!=", " in ", " notin ", ">", "<", "", " ", " exists ", " IN ", "=!", "===")


def selector(rng: Random) -> str:
    """Return a label selector, mostly valid."""
    terms: list[str] = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        key, operator = rng.choice(_KEYS), rng.choice(_OPERATORS)
        items = ",".join(
            rng.choice(values.TEXTS) if rng.random() < 0.3 else rng.choice("ab1") for _ in range(rng.choice((0, 1, 3)))
        )
        terms.append(
            rng.choice(
                (
                    key,
                    f"!{key}",
                    f"{key}{operator}({items})",
                    f"{key}{operator}{items}",
                    f"{key}{operator}{rng.choice(NAMES)}",
                )
            )
        )
    text = rng.choice((",", ",", ", ", ",,")).join(terms)
    return _damaged_text(rng, text)


def field_selector(rng: Random) -> str:
    items = (*NAMES, NAMESPACE, TENANT, "a\\,b", "a\\=b", "x\\", "")
    operators = ("=", "==", "!=", ">")
    terms = [f"{rng.choice(_FIELDS)}{rng.choice(operators)}{rng.choice(items)}" for _ in range(rng.choice((1, 1, 2)))]
    return _damaged_text(rng, ",".join(terms))


def _damaged_text(rng: Random, text: str) -> str:
    if rng.random() < 0.8:
        return text
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice((*values.TEXTS, "(", ")", ",", "=", "!", "\\", "in")) + text[at:]


def _token(rng: Random) -> str:
    made: Any = {
        "v": "meta.k8s.io/v1",
        "rv": rng.choice((1, 5, -1, "5", None, 2**63)),
        "start": rng.choice(("a\0", "hostile/a\0", "../../vault/a\0", 5, "", "x" * 3000)),
    }
    data = json.dumps(values.mutate(rng, made) if rng.random() < 0.4 else made).encode()
    text = base64.urlsafe_b64encode(data).decode()
    return rng.choice((text, text.rstrip("="), text[:-3], values.scalar(rng), "e30", "bnVsbA", "W10"))


def _costly(rng: Random) -> str:
    """Return a selector with about as many requirements as a server accepts."""
    return ",".join(f"k{number}!=a" for number in range(rng.choice((1500, 1999, 2000, 2001))))


def query(rng: Random) -> str:
    """Return a query string with some of the parameters that the API knows."""
    numbers = (
        "0",
        "1",
        "2",
        "500",
        "-1",
        "",
        "a",
        "1.5",
        "1e3",
        "+1",
        " 1",
        "0x1",
        "9" * 18,
        "9" * 19,
        "9" * 30,
        "9" * 5000,
        "\u0661",
        "true",
    )
    flags = ("true", "false", "1", "0", "", "TRUE", "t", "x")
    choices: dict[str, Sequence[str]] = {
        "labelSelector": (selector(rng), "a=b", "", _costly(rng)),
        "fieldSelector": (field_selector(rng), "metadata.name=a", ""),
        "limit": numbers,
        "continue": (_token(rng),),
        "resourceVersion": numbers,
        "resourceVersionMatch": ("Exact", "NotOlderThan", "", "exact", "x"),
        "timeoutSeconds": ("1", *numbers),
        "timeout": ("1s", "1m", "a", "-1s", "1", "9" * 40 + "h"),
        "watch": flags,
        "allowWatchBookmarks": flags,
        "sendInitialEvents": flags,
        "pretty": flags,
        "dryRun": ("All", "", "None", "all"),
        "fieldManager": ("x", "y" * 129, "\x01", "é" * 100, ""),
        "fieldValidation": ("Strict", "Warn", "Ignore", "strict", ""),
        "force": flags,
        "gracePeriodSeconds": numbers,
        "propagationPolicy": ("Foreground", "Background", "Orphan", "x", ""),
        "orphanDependents": flags,
        "includeUninitialized": flags,
        "export": flags,
        "exact": flags,
        "ignoreStoreReadErrorWithClusterBreakingPotential": flags,
        "container": ("a", "", "../a"),
        "follow": ("false", "x"),
        "tailLines": numbers,
        "sinceSeconds": numbers,
        "sinceTime": ("2026-01-01T00:00:00Z", "x", ""),
        "limitBytes": numbers,
        "stream": ("Stdout", "x", "All"),
        "previous": flags,
        "timestamps": flags,
        "command": ("a", ""),
        "stdin": flags,
        "stdout": flags,
        "tty": flags,
        "ports": numbers,
        "path": values.TEXTS,
        "verbose": flags,
        "exclude": ("ping", "x"),
        "includeObject": ("Metadata", "Object", "None", "x", ""),
    }
    names = rng.sample(sorted(choices), rng.choice((1, 2, 3, 6)))
    if "watch" in names or rng.random() < 0.3:
        names = [*names, "timeoutSeconds"]
    pairs = [f"{name}={_quoted(rng, str(rng.choice(choices[name])))}" for name in names]
    if rng.random() < 0.1:
        pairs.append(
            rng.choice(("%", "%zz=%zz", "=", "&&", "a;b", "a=b=c", "%00=%00", "\u00e9", "limit", "watch", "?", "#"))
            .encode()
            .decode("latin-1")
        )
    return "&".join(pairs)


def _quoted(rng: Random, text: str) -> str:
    if rng.random() < 0.9:
        return quote(text.encode("utf-8", "surrogatepass"), safe="")
    return quote(text.encode("utf-8", "surrogatepass"), safe="/,=!()+%:;@*$")


_READ_ACCEPTS: Final = (
    JSON,
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
    "*/*",
    "",
    "a",
    ",",
    ";",
    "application/json;q=x",
    "application/json;q=9e999",
    "application/json;as=Table;v=v9;g=x, application/json",
    "text/plain",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,*/*;q=0.1",
    '"',
    "application/*;as",
    "application/json;profile=nopeer",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
    "application/cbor-seq",
)


def queries(rng: Random) -> list[Exchange]:
    """Read, watch, write and delete with query parameters."""
    kind = _often(rng)
    document, name = kind.named(rng)
    sent = [request("POST", kind.path(), values.text(rng, document), type=JSON)] if rng.random() < 0.4 else []
    for _ in range(rng.choice((1, 2, 4))):
        user: User = rng.choice(("admin", "admin", "admin", "tenant"))
        namespace = NAMESPACE if user == "admin" else TENANT
        path = kind.path(namespace)
        if kind.namespaced and rng.random() < 0.2:
            path = path.replace(f"/namespaces/{namespace}", "")
        accept = [("Accept", rng.choice(_READ_ACCEPTS))]
        target = rng.choice(
            (path, path, f"{path}/{name}", f"{path}/{name}/{rng.choice(kind.subresources or ('status',))}")
        )
        method = rng.choice(("GET", "GET", "GET", "HEAD", "DELETE", "POST", "PUT"))
        if method == "DELETE" and (target == path or user == "tenant"):
            method = "GET" if not kind.namespaced or target.count("/namespaces/") == 0 else method
        body = values.text(rng, document) if method in ("POST", "PUT") else b""
        sent.append(
            request(method, f"{target}?{query(rng)}", body, type=JSON if body else "", headers=accept, user=user)
        )
    return sent


def _often(rng: Random) -> Kind:
    if rng.random() < 0.5:
        return kind_of(
            rng.choice(
                (
                    "configmaps",
                    "pods",
                    "events",
                    "secrets",
                    "services",
                    "deployments",
                    "customresourcedefinitions",
                    "nodes",
                )
            )
        )
    return rng.choice(built_in())


# Paths

_SEGMENTS: Final = (
    "api",
    "apis",
    "v1",
    "v1beta1",
    "apps",
    "namespaces",
    "pods",
    "configmaps",
    "secrets",
    "watch",
    "proxy",
    "status",
    "log",
    "exec",
    "scale",
    NAMESPACE,
    VAULT,
    "default",
    "kube-system",
    "a",
    "",
    ".",
    "..",
    "%2e%2e",
    "%2F",
    "%00",
    "%",
    "%zz",
    "%e9",
    "%C3%A9",
    "%ED%A0%80",
    "*",
    "~",
    ";a=b",
    "a:b",
    "a%3Fb",
    "a%23b",
    "nodes",
    "healthz",
    "livez",
    "readyz",
    "metrics",
    "openapi",
    "v2",
    "v3",
    "openid",
    "jwks",
    ".well-known",
    "version",
    "logs",
    "debug",
    "pprof",
    "a" * 300,
    "customresourcedefinitions",
    "hostile.example.com",
    "apples",
    "finalize",
    "token",
    "secret",
    "\u00e9",
    "%252e",
    "services",
    "kubernetes",
    "etcd",
    "ping",
    "poststarthook",
)


def paths(rng: Random) -> list[Exchange]:
    """Ask for paths that nearly exist, as several users. Only tenants and strangers ask for the vault."""
    sent: list[Exchange] = []
    for _ in range(rng.choice((1, 2, 4))):
        user: User = rng.choice(("tenant", "tenant", "anonymous", "admin"))
        target = _target(rng, user)
        method = rng.choice(
            ("GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY", "PURGE")
        )
        if user == "admin":
            if VAULT in target or TENANT in target:
                target = target.replace(VAULT, NAMESPACE).replace(TENANT, NAMESPACE)
            method = "GET" if method == "DELETE" else method
        if rng.random() < 0.2:
            target += f"?{query(rng)}"
        body = b'{"metadata":{"name":"hostile-a"}}' if method in ("POST", "PUT", "PATCH") else b""
        type = rng.choice((JSON, "application/merge-patch+json", "application/apply-patch+yaml")) if body else ""
        sent.append(
            request(method, target, body, type=type, headers=[("Accept", rng.choice(_READ_ACCEPTS))], user=user)
        )
    return sent


def _target(rng: Random, user: User) -> str:
    pick = rng.random()
    if pick < 0.15:
        return "/" + "/".join(rng.choice(_SEGMENTS) for _ in range(rng.randrange(7)))
    kind = _often(rng)
    namespace = rng.choice((VAULT, TENANT, NAMESPACE)) if user != "admin" else NAMESPACE
    parts = kind.path(namespace).split("/")
    parts += rng.choice(
        (
            [],
            ["treasure"],
            ["hostile-a"],
            ["treasure", rng.choice(("status", "log", "proxy", "token", "exec", "scale", "x"))],
        )
    )
    for _ in range(rng.choice((0, 1, 1, 2))):
        at = rng.randrange(1, len(parts) + 1)
        change = rng.randrange(5)
        if change == 0:
            parts.insert(at, rng.choice(_SEGMENTS))
        elif change == 1 and at < len(parts):
            del parts[at]
        elif change == 2 and at < len(parts):
            parts[at] = rng.choice(_SEGMENTS)
        elif change == 3 and at < len(parts):
            parts[at] = "".join(f"%{each:02{rng.choice('xX')}}" for each in parts[at].encode())
        else:
            parts[at:at] = rng.choice(
                ([".."], ["..", TENANT], ["watch"], ["namespaces", VAULT], ["%2e%2e", VAULT], ["", ""])
            )
    return "/".join(parts) or "/"
