"""Checks of IP addresses. Follows k8s.io/apimachinery pkg/util/validation/ip.go and pkg/apis/core/validation."""

from __future__ import annotations

import ipaddress
from typing import Final, TypeAlias

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, invalid
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry import checks

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


_EXAMPLES: Final = "(e.g. 10.9.8.7 or 2001:db8::ffff)"
_PROCESSES: Final = ipaddress.ip_network("127.64.0.0/10")
"""For Pods that run as processes on this machine. A real server rejects all loopback addresses."""


def is_ip(value: str) -> bool:
    if "%" in value:  # the scope of a link-local address
        return False
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def name_errors(name: str) -> list[str]:
    """Return the errors of a name that must be an IP address in its canonical form."""
    if not is_ip(name):
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    canonical = str(ipaddress.ip_address(name))
    return [] if name == canonical else [f'must be in canonical form ("{canonical}")']


def version(cidr: str) -> int:
    """Return the version of the addresses in a valid range: 4 or 6."""
    return ipaddress.ip_network(cidr, strict=False).version


def ip_errors(path: str, value: str) -> list[FieldError]:
    """Return the errors of a text that must be an IP address. IPv6 addresses need not be in canonical form."""
    why = ""
    if not is_ip(value):
        why = "must not have leading 0s" if is_ip(_without_zeros(value)) else f"must be a valid IP address, {_EXAMPLES}"
    elif _is_mapped(value):
        why = "must not be an IPv4-mapped IPv6 address"
    return [invalid(path, value, why)] if why else []


def endpoint_errors(path: str, value: str) -> list[FieldError]:
    """Return the errors of an address that traffic is sent to, which must be one that a Pod or host can have."""
    if not is_ip(value):
        return [invalid(path, value, "must be a valid IP address")]
    address = ipaddress.ip_address(value)
    why = {
        f"may not be unspecified ({value})": address.is_unspecified,
        "may not be in the loopback range (127.0.0.0/8, ::1/128)": address.is_loopback and address not in _PROCESSES,
        "may not be in the link-local range (169.254.0.0/16, fe80::/10)": address.is_link_local,
        "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)": _is_local_multicast(address),
    }
    return [invalid(path, value, text) for text, applies in why.items() if applies]


def cidr_errors(path: str, value: str) -> list[FieldError]:
    """Return the errors of a text that must be an address range."""
    why = _cidr_error(value)
    return [invalid(path, value, why)] if why else []


def _cidr_error(value: str) -> str:
    address, slash, length = value.partition("/")
    plain = f"{_without_zeros(address)}/{length.lstrip('0') or length[:1]}"
    if not slash or not length.isdecimal() or not is_ip(_without_zeros(address)) or not _is_network(plain):
        return "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    if plain != value:
        return "must not have leading 0s in IP or prefix length"
    if _is_mapped(address):
        return "must not have an IPv4-mapped IPv6 address"
    network = ipaddress.ip_network(value, strict=False)
    same = ipaddress.ip_address(address) == network.network_address
    return "" if same else "must not have bits set beyond the prefix length"


def _is_network(value: str) -> bool:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return False
    return True


def _is_mapped(value: str) -> bool:
    address = ipaddress.ip_address(value)
    return address.version == 6 and address.ipv4_mapped is not None


def _without_zeros(value: str) -> str:
    """Return an IPv4 address without the leading zeros of its parts."""
    if ":" in value:
        return value
    return ".".join(part.lstrip("0") or part[:1] for part in value.split("."))


def ingress_errors(path: str, balancer: JSONObject) -> list[FieldError]:
    """Return the errors of the addresses in the status of a load balancer, of an Ingress or a Service."""
    errors: list[FieldError] = []
    for index, ingress in enumerate(balancer.get("ingress") or ()):
        at, hostname = f"{path}.ingress[{index}]", ingress.get("hostname") or ""
        if ingress.get("ip"):
            errors += ip_errors(f"{at}.ip", ingress["ip"])
        if hostname:
            errors += checks.named(f"{at}.hostname", hostname, names.dns1123_subdomain)
        if is_ip(hostname):
            errors.append(invalid(f"{at}.hostname", hostname, "must be a DNS name, not an IP address"))
    return errors


def host_errors(path: str, address: JSONObject) -> list[FieldError]:
    """Return the errors of the names in an address of Endpoints."""
    hostname, node = address.get("hostname"), address.get("nodeName")
    errors = checks.named(f"{path}.hostname", hostname, names.dns1123_label) if hostname else []
    return errors + (checks.named(f"{path}.nodeName", node, names.dns1123_subdomain) if node is not None else [])


def _is_local_multicast(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    whole = "224.0.0.0/24" if address.version == 4 else "ff02::/16"
    return address in ipaddress.ip_network(whole)
