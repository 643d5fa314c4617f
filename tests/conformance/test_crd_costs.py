"""The limits of what rules of CustomResourceDefinitions cost."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from conformance.definitions import CRDS, crd
from conformance.rawapi import API, until

SIZED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "maxLength": 20},
        "l": {"type": "array", "maxItems": 7, "items": {"type": "string", "maxLength": 9}},
        "long": {"type": "array", "maxItems": 2000, "items": {"type": "string", "maxLength": 50}},
        "m": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "string", "maxLength": 30}},
        "namespace": {"type": "string", "maxLength": 63},
        "if": {"type": "integer"},
    },
}
MORE_THAN_100 = "more than 100x"


@pytest.mark.parametrize(
    ("rule", "factor"),
    [
        ("self.m.all(k, k.contains('*'))", ""),
        ("self.m.all(k, self.m[k].contains('*'))", ""),
        ("self.a.split(',').all(part, part.size() > 3)", ""),
        ("self.l.join(',').contains('zz')", ""),
        ("self.l.map(each, each + 'a').all(each, each.contains('b'))", ""),
        ("(self.l + self.l).all(each, each.startsWith('abcdef'))", ""),
        ("{'a': self.a}.all(k, k.contains('b'))", ""),
        ("self.namespace.size() > 1 && self.__if__ > 1", ""),
        ("!has(self.namespace) || self.__namespace__ == 'b'", ""),
        ("self.?a.orValue('').contains('a')", MORE_THAN_100),
        ("self.?l.optMap(all, all.all(each, each.contains('*'))).orValue(false)", MORE_THAN_100),
        ("self.?a.optMap(a, a + 'b').optMap(a, a.contains('q')).orValue(true)", MORE_THAN_100),
        ("self.long.all(one, self.long.all(other, one == other))", "10.0x"),
        ("self.long.all(one, self.long.exists(other, one.contains(other)))", MORE_THAN_100),
        ("self.long.isSorted() && self.long.distinct().size() > 2", ""),
    ],
)
async def test_the_cost_of_a_rule_is_limited_by_the_sizes_in_the_schema(api: API, rule: str, factor: str) -> None:
    body = crd("gizmos", "costs.example.com")
    root = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["properties"] = {"spec": {**SIZED, "x-kubernetes-validations": [{"rule": rule}]}}
    answer = await api.post(f"{CRDS}?dryRun=All", body)
    if not factor:
        answer.expect(201)
    else:
        assert f"estimated rule cost exceeds budget by factor of {factor} " in answer.expect(422).message


async def test_constants_in_rules_are_checked_after_types(api: API) -> None:
    rules = ["int('a') > 1", "self.a.find('*') == ''", "self.a.matches('*')", "self.a.matches('*') || self.a > 1"]
    body = crd("gizmos", "constants.example.com")
    root = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["properties"] = {"spec": {**SIZED, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}}
    answer = (await api.post(f"{CRDS}?dryRun=All", body)).expect(422)
    found = [message.partition("}: ")[2].partition("\n")[0] for _, _, message in answer.causes]
    assert found == [
        "program instantiation failed: type conversion error from 'string' to 'int'",
        "program instantiation failed: error parsing regexp: missing argument to repetition operator: `*`",
        "compilation failed: ERROR: <input>:1:16: invalid matches argument",
        "compilation failed: ERROR: <input>:1:31: found no matching overload for '_>_' applied to '(string, int)'",
    ]


async def test_the_cost_of_a_message_is_counted_once(api: API) -> None:
    rule = {"rule": "true", "messageExpression": "self.contains('aaaaaaaaaaaaaaaaaaaa') ? self : ''"}
    item = {"type": "string", "maxLength": 100_000, "x-kubernetes-validations": [rule]}
    body = crd("gizmos", "messages.example.com")
    root = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["properties"] = {"spec": {"type": "object", "properties": {"l": {"type": "array", "items": item}}}}
    (await api.post(f"{CRDS}?dryRun=All", body)).expect(201)


async def test_the_cost_of_an_evaluation_is_limited_by_call_and_by_request(api: API, ns: str) -> None:
    pairs = "self.n.all(x, self.n.all(y, x + y >= {}))"
    numbers = {"type": "array", "maxItems": 1000, "items": {"type": "integer"}}
    rules = [{"rule": pairs.format(-each)} for each in range(12)]
    schema = {"type": "object", "properties": {"n": numbers}, "x-kubernetes-validations": rules}
    group = f"costs{secrets.token_hex(3)}.example.com"
    body = crd("costs", group, schema={"openAPIV3Schema": schema}, subresources={})
    (await api.post(CRDS, body)).expect(201)
    path = f"{ns.replace('/api/v1', f'/apis/{group}/v1')}/costs"

    async def is_served() -> bool:
        return (await api.get(path)).status == 200

    await until(is_served)

    async def faults(count: int) -> list[str]:
        obj = {"apiVersion": f"{group}/v1", "kind": "Gizmo", "metadata": {"name": "a"}, "n": [1] * count}
        answer = await api.post(f"{path}?dryRun=All", obj)
        return [message for _, _, message in answer.causes] if answer.status == 422 else []

    assert await faults(200) == []
    assert await faults(365) == [
        'Invalid value: "object": validation failed due to running out of cost budget, '
        "no further validation rules will be run"
    ]
    why = "no further validation rules will be run due to call cost exceeds limit for rule"
    assert await faults(400) == [
        f"Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': {why}: {pairs.format(0)}"
    ]
    await api.delete(f"{CRDS}/costs.{group}")
