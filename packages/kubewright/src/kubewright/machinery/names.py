"""Names: validation with the API server's messages, and generated names.

Each check returns the errors it found, none for a valid value. The texts go into the detail of a `FieldError`.

Follows k8s.io/apimachinery/pkg/util/validation, pkg/api/validate/content and apiserver's storage/names.
"""

from __future__ import annotations

import random
import re
from os import urandom
from typing import Final

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_DNS1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_UNDERSCORED: Final = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*"
_HEADER: Final = "[-A-Za-z0-9]+"
_C_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"

_PORT_NAME: Final = "[-a-z0-9]+"

_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # without vowels, so that it contains no words
_SUFFIX_LENGTH: Final = 5
_GENERATED_BASE_LENGTH: Final = 63 - _SUFFIX_LENGTH
_VARIANT: Final = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


def dns1123_label(value: str) -> list[str]:
    """Return what is wrong with a DNS label (RFC 1123): the name of a Namespace, a container, a volume."""
    errors = _longer_than(63, value)
    if not re.fullmatch(_LABEL, value):
        if re.fullmatch(_SUBDOMAIN, value):
            errors.append("must not contain dots")
        else:
            text = (
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
                "and must start and end with an alphanumeric character"
            )
            errors.append(_regex_error(text, _LABEL, "my-name", "123-abc"))
    return errors


def dns1123_subdomain(value: str) -> list[str]:
    """Return what is wrong with a DNS subdomain (RFC 1123): the name of most objects."""
    return _longer_than(253, value) + _subdomain_shape(value)


def dns1123_subdomain_with_underscore(value: str) -> list[str]:
    """Return what is wrong with a DNS subdomain that may contain underscores: a search domain of a Pod."""
    errors = _longer_than(253, value)
    if not re.fullmatch(_UNDERSCORED, value):
        text = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
            "and must start and end with an alphanumeric character"
        )
        errors.append(_regex_error(text, _UNDERSCORED, "example.com"))
    return errors


def wildcard_dns1123_subdomain(value: str) -> list[str]:
    """Return what is wrong with a DNS subdomain whose first label is `*`: a host of an Ingress."""
    errors = _longer_than(253, value)
    if not value.startswith("*.") or not re.fullmatch(_SUBDOMAIN, value[2:]):
        text = (
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist "
            "of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
        )
        errors.append(_regex_error(text, rf"\*\.{_SUBDOMAIN}", "*.example.com"))
    return errors


def dns1035_label(value: str) -> list[str]:
    """Return what is wrong with a DNS label (RFC 1035), which starts with a letter: the name of a Service."""
    errors = _longer_than(63, value)
    if not re.fullmatch(_DNS1035, value):
        text = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
            "start with an alphabetic character, and end with an alphanumeric character"
        )
        errors.append(_regex_error(text, _DNS1035, "my-name", "abc-123"))
    return errors


def path_segment(value: str) -> list[str]:
    """Return what is wrong with a name that only has to fit into a URL: the name of an RBAC object."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{each}'" for each in ("/", "%") if each in value]


def qualified_name(value: str) -> list[str]:
    """Return what is wrong with a qualified name, `[prefix/]name`.

    Keys of labels and annotations, finalizers, types of conditions and names of resources are qualified names.
    """
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        shape = _key_shape()
        return [f"a valid label key {shape} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    errors: list[str] = []
    if slash and prefix:
        errors += [f"prefix part {each}" for each in _longer_than(253, prefix, "bytes") + _subdomain_shape(prefix)]
    elif slash:
        errors.append("prefix part must be non-empty")
    errors += [f"name part {each}" for each in (_longer_than(63, name, "bytes") if name else ["must be non-empty"])]
    if not re.fullmatch(_KEY, name):
        errors.append(f"name part {_key_shape()}")
    return errors


def label_value(value: str) -> list[str]:
    """Return what is wrong with a label's value; the empty string is valid."""
    errors = _longer_than(63, value, "bytes")
    if not re.fullmatch(f"({_KEY})?", value):
        text = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character"
        )
        errors.append(_regex_error(text, f"({_KEY})?", "MyValue", "my_value", "12345"))
    return errors


def config_key(value: str) -> list[str]:
    """Return what is wrong with a key in a ConfigMap's or Secret's data."""
    errors = _longer_than(253, value)
    if not re.fullmatch(_CONFIG_KEY, value):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        errors.append(_regex_error(text, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    return errors + _parent_directory(value)


def environment_name(value: str) -> list[str]:
    """Return what is wrong with an environment variable's name in a container."""
    if not value:
        return ["environment variable name must be non-empty"]
    if not all(" " <= each <= "~" and each != "=" for each in value):
        return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]
    return []


def http_header_name(value: str) -> list[str]:
    """Return what is wrong with the name of an HTTP header in a probe."""
    if re.fullmatch(_HEADER, value):
        return []
    text = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [_regex_error(text, _HEADER, "X-Header-Name")]


def c_identifier(value: str) -> list[str]:
    """Return what is wrong with an identifier of the C language: the name of a device's attribute."""
    if re.fullmatch(_C_IDENTIFIER, value):
        return []
    text = (
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
        "characters or '_'"
    )
    return [_regex_error(text, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName")]


def port_name(value: str) -> list[str]:
    """Return what is wrong with a port's name (RFC 6335, lower case only)."""
    errors = _longer_than(15, value)
    if not re.fullmatch(_PORT_NAME, value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= each <= "z" for each in value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def port_number(value: int) -> list[str]:
    """Return what is wrong with a port number."""
    return [] if 1 <= value <= 65535 else ["must be between 1 and 65535, inclusive"]


def masked_prefix(base: str) -> str:
    """Return a `generateName` as validation sees it: a trailing dash stands for the suffix."""
    return f"{base[:-2]}a" if len(base) > 1 and base.endswith("-") else base


def generate_name(base: str) -> str:
    """Return `base` and five random characters, 63 at most, as `generateName` does. The name may be in use."""
    suffix = "".join(random.choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH))
    return base[:_GENERATED_BASE_LENGTH] + suffix


def generate_uid() -> str:
    """Return a random UUID (RFC 9562, version 4), in a third of the time that `str(uuid.uuid4())` needs."""
    digits = urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANT[digits[16]]}{digits[17:20]}-{digits[20:]}"


def _subdomain_shape(value: str) -> list[str]:
    if re.fullmatch(_SUBDOMAIN, value):
        return []
    text = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return [_regex_error(text, _SUBDOMAIN, "example.com")]


def _longer_than(limit: int, value: str, unit: str = "characters") -> list[str]:
    length = len(value) if value.isascii() else len(value.encode())
    return [f"must be no more than {limit} {unit}"] if length > limit else []


def _regex_error(text: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{each}', " for each in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


def _key_shape() -> str:
    text = (
        "must consist of alphanumeric characters, '-', '_' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return _regex_error(text, _KEY, "MyName", "my.name", "123-abc")


def _parent_directory(value: str) -> list[str]:
    if value in (".", ".."):
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []
