"""The addresses of a Pod's sockets: like in a network of its own, although Pods share the network of the machine.

A program that binds all interfaces gets the address of its Pod, so it does not take the port from other Pods.
Containers of the Pod still reach it at `localhost`. Connections within this machine come from the address of the Pod.

The kernel reports the calls `bind` and `connect` of the programs, by a seccomp filter that the exec helper installs.
The kubelet changes the address in the memory of the program, and the call continues.

Not guaranteed
    A socket for IPv6 alone, and datagrams to `localhost` from a socket that is not connected, keep their addresses.

Source: https://docs.kernel.org/userspace-api/seccomp_filter.html#userspace-notification
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import select
import socket
import struct
import sys
from collections.abc import Collection
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final, NamedTuple

from kubewright_controlplane.kubelet.helpers.exec_helper import CALLS

_RECEIVE: Final = 0xC0502100
_SEND: Final = 0xC0182101
_IS_VALID: Final = 0x40082102
"""Numbers of ioctl(2) for the file descriptor that reports calls."""
_CONTINUE: Final = 1
_GET_DESCRIPTOR: Final = 438
"""The number of the system call pidfd_getfd, on every machine."""
_NOTIFICATION: Final = struct.Struct("QIIiIQ6Q")
_ANSWER: Final = struct.Struct("QqiI")
_AT_ONCE: Final = 16
"""The calls that are answered before others get the event loop."""
_LONGEST: Final = 28
"""The size of an address with its port, in IPv6."""
_HOSTS: Final[dict[int, tuple[int, int]]] = {socket.AF_INET: (4, 4), socket.AF_INET6: (16, 8)}
"""The size of the host in an address, and where it is."""
_MAPPED: Final = bytes(10) + b"\xff\xff"
"""The first bytes of an IPv4 address in IPv6."""
_LOCALHOST: Final = frozenset({IPv4Address("127.0.0.1").packed, bytes(4)})
_LOCALHOST_6: Final = frozenset({bytes(15) + b"\1", bytes(16)})
_BIND_WITHOUT_PORT: Final = 24
"""IP_BIND_ADDRESS_NO_PORT: the port is chosen when the socket connects."""


class _Call(NamedTuple):
    """A call of a program that waits."""

    identity: int
    number: int
    process: int
    descriptor: int
    at: int
    """Where the address is in the memory of the program."""
    length: int


class _Address(NamedTuple):
    family: int
    port: int
    host: bytes
    offset: int
    """Where the host is in the address."""

    @classmethod
    def of(cls, data: bytes) -> _Address | None:
        """Return the address of a call; None if it is not one of IPv4 or IPv6."""
        family = int.from_bytes(data[:2], sys.byteorder)
        size, offset = _HOSTS.get(family, (0, 0))
        host = data[offset : offset + size]
        return cls(family, int.from_bytes(data[2:4], "big"), host, offset) if size and len(host) == size else None

    @property
    def is_localhost(self) -> bool:
        return self.host in _LOCALHOST_6 or (self.ipv4 or b"-") in _LOCALHOST

    @property
    def ipv4(self) -> bytes | None:
        """The address in IPv4; None if it has none."""
        if self.family == socket.AF_INET:
            return self.host
        return self.host[12:] if self.host.startswith(_MAPPED) else None


class PodSockets:
    """The sockets of one Pod's programs."""

    def __init__(self, address: str, keep: Collection[int]) -> None:
        """`keep` are ports of this machine that stay at `localhost`, such as that of the API server."""
        self._address = IPv4Address(address).packed
        self._keep = keep
        self._ports: set[int] = set()
        """The ports at the address of the Pod that its programs asked for at all interfaces."""

    def changed(self, call: _Call, address: _Address) -> bytes | None:
        """Return the host that a call gets in place of its own; None if it keeps its own."""
        if CALLS[os.uname().machine].bind == call.number:
            if any(address.host) or not address.port or _is_ipv6_only(call, address):
                return None
            self._ports.add(address.port)
            return self._host(address)
        moved = address.is_localhost and address.port in self._ports and address.port not in self._keep
        if moved or (address.ipv4 or b"").startswith(b"\x7f"):
            self._choose_source(call)
        return self._host(address) if moved else None

    def _host(self, address: _Address) -> bytes:
        return self._address if address.family == socket.AF_INET else _MAPPED + self._address

    def _choose_source(self, call: _Call) -> None:
        """Let a TCP connection come from the address of the Pod, if the program has chosen none."""
        with _socket_of(call) as found:
            if found.type != socket.SOCK_STREAM or found.getsockname()[1]:
                return
            source = str(IPv4Address(self._address))
            found.setsockopt(socket.IPPROTO_IP, _BIND_WITHOUT_PORT, 1)
            found.bind((f"::ffff:{source}" if found.family == socket.AF_INET6 else source, 0))


def _is_ipv6_only(call: _Call, address: _Address) -> bool:
    if address.family != socket.AF_INET6:
        return False
    with _socket_of(call) as found:
        return bool(found.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY))


def _socket_of(call: _Call) -> socket.socket:
    """Return the socket of a call, which this process shares with the program. Raises OSError."""
    status = Path(f"/proc/{call.process}/status").read_text()  # the call may come from any thread
    group = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("Tgid:"))
    process = os.pidfd_open(group)
    try:
        descriptor = ctypes.CDLL(None, use_errno=True).syscall(_GET_DESCRIPTOR, process, call.descriptor, 0)
        if descriptor < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(process)
    return socket.socket(fileno=descriptor)


class SocketCalls:
    """The calls of one process and its children, from its start until `close`."""

    def __init__(self, sockets: PodSockets) -> None:
        self._sockets = sockets
        self._loop = asyncio.get_running_loop()
        self._channel, self.theirs = socket.socketpair()
        """The exec helper gets `theirs`, and sends the file descriptor that reports the calls."""
        self._reports: int | None = None
        self._loop.add_reader(self._channel, self._open)

    def handed_over(self) -> None:
        """Close what the exec helper has now."""
        self.theirs.close()

    def close(self) -> None:
        """Stop. Calls that wait, and later ones, fail."""
        self._close_channel()
        self.theirs.close()
        if self._reports is not None:
            self._loop.remove_reader(self._reports)
            os.close(self._reports)
            self._reports = None

    def _close_channel(self) -> None:
        if self._channel.fileno() >= 0:
            self._loop.remove_reader(self._channel)
            self._channel.close()

    def _open(self) -> None:
        with suppress(OSError):
            descriptors = socket.recv_fds(self._channel, 1, 1)[1]
            self._reports = descriptors[0] if descriptors else None
        self._close_channel()
        if self._reports is not None:
            self._loop.add_reader(self._reports, self._answer)

    def _answer(self) -> None:
        """Answer calls that wait. A program that calls without end does not hold the event loop."""
        assert self._reports is not None
        poll = select.poll()
        poll.register(self._reports, select.POLLIN)
        for _ in range(_AT_ONCE):
            events = poll.poll(0)
            if not events:
                return
            if not events[0][1] & select.POLLIN:  # all processes have ended
                self.close()
                return
            report = bytearray(_NOTIFICATION.size)
            with suppress(FileNotFoundError):  # the process has been killed meanwhile
                fcntl.ioctl(self._reports, _RECEIVE, report)
                self._handle(report)

    def _handle(self, report: bytearray) -> None:
        assert self._reports is not None
        identity, process, _, number, _, _, descriptor, at, length, *_ = _NOTIFICATION.unpack(report)
        call = _Call(identity, number, process, descriptor & 0xFFFFFFFF, at, length)
        with suppress(OSError, OverflowError, ValueError):  # the call fails for the same reason, or keeps its address
            self._change(call)
        fcntl.ioctl(self._reports, _SEND, bytearray(_ANSWER.pack(identity, 0, 0, _CONTINUE)))

    def _change(self, call: _Call) -> None:
        """Change the address of a call. Raises an error if the program has ended, or has passed nonsense."""
        assert self._reports is not None
        with open(f"/proc/{call.process}/mem", "r+b", buffering=0) as memory:
            fcntl.ioctl(self._reports, _IS_VALID, struct.pack("Q", call.identity))  # is it still the same process?
            memory.seek(call.at)
            address = _Address.of(memory.read(min(call.length, _LONGEST)))
            host = self._sockets.changed(call, address) if address is not None else None
            if address is not None and host is not None:
                memory.seek(call.at + address.offset)
                memory.write(host)
