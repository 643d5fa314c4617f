"""The addresses on which programs listen, as the kernel of Linux lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_TABLES: Final = {"TCP": ("tcp", "tcp6"), "UDP": ("udp", "udp6")}
_STATES: Final = {"TCP": "0A", "UDP": "07"}
"""The states of sockets that wait for connections or datagrams."""


def hosts_listening(protocol: str, port: int) -> set[str]:
    """Return the IPv4 addresses at which a program listens on `port`; "0.0.0.0" stands for all addresses.

    Returns nothing for other protocols, and where the kernel has no such list.
    """
    ending = f":{port:04X}"
    found: set[str] = set()
    for name in _TABLES.get(protocol, ()):
        try:
            lines = Path("/proc/net", name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, *_ = line.split()
            if state == _STATES[protocol] and local.endswith(ending):
                found.add(_host(local.removesuffix(ending)))
    return found


def _host(text: str) -> str:
    """Return an IPv4 address that the kernel writes as words of hexadecimal digits in the order of this machine."""
    if len(text) > 8 and not text.startswith("0" * 16):
        return ""  # an IPv6 address
    word = text[-8:]
    return ".".join(str(int(word[at : at + 2], 16)) for at in (6, 4, 2, 0))
