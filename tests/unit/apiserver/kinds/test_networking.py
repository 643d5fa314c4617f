"""Validation of Ingresses, NetworkPolicies and EndpointSlices, with the messages of kube-apiserver 1.36."""

from __future__ import annotations

from typing import Any

import pytest

from unit.apiserver.harness import API

NETWORKING = "/apis/networking.k8s.io/v1/namespaces/default"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
SERVICE = {"service": {"name": "web", "port": {"number": 80}}}


def path(**fields: Any) -> dict[str, Any]:
    return {"rules": [{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": SERVICE, **fields}]}}]}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"),
        (
            path(pathType=None, backend={}),
            "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified",
        ),
        (path(path="a"), 'spec.rules[0].http.paths[0].path: Invalid value: "a": must be an absolute path'),
        (path(path="/a//b"), "spec.rules[0].http.paths[0].path: Invalid value: \"/a//b\": must not contain '//'"),
        (path(path="/a/.."), "spec.rules[0].http.paths[0].path: Invalid value: \"/a/..\": cannot end with '/..'"),
        (
            path(backend={}),
            'spec.rules[0].http.paths[0].backend: Invalid value: "": resource or service backend is required',
        ),
        (
            path(backend={"service": {"name": "web"}}),
            "spec.rules[0].http.paths[0].backend: Required value: port name or number is required",
        ),
        (
            {"rules": [{"host": "10.0.0.1"}]},
            'spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address',
        ),
    ],
)
async def test_invalid_ingresses_are_rejected(api: API, spec: dict[str, Any], message: str) -> None:
    body = {"metadata": {"name": "i"}, "spec": spec}
    refused = await api.rejected(422, "POST", f"{NETWORKING}/ingresses", body)
    assert refused["message"] == f'Ingress.networking.k8s.io "i" is invalid: {message}'


async def test_a_wildcard_host_matches_one_label(api: API) -> None:
    good = {"metadata": {"name": "good"}, "spec": {"rules": [{"host": "*.example.com"}]}}
    await api.ok("POST", f"{NETWORKING}/ingresses", good)
    bad = {"metadata": {"name": "bad"}, "spec": {"rules": [{"host": "a.*.com"}]}}
    refused = await api.rejected(422, "POST", f"{NETWORKING}/ingresses", bad)
    assert "a wildcard DNS-1123 subdomain must start with '*.'" in refused["message"]


@pytest.mark.parametrize(
    ("peer", "message"),
    [
        ({}, "spec.ingress[0].from[0]: Required value: must specify a peer"),
        (
            {"ipBlock": {"cidr": "10.0.0.0"}},
            'spec.ingress[0].from[0].ipBlock.cidr: Invalid value: "10.0.0.0": must be a valid CIDR value, '
            "(e.g. 10.9.8.0/24 or 2001:db8::/64)",
        ),
        (
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/9"]}},
            'spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "11.0.0.0/9": must be a strict subset of `cidr`',
        ),
        (
            {"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}},
            "spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer",
        ),
    ],
)
async def test_invalid_policy_peers_are_rejected(api: API, peer: dict[str, Any], message: str) -> None:
    body: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"podSelector": {}, "ingress": [{"from": [peer]}]}}
    refused = await api.rejected(422, "POST", f"{NETWORKING}/networkpolicies", body)
    assert refused["message"] == f'NetworkPolicy.networking.k8s.io "p" is invalid: {message}'


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("x", 'Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'),
        ("127.0.0.1", 'Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)'),
    ],
)
async def test_an_endpoint_address_must_be_reachable(api: API, address: str, message: str) -> None:
    body = {"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [{"addresses": [address]}]}
    refused = await api.rejected(422, "POST", SLICES, body)
    assert refused["message"] == f'EndpointSlice.discovery.k8s.io "s" is invalid: endpoints[0].addresses[0]: {message}'


async def test_limits_of_a_limit_range_must_be_in_order(api: API) -> None:
    limit = {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "4"}, "default": {"cpu": "1"}}
    body = {"metadata": {"name": "l"}, "spec": {"limits": [limit]}}
    refused = await api.rejected(422, "POST", "/api/v1/namespaces/default/limitranges", body)
    assert refused["message"].endswith(
        'spec.limits[0].default[cpu]: Invalid value: "2": min value 2 is greater than default value 1]'
    )
