"""IP addresses and CIDRs. Follows k8s.io/apiserver/pkg/cel/library (ip.go, cidr.go)."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from kubewright.cel.functions import Function, library
from kubewright.cel.values import EvaluationError

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class IP:
    CEL_TYPE: ClassVar[str] = "net.IP"
    address: _Address

    def __str__(self) -> str:
        return str(self.address)


@dataclass(frozen=True, slots=True)
class CIDR:
    """An address and the prefix length of its network."""

    CEL_TYPE: ClassVar[str] = "net.CIDR"
    address: _Address
    network: _Network

    def __str__(self) -> str:
        return f"{self.address}/{self.network.prefixlen}"


def _ip(text: str) -> IP:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise EvaluationError(
            f'IP Address "{text}" parse error during conversion from string: unable to parse IP'
        ) from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            raise EvaluationError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
        if address.scope_id is not None:
            raise EvaluationError(f'IP address "{text}" with zone value is not allowed')
    return IP(address)


def _is_ip(text: str) -> bool:
    try:
        _ip(text)
    except EvaluationError:
        return False
    return True


def _is_canonical(text: str) -> bool:
    return str(_ip(text).address) == text


def _cidr(text: str) -> CIDR:
    address, slash, length = text.partition("/")
    try:
        if not slash or not length.isdecimal() or (length != "0" and length.startswith("0")):
            raise EvaluationError("no good prefix length")
        network = ipaddress.ip_network(text, strict=False)
        return CIDR(_ip(address).address, network)
    except (ValueError, EvaluationError):
        raise EvaluationError(
            f'network address parse error during conversion from string: netip.ParsePrefix("{text}")'
        ) from None


def _is_cidr(text: str) -> bool:
    try:
        _cidr(text)
    except EvaluationError:
        return False
    return True


def _contains_ip(cidr: CIDR, ip: IP | str) -> bool:
    address = (_ip(ip) if isinstance(ip, str) else ip).address
    return address.version == cidr.network.version and address in cidr.network


def _contains_cidr(cidr: CIDR, other: CIDR | str) -> bool:
    inner = _cidr(other) if isinstance(other, str) else other
    return cidr.network.prefixlen <= inner.network.prefixlen and _contains_ip(cidr, IP(inner.address))


def _is_global_unicast(ip: IP) -> bool:
    address = ip.address
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local) and (
        str(address) != "255.255.255.255"
    )


def _is_link_local_multicast(ip: IP) -> bool:
    first = ip.address.packed
    return first[:3] == b"\xe0\x00\x00" if ip.address.version == 4 else first[0] == 0xFF and first[1] & 0x0F == 2


FUNCTIONS: Final[tuple[Function, ...]] = library(
    ("ip(string) -> net.IP", _ip),
    ("isIP(string) -> bool", _is_ip),
    ("ip.isCanonical(string) -> bool", _is_canonical),
    ("string(net.IP) -> string", str),
    ("net.IP.family() -> int", lambda ip: ip.address.version),
    ("net.IP.isUnspecified() -> bool", lambda ip: ip.address.is_unspecified),
    ("net.IP.isLoopback() -> bool", lambda ip: ip.address.is_loopback),
    ("net.IP.isLinkLocalMulticast() -> bool", _is_link_local_multicast),
    ("net.IP.isLinkLocalUnicast() -> bool", lambda ip: ip.address.is_link_local),
    ("net.IP.isGlobalUnicast() -> bool", _is_global_unicast),
    ("cidr(string) -> net.CIDR", _cidr),
    ("isCIDR(string) -> bool", _is_cidr),
    ("string(net.CIDR) -> string", str),
    ("net.CIDR.containsIP(net.IP) -> bool", _contains_ip),
    ("net.CIDR.containsIP(string) -> bool", _contains_ip),
    ("net.CIDR.containsCIDR(net.CIDR) -> bool", _contains_cidr),
    ("net.CIDR.containsCIDR(string) -> bool", _contains_cidr),
    ("net.CIDR.ip() -> net.IP", lambda cidr: IP(cidr.address)),
    ("net.CIDR.masked() -> net.CIDR", lambda cidr: CIDR(cidr.network.network_address, cidr.network)),
    ("net.CIDR.prefixLength() -> int", lambda cidr: cidr.network.prefixlen),
    linear=True,
)
