"""Sprig's functions of URLs, paths, the environment and names of hosts."""

from __future__ import annotations

import ipaddress
import os
import posixpath
import random
import re
import socket
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubewright.templates._functions import Function, f
from kubewright.templates._strconv import decoded, encoded
from kubewright.templates._values import FunctionError, spend_on, type_name

_UNRESERVED: Final = string.ascii_letters + string.digits + "-_.~"
_UNESCAPED: Final = {
    "path": _UNRESERVED + "$&+,/:;=@",
    "user": _UNRESERVED + "$&+,;=",
    "host": _UNRESERVED + "!$&'()*+,;=:[]<>\"",
    "zone": _UNRESERVED + "!$&'()*+,;=:[]<>\"",
    "fragment": _UNRESERVED + "$&+,/:;=?@!()*",
}
_ALLOWED: Final = {name: frozenset(characters.encode()) for name, characters in _UNESCAPED.items()}
_ALWAYS_VALID: Final = frozenset(b"!$&'()*+,;=:@[]%")
_USERINFO: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+\-.]*:")
_PERCENT: Final = re.compile(rb"%([0-9a-fA-F]{2})")
_PORT: Final = re.compile(r"(?::[0-9]*)?")


def _escaped(text: str, mode: str) -> str:
    allowed = _ALLOWED[mode]
    return "".join(chr(byte) if byte in allowed else f"%{byte:02X}" for byte in encoded(text))


def _unescaped(text: str, mode: str) -> str:
    data = encoded(text)
    for index, byte in enumerate(data):
        if byte == ord("%"):
            _check_escape(data[index : index + 3], mode)
        elif mode in ("host", "zone") and byte < 0x80 and byte not in _ALLOWED[mode]:
            raise FunctionError(f"unexpected character {chr(byte)!r} in the host of the URL")
    return decoded(_PERCENT.sub(lambda match: bytes((int(match.group(1), 16),)), data))


def _check_escape(piece: bytes, mode: str) -> None:
    match = _PERCENT.fullmatch(piece)
    value = int(match.group(1), 16) if match else 0
    is_bad = match is None
    if match and piece != b"%25":
        is_bad = (mode == "host" and value < 0x80) or (
            mode == "zone" and value != ord(" ") and value not in _ALLOWED["host"]
        )
    if is_bad:
        raise FunctionError(f"bad escape sequence {decoded(piece)!r} in the URL")


@dataclass(slots=True)
class _URL:
    """A URL as Go's net/url keeps it."""

    scheme: str = ""
    opaque: str = ""
    user: tuple[str, str | None] | None = None
    host: str = ""
    path: str = ""
    raw_path: str = ""
    query: str = ""
    force_query: bool = False
    fragment: str = ""
    raw_fragment: str = ""
    omit_host: bool = False

    def userinfo(self) -> str:
        if self.user is None:
            return ""
        name, password = self.user
        return _escaped(name, "user") + ("" if password is None else f":{_escaped(password, 'user')}")

    def text(self) -> str:
        out = f"{self.scheme}:" if self.scheme else ""
        if self.opaque:
            out += self.opaque
        else:
            out = self._with_path(out + self._authority())
        if self.force_query or self.query:
            out += f"?{self.query}"
        if self.fragment:
            out += f"#{_kept(self.raw_fragment, self.fragment, 'fragment')}"
        return out

    def _authority(self) -> str:
        if not (self.scheme or self.host or self.user) or (self.omit_host and not self.host and not self.user):
            return ""
        out = "//" if self.host or self.path or self.user else ""
        if self.user is not None:
            out += f"{self.userinfo()}@"
        return out + _escaped(self.host, "host")

    def _with_path(self, before: str) -> str:
        path = "*" if self.path == "*" else _kept(self.raw_path, self.path, "path")
        if path and not path.startswith("/") and self.host:
            before += "/"
        if not before and ":" in path.partition("/")[0]:
            before = "./"
        return before + path


def _kept(raw: str, text: str, mode: str) -> str:
    """Return the escaped form of a text: the one that was given, if there was any."""
    if raw and all(byte in _ALWAYS_VALID or byte in _ALLOWED[mode] for byte in encoded(raw)):
        try:
            if _unescaped(raw, mode) == text:
                return raw
        except FunctionError:
            pass
    return _escaped(text, mode)


def _parsed(text: str) -> _URL:
    spend_on(text)
    before, _, fragment = text.partition("#")
    url = _parsed_without_fragment(before)
    if fragment:
        url.fragment = _unescaped(fragment, "fragment")
        url.raw_fragment = fragment
    return url


def _parsed_without_fragment(text: str) -> _URL:
    if any(character < " " or character == "\x7f" for character in text):
        raise FunctionError("the URL has a control character")
    url = _URL()
    if text == "*":
        url.path = "*"
        return url
    if text.startswith(":"):
        raise FunctionError(f"URL {text!r} has no scheme before :")
    rest = text
    if match := _SCHEME.match(text):
        url.scheme, rest = match.group()[:-1].lower(), text[match.end() :]
    if rest.endswith("?") and rest.count("?") == 1:
        url.force_query, rest = True, rest[:-1]
    else:
        rest, _, url.query = rest.partition("?")
    if not rest.startswith("/"):
        if url.scheme:
            url.opaque = rest
            return url
        if ":" in rest.partition("/")[0]:
            raise FunctionError(f"URL {text!r}: the first part of a path without a scheme must not contain :")
    if rest.startswith("//") and (url.scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        _read_authority(url, authority)
        rest = slash + path
    elif url.scheme and rest.startswith("/"):
        url.omit_host = True
    url.path = _unescaped(rest, "path")
    url.raw_path = rest if _escaped(url.path, "path") != rest else ""
    return url


def _read_authority(url: _URL, authority: str) -> None:
    userinfo, at, host = authority.rpartition("@")
    url.host = _host(url.scheme, host)
    if not at:
        return
    if not _USERINFO.fullmatch(userinfo):
        raise FunctionError(f"bad user in URL: {userinfo!r}")
    name, colon, password = userinfo.partition(":")
    url.user = _unescaped(name, "user"), _unescaped(password, "user") if colon else None


def _host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise FunctionError(f"bad IP address in host {host!r}")
    if bracket == 0:
        return _ip_literal(host)
    first, last = host.find(":"), host.rfind(":")
    if first >= 0:
        _check_port(host[first if scheme in ("http", "https") else last :], host)
    return _unescaped(host, "host")


def _check_port(port: str, host: str) -> None:
    if not _PORT.fullmatch(port):
        raise FunctionError(f"bad port {port!r} in host {host!r}")


def _ip_literal(host: str) -> str:
    close = host.rfind("]")
    if close < 0:
        raise FunctionError(f"host {host!r} has no ]")
    _check_port(host[close + 1 :], host)
    name, zone = host[1:close], ""
    if "%25" in name:
        position = name.index("%25")
        name, zone = name[:position], _unescaped(name[position:], "zone")
    address = _unescaped(name, "host") + zone
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        raise FunctionError(f"bad IP address in host {host!r}") from None
    return f"[{address}]{host[close + 1 :]}"


def _hostname(host: str) -> str:
    colon = host.rfind(":")
    if colon >= 0 and _PORT.fullmatch(host[colon:]):
        host = host[:colon]
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _url_parse(text: str) -> dict[str, Any]:
    url = _parsed(text)
    return {
        "scheme": url.scheme,
        "host": url.host,
        "hostname": _hostname(url.host),
        "path": url.path,
        "query": url.query,
        "opaque": url.opaque,
        "fragment": url.fragment,
        "userinfo": url.userinfo(),
    }


def _url_join(parts: dict[str, Any]) -> str:
    def part(name: str) -> str:
        value = parts.get(name, "")
        if not isinstance(value, str):
            raise FunctionError(f"part {name!r} of a URL must be a string, not a value of type {type_name(value)}")
        return value

    url = _URL(part("scheme"), part("opaque"), None, part("host"), part("path"), "", part("query"), False)
    url.fragment = part("fragment")
    if userinfo := part("userinfo"):
        url.user = _parsed(f"proto://{userinfo}@host").user
    return url.text()


# ---- paths


def _base(path: str) -> str:
    if not path:
        return "."
    stripped = path.rstrip("/")
    return stripped.rpartition("/")[2] if stripped else "/"


def _clean(path: str) -> str:
    cleaned = posixpath.normpath(path)
    return cleaned[1:] if cleaned.startswith("//") else cleaned


def _dir(path: str) -> str:
    return _clean(path[: path.rfind("/") + 1])


def _ext(path: str) -> str:
    name = path.rpartition("/")[2]
    return name[name.rfind(".") :] if "." in name else ""


# ---- the machine


def _env(name: str) -> str:
    return os.environ.get(name, "")


_EXPANDED: Final = re.compile(r"\$(?:\{([^}]*)\}|(\{)|([*#$@!?\-0-9])|([A-Za-z0-9_]+))")


def _expandenv(text: str) -> str:
    def value(match: re.Match[str]) -> str:
        braced, open_brace, special, name = match.groups()
        return "" if open_brace or braced == "" else _env(braced or special or name)

    return _EXPANDED.sub(value, text)


def _host_by_name(name: str) -> str:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise FunctionError(f"host {name!r} has no address: {error}") from None
    return str(random.choice(found)[4][0])


PATHS: Final[Mapping[str, Function]] = {
    name: f(call, "string")
    for name, call in (
        ("base", _base),
        ("dir", _dir),
        ("clean", _clean),
        ("ext", _ext),
        ("isAbs", lambda path: path.startswith("/")),
    )
}
ENVIRONMENT: Final[Mapping[str, Function]] = {"env": f(_env, "string"), "expandenv": f(_expandenv, "string")}
FUNCTIONS: Final[Mapping[str, Function]] = {
    "urlParse": f(_url_parse, "string"),
    "urlJoin": f(_url_join, "map"),
    "getHostByName": f(_host_by_name, "string"),
    **{f"os{name[0].upper()}{name[1:]}": function for name, function in PATHS.items()},
}
