"""The text formats of custom kinds' schemas.

A format that is not listed here is not checked, as in the API server. Follows kube-openapi's strfmt.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from kubewright.machinery import names, time

FormatCheck: TypeAlias = Callable[[str], object]


def _pattern(pattern: str, flags: int = 0) -> FormatCheck:
    return re.compile(pattern, flags | re.ASCII).fullmatch


def _accepted_by(parse: Callable[[str], object]) -> FormatCheck:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


_HOSTNAME: Final = re.compile(r"[^\W_](-?[^\W_]{0,62})?|([^\W_](([^\W_]|-){0,61}[^\W_])?\.)+[^\W\d_]{2,63}")


def _hostname(text: str) -> bool:
    return (
        len(text) <= 255 and _HOSTNAME.fullmatch(text) is not None and all(len(each) <= 63 for each in text.split("."))
    )


def _ipv4(text: str) -> bool:
    """Leading zeroes are accepted, as in Kubernetes' own parser."""
    parts = text.split(".")
    return len(parts) == 4 and all(
        re.fullmatch(r"0*\d{1,3}", each, re.ASCII) and int(each[-3:]) <= 255 for each in parts
    )


def _ipv6(text: str) -> bool:
    return ":" in text and "%" not in text and bool(_accepted_by(ipaddress.IPv6Address)(text))


def _cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    if not slash or not re.fullmatch(r"\d{1,3}", length, re.ASCII):
        return False
    return (_ipv4(address) and int(length) <= 32) or (_ipv6(address) and int(length) <= 128)


def _uri(text: str) -> bool:
    """Return whether Go's url.ParseRequestURI accepts the text: an absolute URL or an absolute path."""
    if not text or any(each <= " " or each == "\x7f" for each in text) or re.search(r"%(?![0-9A-Fa-f]{2})", text):
        return False
    return text.startswith("/") or text == "*" or bool(_accepted_by(urlsplit)(text) and urlsplit(text).scheme)


def _email(text: str) -> bool:
    address = re.fullmatch(r'(?:[^<>"]*|"[^"]*"\s*)<([^<>]+)>|([^<>\s]+)', text)
    if address is None:
        return False
    local, at, domain = (address[1] or address[2]).rpartition("@")
    return bool(at and domain and re.fullmatch(r'[^\s@,;:<>()\[\]"\\]+|"[^"]+"', local)) and ".." not in text


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII):
        return False
    return sum((i + 1) * (10 if each == "X" else int(each)) for i, each in enumerate(digits)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{13}", digits, re.ASCII):
        return False
    return sum(int(each) * (1, 3)[i % 2] for i, each in enumerate(digits)) % 10 == 0


def _credit_card(text: str) -> bool:
    digits = re.sub(r"\D", "", text, flags=re.ASCII)
    issuers = (
        r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}"
        r"|3(?:0[0-5]|[68]\d)\d{11}|(?:2131|1800|35\d{3})\d{11}"
    )
    if not re.fullmatch(issuers, digits, re.ASCII):
        return False
    doubled = [int(each) * (1 + i % 2) for i, each in enumerate(reversed(digits))]
    return sum(each - 9 if each > 9 else each for each in doubled) % 10 == 0


def _base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return False
    return bool(text)


def _rgb(text: str) -> bool:
    found = re.fullmatch(r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)", text, re.ASCII)
    return found is not None and all(int(each) <= 255 for each in found.groups())


def _duration(text: str) -> bool:
    """Go's form, or Scala's: `3 days`."""
    units = r"(ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week)"
    return bool(_accepted_by(time.parse_duration)(text) or re.search(rf"\d\s*{units}", text))


def _date_time(text: str) -> bool:
    day, t, clock = text.lower().partition("t")
    found = re.fullmatch(r"(\d\d):(\d\d):(\d\d)(.\d+)?(z|[+-]\d\d:\d\d)", clock, re.ASCII)
    if not t or found is None or not _date(day):
        return False
    return int(found[1]) <= 23 and int(found[2]) <= 59 and int(found[3]) <= 59


def _date(text: str) -> bool:
    return bool(re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII)) and bool(_accepted_by(date.fromisoformat)(text))


_HEX: Final = "[0-9a-f]"
_CHECKS: Final[dict[str, FormatCheck]] = {
    "bsonobjectid": _pattern(rf"{_HEX}{{24}}", re.IGNORECASE),
    "uri": _uri,
    "email": _email,
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "cidr": _cidr,
    "mac": _pattern(rf"({_HEX}{{2}}[:-]){{5}}({_HEX}{{2}})|({_HEX}{{4}}\.){{2}}{_HEX}{{4}}", re.IGNORECASE),
    "uuid": _pattern(rf"{_HEX}{{8}}(-?{_HEX}{{4}}){{3}}-?{_HEX}{{12}}", re.IGNORECASE),
    "uuid3": _pattern(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}", re.IGNORECASE),
    "uuid4": _pattern(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}", re.IGNORECASE),
    "uuid5": _pattern(rf"{_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}", re.IGNORECASE),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _credit_card,
    "ssn": _pattern(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _pattern(rf"#?({_HEX}{{3}}|{_HEX}{{6}})", re.IGNORECASE),
    "rgbcolor": _rgb,
    "byte": _base64,
    "password": lambda text: True,
    "date": _date,
    "duration": _duration,
    "datetime": _date_time,
    "k8sshortname": lambda text: not names.dns1123_label(text),
    "k8slongname": lambda text: not names.dns1123_subdomain(text),
}


def format_check(format: str) -> FormatCheck | None:
    """Return the check of a format; None for a format that is not checked. Dashes in its name are ignored."""
    return _CHECKS.get(format.replace("-", ""))


def is_recognized(format: str, kind: str) -> bool:
    """Return whether the API server knows a format of values of type `kind`, and so checks it or lets it stand for a
    size.
    """
    match kind:
        case "" | "string":
            return format_check(format) is not None
        case "integer":
            return format in ("int32", "int64")
        case "number":
            return format in ("float", "double")
        case _:
            return False
