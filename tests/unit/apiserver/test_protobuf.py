"""Kubernetes protobuf, compared with the bodies of a real API server (`tests/golden/protobuf`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.machinery.errors import DecodeError
from kubewright.machinery.gvk import GroupVersionKind
from kubewright_controlplane.apiserver import protobuf
from kubewright_controlplane.apiserver.protobuf import wire

GOLDEN = Path(__file__).parents[2] / "golden" / "protobuf"
RECORDED = sorted(file.stem for file in GOLDEN.glob("*.pb"))
LEASE = GroupVersionKind("coordination.k8s.io", "v1", "Lease")


def recorded(name: str) -> tuple[bytes, dict[str, Any]]:
    """Return an object as the real server sent it, in protobuf and JSON."""
    return (GOLDEN / f"{name}.pb").read_bytes(), json.loads((GOLDEN / f"{name}.json").read_text())


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def envelope(raw: bytes, api_version: str = "", kind: str = "") -> bytes:
    """Return a body that contains `raw`. Each part must be shorter than 128 bytes."""
    type_meta = b"\x0a%c%b\x12%c%b" % (len(api_version), api_version.encode(), len(kind), kind.encode())
    return b"k8s\0\x0a%c%b\x12%c%b" % (len(type_meta), type_meta, len(raw), raw)


@pytest.mark.parametrize("name", RECORDED)
def test_objects_of_a_real_server_are_equal_in_protobuf_and_json(name: str) -> None:
    body, expected = recorded(name)
    decoded = protobuf.decode(body)
    if name == "controllerrevision":  # its null is data, not an absent field
        assert decoded["data"] == expected["data"]
    assert without_nulls(decoded) == without_nulls(expected)


@pytest.mark.parametrize("name", RECORDED)
def test_encoding_and_decoding_preserve_the_object(name: str) -> None:
    _, expected = recorded(name)
    assert without_nulls(protobuf.decode(protobuf.encode(expected))) == without_nulls(expected)


def test_kind_and_api_version_come_first() -> None:
    body, _ = recorded("lease")
    assert list(protobuf.decode(body))[:2] == ["apiVersion", "kind"]


def test_unknown_fields_are_skipped() -> None:
    unknown = b"\xf8\x07\x01" + b"\xf9\x07" + bytes(8) + b"\xfa\x07\x02hi" + b"\xfd\x07" + bytes(4)
    spec = b"\x12\x06\x0a\x04main"
    decoded = protobuf.decode(envelope(unknown + spec, "coordination.k8s.io/v1", "Lease"))
    assert decoded["spec"] == {"holderIdentity": "main"}


def test_zeros_are_kept_only_where_go_distinguishes_them_from_absent() -> None:
    replicas, min_ready_seconds, revision_history_limit = b"\x08\x00", b"\x28\x00", b"\x30\x00"
    spec = replicas + min_ready_seconds + revision_history_limit
    decoded = protobuf.decode(envelope(b"\x12%c" % len(spec) + spec, "apps/v1", "Deployment"))
    assert decoded["spec"] == {"replicas": 0, "revisionHistoryLimit": 0}


@pytest.mark.parametrize("groups", [b"\x20\x01\x20\xac\x02", b"\x22\x03\x01\xac\x02"], ids=["one by one", "packed"])
def test_lists_of_numbers_are_decoded_packed_or_not(groups: bytes) -> None:
    raw = b"\x12\x07\x72\x05" + groups
    decoded = protobuf.decode(envelope(raw, "v1", "Pod"))
    assert decoded["spec"]["securityContext"] == {"supplementalGroups": [1, 300]}


def test_negative_numbers_survive() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"priority": -5, "activeDeadlineSeconds": -(2**63)}}
    assert protobuf.decode(protobuf.encode(pod)) == pod


def test_delete_options_are_decoded_in_any_group() -> None:
    options = {"apiVersion": "my.domain/v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
    assert protobuf.decode(protobuf.encode(options)) == options


def test_a_body_without_a_kind_is_decoded_as_the_default() -> None:
    decoded = protobuf.decode(envelope(b"\x12\x06\x0a\x04main"), default=LEASE)
    assert decoded == {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "main"}}


def test_only_built_in_kinds_have_an_encoding() -> None:
    assert protobuf.knows(LEASE)
    assert not protobuf.knows(GroupVersionKind("my.domain", "v1", "WebServer"))


def test_a_custom_resource_is_rejected_by_name() -> None:
    with pytest.raises(DecodeError, match=r"my\.domain/v1, Kind=WebServer has no protobuf encoding"):
        protobuf.decode(envelope(b"", "my.domain/v1", "WebServer"))
    with pytest.raises(DecodeError, match=r"my\.domain/v1, Kind=WebServer has no protobuf encoding"):
        protobuf.encode({"apiVersion": "my.domain/v1", "kind": "WebServer"})


def test_json_is_rejected_as_protobuf() -> None:
    with pytest.raises(DecodeError, match="does not start with"):
        protobuf.decode(b'{"kind":"Pod"}')


def test_a_value_of_the_wrong_type_cannot_be_encoded() -> None:
    with pytest.raises(DecodeError, match="Deployment: a field has a value of the wrong type"):
        protobuf.encode({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": "three"}})


@pytest.mark.parametrize("name", ["pod", "lease", "customresourcedefinition"])
def test_a_truncated_body_is_rejected(name: str) -> None:
    body, _ = recorded(name)
    without_object = 6 + body[5]  # ends where the object would start, which is an empty object in Go
    whole = len(body) - len(b"\x1a\x00\x22\x00")  # what follows the object may be missing
    for length in set(range(whole)) - {without_object}:
        with pytest.raises(DecodeError):
            protobuf.decode(body[:length])


@given(st.binary(max_size=100))
def test_random_bytes_never_break_the_decoder(raw: bytes) -> None:
    for kind in ("Pod", "ConfigMap"):
        try:
            decoded = protobuf.decode(envelope(raw, "v1", kind))
        except DecodeError:
            continue
        assert decoded["kind"] == kind


def test_excessive_nesting_is_rejected() -> None:
    schema = b""
    for _ in range(3000):
        schema = wire.tag(28, wire.BYTES) + wire.length_delimited(schema)  # invalid
    for number in (1, 4, 7, 2):  # openAPIV3Schema, schema, versions, spec
        schema = wire.tag(number, wire.BYTES) + wire.length_delimited(schema)
    crd = envelope(b"", "apiextensions.k8s.io/v1", "CustomResourceDefinition").removesuffix(b"\x12\x00")
    with pytest.raises(DecodeError, match="nested too deeply"):
        protobuf.decode(crd + b"\x12" + wire.length_delimited(schema))
