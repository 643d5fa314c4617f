"""Strict decoding: unknown and duplicate fields of every kind of body, rejected or reported as warnings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from conformance.rawapi import API, Answer, until

YAML = "application/yaml"
FREE = "/apis/free.example.com/v1/frees"
ALREADY_SET = 'yaml: unmarshal errors:\n  line 6: key "k" already set in map'

FREE_YAML = b"""apiVersion: free.example.com/v1
kind: Free
metadata: {name: a}
spec:
  k: 1
  k: 2
"""
MAP_YAML = b"""apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data:
  k: one
  k: two
"""


@pytest_asyncio.fixture
async def frees(api: API) -> AsyncIterator[str]:
    """The path of a custom kind that preserves unknown fields below spec."""
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    names = {"plural": "frees", "singular": "free", "kind": "Free", "listKind": "FreeList"}
    body = {
        "metadata": {"name": "frees.free.example.com"},
        "spec": {"group": "free.example.com", "scope": "Cluster", "names": names, "versions": [version]},
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    (await api.post(definitions, body)).expect(201)

    async def is_served() -> bool:
        return (await api.get(FREE)).status == 200

    await until(is_served)
    yield FREE
    await api.delete(f"{definitions}/frees.free.example.com")


async def send(api: API, method: str, target: str, kind: str, body: Any, validation: str) -> Answer:
    separator = "&" if "?" in target else "?"
    target = f"{target}{separator}dryRun=All&fieldValidation={validation}"
    return await api.send(method, target, body, headers={"content-type": kind})


async def test_all_errors_of_a_json_body_are_in_written_order(api: API, ns: str) -> None:
    body = b'{"metadata":{"name":"a","odd":{"x":1,"x":2}},"bogus":1,"data":{"k":"1","k":"2","k":"3"},"late":1}'
    errors = ['unknown field "metadata.odd"', 'unknown field "bogus"', 'duplicate field "data.k"']
    errors.append('unknown field "late"')
    target = f"{ns}/configmaps"
    strict = (await send(api, "POST", target, "application/json", body, "Strict")).expect(400)
    assert strict.message.endswith(f": strict decoding error: {', '.join(errors)}")
    warned = (await send(api, "POST", target, "application/json", body, "Warn")).expect(201)
    assert warned.headers["warning"] == ", ".join('299 - "' + each.replace('"', '\\"') + '"' for each in errors)
    (await api.post(target, {"metadata": {"name": "a"}})).expect(201)
    updated = (await send(api, "PUT", f"{target}/a", "application/json", body, "Strict")).expect(400)
    assert updated.message == strict.message


async def test_duplicate_keys_of_yaml_are_reported_with_their_lines(api: API, ns: str) -> None:
    target = f"{ns}/configmaps"
    body = MAP_YAML + b"bogus: 1\n"
    strict = (await send(api, "POST", target, YAML, body, "Strict")).expect(400)
    assert strict.message.endswith(f'strict decoding error: {ALREADY_SET}, unknown field "bogus"')
    warned = (await send(api, "POST", target, YAML, body, "Warn")).expect(201)
    assert 'line 6: key \\"k\\" already set in map' in warned.headers["warning"]
    assert 'unknown field \\"bogus\\"' in warned.headers["warning"]


async def test_duplicate_keys_of_an_applied_configuration_are_reported(api: API, ns: str) -> None:
    apply = "application/apply-patch+yaml"
    target = f"{ns}/configmaps/a?fieldManager=me"
    strict = (await send(api, "PATCH", target, apply, MAP_YAML, "Strict")).expect(400)
    assert strict.message == f"error strict decoding YAML: error converting YAML to JSON: {ALREADY_SET}"
    warned = (await send(api, "PATCH", target, apply, MAP_YAML, "Warn")).expect(201)
    assert 'line 6: key \\"k\\" already set in map' in warned.headers["warning"]
    json = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1","k":"2"}}'
    strict = (await send(api, "PATCH", target, apply, json, "Strict")).expect(400)
    assert 'yaml: unmarshal errors:\n  line 1: key "k" already set in map' in strict.message


async def test_duplicates_of_a_custom_resource_that_preserves_fields_are_reported(api: API, frees: str) -> None:
    strict = (
        await send(api, "PATCH", f"{frees}/a?fieldManager=me", "application/apply-patch+yaml", FREE_YAML, "Strict")
    ).expect(400)
    assert strict.message == f"error strict decoding YAML: error converting YAML to JSON: {ALREADY_SET}"
    strict = (await send(api, "POST", frees, YAML, FREE_YAML, "Strict")).expect(400)
    assert strict.message.endswith(f"strict decoding error: {ALREADY_SET}")
    body = b'{"apiVersion":"free.example.com/v1","kind":"Free","odd":1,"metadata":{"name":"a"},"spec":{"k":1,"k":2}}'
    strict = (await send(api, "POST", frees, "application/json", body, "Strict")).expect(400)
    assert strict.message.endswith('strict decoding error: duplicate field "spec.k", unknown field "odd"')


async def test_a_json_patch_is_decoded_strictly(api: API, ns: str) -> None:
    (await api.post(f"{ns}/configmaps", {"metadata": {"name": "a"}})).expect(201)
    body = b'[{"op":"add","path":"/data","path":"/data","odd":1,"value":{"k":"v"}}]'
    target, kind = f"{ns}/configmaps/a", "application/json-patch+json"
    strict = (await send(api, "PATCH", target, kind, body, "Strict")).expect(422)
    errors = 'json patch duplicate field "[0].path", json patch unknown field "[0].odd"'
    assert strict.message.endswith(f"strict decoding error: {errors}")
    (await send(api, "PATCH", target, kind, body, "Ignore")).expect(200)
