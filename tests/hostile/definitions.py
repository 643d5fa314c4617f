"""CustomResourceDefinitions, their custom resources, and admission policies."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from hostile import values
from hostile.documents import ACCEPTS, PATCHES, QUERIES, encoded, hostile_document, pointer
from hostile.exchanges import JSON, Exchange, request
from hostile.expressions import expression
from hostile.kinds import NAMES, NAMESPACE, kind_of
from kubewright.machinery.json import JSONObject

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TYPES: Final = ("string", "integer", "number", "boolean", "object", "array", "null", "")
_FORMATS: Final = (
    "int32",
    "int64",
    "float",
    "double",
    "byte",
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "uri",
    "uuid",
    "mac",
    "password",
    "int-or-string",
    "quantity",
    "bsonobjectid",
    "isbn",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "k8s-short-name",
    "k8s-long-name",
    "datetime",
    "unknown",
)


def schema(rng: Random, depth: int = 0) -> JSONObject:
    """Return a random structural schema, mostly valid."""
    kind = rng.choice(
        _TYPES[:5] if depth > 3 else ("object", "object", "array", *_TYPES[:4]) if rng.random() < 0.97 else _TYPES
    )
    made: JSONObject = {"type": kind}
    if kind == "object":
        _fill_object(rng, made, depth)
    elif kind == "array":
        made["items"] = schema(rng, depth + 1)
        _some(
            rng,
            made,
            {
                "minItems": 1,
                "maxItems": rng.choice((0, 3, 10)),
                "uniqueItems": False,
                "x-kubernetes-list-type": "atomic",
            },
        )
        if rng.random() < 0.3:
            made["items"] = {
                "type": "object",
                "required": ["k"],
                "properties": {"k": {"type": "string"}, "v": schema(rng, depth + 2)},
            }
            made |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
        elif rng.random() < 0.2:
            made["items"] = {"type": "string"}
            made["x-kubernetes-list-type"] = "set"
    elif kind == "string":
        pattern = rng.choice(
            ("^a", "[a-z]+", "^(a|b)*$", "(?i)x", "\\p{L}", "(", "a{1000}", "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
        )
        _some(
            rng,
            made,
            {
                "minLength": 1,
                "maxLength": rng.choice((0, 5, 100)),
                "pattern": pattern,
                "format": rng.choice(_FORMATS),
                "enum": ["a", "b"],
            },
        )
    elif kind in ("integer", "number"):
        _some(
            rng,
            made,
            {
                "minimum": rng.choice((0, -1.5)),
                "maximum": rng.choice((10, 2**63)),
                "multipleOf": rng.choice((2, 0.1)),
                "exclusiveMinimum": True,
                "format": rng.choice(("int32", "int64", "double")),
                "enum": [1, 2],
            },
        )
    if rng.random() < 0.15:
        made["nullable"] = True
    if rng.random() < 0.25:
        made["default"] = _fitting(rng, made) if rng.random() < 0.8 else values.scalar(rng)
    if rng.random() < 0.25:
        made["x-kubernetes-validations"] = [_rule(rng) for _ in range(rng.choice((1, 2)))]
    if rng.random() < 0.1:
        made |= rng.choice(
            (
                {"anyOf": [{"minimum": 1}, {"required": ["a"]}]},
                {"not": {"required": ["b"]}},
                {"oneOf": [{"pattern": "a"}]},
                {"allOf": [{"maxLength": 3}]},
                {"x-kubernetes-int-or-string": True},
                {"title": "t", "description": "d", "example": {}},
            )
        )
    return made


def _fill_object(rng: Random, made: JSONObject, depth: int) -> None:
    pick = rng.random()
    if pick < 0.75:
        names = rng.sample(
            ("a", "b", "c", "spec", "x-y", "__a", "status", "namespace", "in", "é", "metadata", "kind"),
            rng.choice((1, 2, 3)),
        )
        made["properties"] = {name: schema(rng, depth + 1) for name in names}
        _some(rng, made, {"required": [names[0]], "minProperties": 1, "maxProperties": 5})
    elif pick < 0.9:
        made["additionalProperties"] = schema(rng, depth + 1)
    else:
        made["x-kubernetes-preserve-unknown-fields"] = True
    _some(
        rng,
        made,
        {"x-kubernetes-embedded-resource": True, "x-kubernetes-map-type": rng.choice(("atomic", "granular"))},
        0.05,
    )


def _some(rng: Random, made: JSONObject, options: JSONObject, share: float = 0.2) -> None:
    made.update({key: item for key, item in options.items() if rng.random() < share})


def _rule(rng: Random) -> JSONObject:
    rule: JSONObject = {"rule": expression(rng)}
    _some(
        rng,
        rule,
        {
            "message": "no",
            "messageExpression": expression(rng, "string"),
            "reason": "FieldValueInvalid",
            "fieldPath": ".a",
            "optionalOldSelf": True,
        },
    )
    return rule


def _fitting(rng: Random, schema: JSONObject, depth: int = 0) -> Any:
    """Return a value that fits a schema, more or less."""
    if schema.get("enum") and rng.random() < 0.7:
        return rng.choice(schema["enum"])
    if "default" in schema and rng.random() < 0.2:
        return schema["default"]
    kind = schema.get("type")
    if kind == "object":
        properties: JSONObject = schema.get("properties") or {}
        made = {name: _fitting(rng, item, depth + 1) for name, item in properties.items() if rng.random() < 0.8}
        if isinstance(schema.get("additionalProperties"), dict):
            made |= {
                name: _fitting(rng, schema["additionalProperties"], depth + 1)
                for name in ("x", "y/z")[: rng.choice((0, 1, 2))]
            }
        if schema.get("x-kubernetes-embedded-resource"):
            made |= {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
        return made
    if kind == "array":
        return [_fitting(rng, schema.get("items") or {}, depth + 1) for _ in range(rng.choice((0, 1, 2, 3)))]
    if kind == "integer":
        return rng.choice((0, 1, 2, 10, 2**31, 2**63 - 1))
    if kind == "number":
        return rng.choice((0, 1, 0.5, 1e300))
    if kind == "boolean":
        return rng.random() < 0.5
    return rng.choice(("a", "b", "", "ab", "2026-01-01T00:00:00Z", "1h", "1.2.3.4", *values.TEXTS))


COLUMN_PATHS: Final = (
    ".spec.a",
    ".metadata.name",
    ".spec.b[0].k",
    ".spec.c[?(@.k=='a')].v",
    ".spec['x-y']",
    ".a..b",
    "{.spec}",
    ".spec.b[*]",
    ".spec.b[-1:]",
    ".spec.b[::2]",
    ".",
    "",
    "..",
    ".spec.b[?(@.v>1)]",
    '.status.conditions[?(@.type=="Ready")].status',
    ".spec.b[1",
    "spec",
    ".spec\\.a",
)


def definition(rng: Random, plural: str, group: str) -> JSONObject:
    """Return a random CustomResourceDefinition, mostly valid."""
    names = rng.sample(("v1", "v1beta1", "v2", "v1alpha1"), rng.choice((1, 1, 2)))
    versions: list[JSONObject] = []
    for number, name in enumerate(names):
        root = {
            "type": "object",
            "properties": {"spec": schema(rng, 1) if rng.random() < 0.8 else schema(rng), "status": schema(rng, 2)},
        }
        version: JSONObject = {
            "name": name,
            "served": True,
            "storage": number == 0,
            "schema": {"openAPIV3Schema": root},
        }
        if rng.random() < 0.4:
            version["subresources"] = {"status": {}}
            if rng.random() < 0.5:
                version["subresources"]["scale"] = {
                    "specReplicasPath": ".spec.a",
                    "statusReplicasPath": ".status.a",
                    "labelSelectorPath": ".status.b",
                }
        if rng.random() < 0.5:
            version["additionalPrinterColumns"] = [
                {
                    "name": f"c{index}",
                    "type": rng.choice(("string", "integer", "date", "number", "boolean", "x")),
                    "jsonPath": rng.choice(COLUMN_PATHS),
                    **({"priority": 1, "format": "int32"} if rng.random() < 0.2 else {}),
                }
                for index in range(2)
            ]
        if rng.random() < 0.2:
            version["selectableFields"] = [{"jsonPath": rng.choice((".spec.a", ".spec.b", ".status.c"))}]
        if rng.random() < 0.1:
            version |= {"deprecated": True, "deprecationWarning": rng.choice(("w", "w" * 300, "é\n"))}
        versions.append(version)
    spec: JSONObject = {
        "group": group,
        "scope": rng.choice(("Namespaced", "Namespaced", "Cluster")),
        "versions": versions,
        "names": {
            "plural": plural,
            "singular": plural[:-1],
            "kind": plural.title()[:-1],
            "listKind": f"{plural.title()[:-1]}List",
        },
    }
    if rng.random() < 0.15:
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/convert"}}
        spec["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    if rng.random() < 0.05:
        spec["preserveUnknownFields"] = True
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": spec,
    }


def define_kinds(rng: Random) -> list[Exchange]:
    """Define a kind, write its objects, change the definition, and read everything in all forms."""
    group, plural = "hostile.example.com", rng.choice(("apples", "pears", "plums"))
    made = definition(rng, plural, group)
    sent_definition = hostile_document(rng, made) if rng.random() < 0.3 else made
    target = f"{CRDS}/{plural}.{group}"
    sent = [request("DELETE", target), request("POST", CRDS, values.text(rng, sent_definition), type=JSON)]
    sent += _write_custom(rng, made)
    if rng.random() < 0.4:
        changed = (
            values.mutate(rng, made["spec"], rng.choice((1, 2, 3)))
            if rng.random() < 0.5
            else definition(rng, plural, group)["spec"]
        )
        sent.append(request("PATCH", target, values.text(rng, {"spec": changed}), type=PATCHES["merge"]))
        sent += _write_custom(rng, made)
    return sent


def _write_custom(rng: Random, made: JSONObject) -> list[Exchange]:
    spec = made["spec"]
    version = rng.choice(spec["versions"])
    place = f"namespaces/{NAMESPACE}/" if spec["scope"] == "Namespaced" else ""
    path = f"/apis/{spec['group']}/{version['name']}/{place}{spec['names']['plural']}"
    root = version["schema"]["openAPIV3Schema"]
    sent: list[Exchange] = []
    for name in ("one", "two"):
        fields = _fitting(rng, root)
        head = {"apiVersion": f"{spec['group']}/{version['name']}", "kind": spec["names"]["kind"]}
        document: JSONObject = head | {"metadata": {"name": name}} | fields
        data, type = encoded(rng, hostile_document(rng, document) if rng.random() < 0.5 else document)
        sent.append(request("POST", path + rng.choice(QUERIES), data, type=type))
        form = rng.choice(("json", "merge", "apply", "strategic"))
        if form == "json":
            found = list(values.paths(document))
            patch: Any = [
                {
                    "op": rng.choice(("add", "replace", "test")),
                    "path": pointer(rng.choice(found)),
                    "value": values.scalar(rng),
                }
            ]
        else:
            patch = head | {"metadata": {"name": name}} | _fitting(rng, root)
            patch = hostile_document(rng, patch) if rng.random() < 0.4 else patch
        sub = rng.choice(("", "", "", "/status", "/scale"))
        sent.append(
            request(
                "PATCH",
                f"{path}/{name}{sub}?fieldManager={rng.choice('xy')}" + "&force=1" * (form == "apply"),
                values.text(rng, patch),
                type=PATCHES[form],
            )
        )
    sent.append(request("GET", path, headers=[("Accept", rng.choice(ACCEPTS))]))
    sent.append(request("GET", f"{path}/one", headers=[("Accept", rng.choice(ACCEPTS))]))
    return sent


def policies(rng: Random) -> list[Exchange]:
    """Create admission policies, webhooks and other objects with expressions, and an object that they concern."""
    match = {
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]
    }
    kind = kind_of(rng.choice(("validatingadmissionpolicies", "mutatingadmissionpolicies")))
    validating = kind.plural.startswith("v")
    spec: JSONObject = {"matchConstraints": match, "failurePolicy": rng.choice(("Fail", "Ignore"))}
    conditions = [{"name": "c", "expression": expression(rng, "bool", "object")}]
    _some(
        rng,
        spec,
        {"matchConditions": conditions, "variables": [{"name": "v", "expression": expression(rng, "any", "object")}]},
        0.4,
    )
    if validating:
        spec["validations"] = [
            {"expression": expression(rng, "bool", "object"), "messageExpression": expression(rng, "string", "object")}
        ]
        _some(rng, spec, {"auditAnnotations": [{"key": "k", "valueExpression": expression(rng, "string", "object")}]})
    else:
        spec["reinvocationPolicy"] = "Never"
        applied = expression(rng, "apply", "object")
        form = rng.choice(("ApplyConfiguration", "JSONPatch"))
        key = "applyConfiguration" if form == "ApplyConfiguration" else "jsonPatch"
        spec["mutations"] = [{"patchType": form, key: {"expression": applied}}]
    document = {
        "apiVersion": kind.gvk.api_version,
        "kind": kind.gvk.kind,
        "metadata": {"name": "hostile"},
        "spec": spec,
    }
    binding = kind_of(f"{kind.plural[:-8]}policybindings")
    bound: JSONObject = {"policyName": "hostile"} | (
        {"validationActions": [rng.choice(("Deny", "Warn", "Audit"))]} if validating else {}
    )
    bound_document = {
        "apiVersion": kind.gvk.api_version,
        "kind": binding.gvk.kind,
        "metadata": {"name": "hostile"},
        "spec": bound,
    }
    sent = [
        request(
            "POST",
            kind.path(),
            values.text(rng, hostile_document(rng, document) if rng.random() < 0.2 else document),
            type=JSON,
        ),
        request("POST", binding.path(), values.text(rng, bound_document), type=JSON),
    ]
    maps = kind_of("configmaps")
    for _ in range(2):
        data = {"a": rng.choice(values.TEXTS), rng.choice("bcd"): "1"}
        made = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"hostile-{rng.choice(NAMES)}", "labels": {"a": "b"}},
            "data": data,
        }
        sent.append(request("POST", maps.path() + rng.choice(("", "?dryRun=All")), values.text(rng, made), type=JSON))
    sent += [request("DELETE", f"{kind.path()}/hostile"), request("DELETE", f"{binding.path()}/hostile")]
    return sent
