"""Names are validated with the API server's messages."""

from __future__ import annotations

from collections.abc import Callable
from uuid import RFC_4122, UUID

import pytest

from kubewright.machinery import names

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("check", "value", "faults"),
    [
        (names.dns1123_label, "web-1", []),
        (names.dns1123_label, "a.b", ["must not contain dots"]),
        (names.dns1123_label, "Web", [LABEL]),
        (names.dns1123_label, "web\n", [LABEL]),
        (names.dns1123_label, "a" * 64, ["must be no more than 63 characters"]),
        (names.dns1123_subdomain, "a.b-c.d", []),
        (names.dns1123_subdomain, "a" * 254, ["must be no more than 253 characters"]),
        (names.dns1035_label, "web", []),
        (names.path_segment, "system:admin", []),
        (names.path_segment, "..", ["may not be '..'"]),
        (names.path_segment, "a/b%", ["may not contain '/'", "may not contain '%'"]),
        (names.qualified_name, "app.kubernetes.io/name", []),
        (names.qualified_name, "/name", ["prefix part must be non-empty"]),
        (names.qualified_name, "a/", ["name part must be non-empty", f"name part {KEY}"]),
        (
            names.qualified_name,
            "a/b/c",
            [f"a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"],
        ),
        (names.label_value, "", []),
        (names.label_value, "1.2_x", []),
        (names.config_key, "..data", ["must not start with '..'"]),
        (names.port_name, "http", []),
        (names.port_name, "8-0", ["must contain at least one letter (a-z)"]),
        (names.port_name, "a--b", ["must not contain consecutive hyphens"]),
        (names.environment_name, "my.VAR-1", []),
        (names.environment_name, "a=b", [
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
        ]),
    ],
)  # fmt: skip
def test_faults(check: Callable[[str], list[str]], value: str, faults: list[str]) -> None:
    assert check(value) == faults


def test_a_generated_name_has_five_more_characters_and_63_at_most() -> None:
    name = names.generate_name("web-")
    assert len(name) == 9
    assert name.startswith("web-")
    assert names.dns1123_label(name) == []
    assert len(names.generate_name("x" * 100)) == 63


def test_a_trailing_dash_is_valid_before_a_suffix() -> None:
    assert names.dns1123_label(names.masked_prefix("web-")) == []


def test_a_generated_uid_is_a_random_uuid() -> None:
    uids = {names.generate_uid() for _ in range(100)}
    assert len(uids) == 100
    assert all(str(UUID(uid)) == uid and UUID(uid).version == 4 and UUID(uid).variant == RFC_4122 for uid in uids)
