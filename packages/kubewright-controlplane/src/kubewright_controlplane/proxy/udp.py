"""A UDP port of this machine whose datagrams are forwarded to one of several targets."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from ipaddress import IPv4Network
from typing import Final, TypeAlias

from kubewright_controlplane.common.budget import SocketBudget
from kubewright_controlplane.proxy.gate import Gate
from kubewright_controlplane.proxy.targets import Choice, Target, Targets

Client: TypeAlias = tuple[str, int]

_IDLE_SECONDS: Final = 60.0
_PENDING: Final = 16
"""The datagrams that wait for the socket of a new flow."""


class UDPForwarder(asyncio.DatagramProtocol):
    """Listens, and forwards the datagrams of each client to one target, and its answers back.

    The datagrams of a client go to the same target until the client is silent for `_IDLE_SECONDS`, the target is
    removed, or the target's machine refuses them. Beyond the budget, the flow that was silent longest ends. While a
    socket accepts no more, datagrams are lost, as in any full queue of a network.
    """

    def __init__(self, host: str, port: int, budget: SocketBudget) -> None:
        self._host = host
        self._port = port
        self._budget = budget
        self._choice = Choice()
        self._gate = Gate()
        self._flows: OrderedDict[Client, _Flow] = OrderedDict()
        """The flow that was used last is the last one."""
        self._transport: asyncio.DatagramTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_full = False

    @property
    def has_connections(self) -> bool:
        """Whether flows exist. They end when the port is closed."""
        return bool(self._flows)

    async def open(self) -> None:
        """Listen. Raises OSError if the port can't be opened."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=(self._host, self._port))

    def set_targets(self, targets: Targets) -> None:
        """Set the targets. Flows to targets that are removed end."""
        self._choice.set(targets)
        for client, flow in [*self._flows.items()]:
            if flow.target not in self._choice:
                self._end(client)

    def cut_off(self, networks: tuple[IPv4Network, ...]) -> None:
        """Lose the datagrams of clients in these networks."""
        self._gate.close_for(networks)

    def close(self) -> None:
        """Stop listening, and end all flows."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for client in [*self._flows]:
            self._end(client)
        if self._transport is not None:
            self._transport.close()

    async def abort(self) -> None:
        self.close()

    def datagram_received(self, data: bytes, addr: Client) -> None:
        if not self._gate.is_open(addr[0]):
            return
        now = asyncio.get_running_loop().time()
        flow = self._flows.get(addr)
        if flow is None:
            flow = self._begin(addr, now)
            if flow is None:
                return
        flow.used = now
        self._flows.move_to_end(addr)
        flow.send(data)

    def answer(self, client: Client, data: bytes) -> None:
        """Send the answer of a target to its client."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if client in self._flows:
            self._flows[client].used = asyncio.get_running_loop().time()
            self._flows.move_to_end(client)
        if not self._is_full and self._gate.is_open(client[0]):
            transport.sendto(data, client)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False

    def refused(self, flow: _Flow) -> None:
        """End a flow whose target refuses datagrams. The next datagram of the client goes to the next target."""
        if self._flows.get(flow.client) is flow:
            self._end(flow.client)

    def _begin(self, client: Client, now: float) -> _Flow | None:
        order = self._choice.order(client[0], now)
        if not order:
            return None
        if not self._budget.take(1):
            if not self._flows:
                return None
            self._end(next(iter(self._flows)))
            if not self._budget.take(1):
                return None
        self._choice.connected(client[0], order[0], now)
        flow = self._flows[client] = _Flow(self, client, order[0], now)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._end_silent)
        return flow

    def _end_silent(self) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time() - _IDLE_SECONDS
        for client, flow in [*self._flows.items()]:
            if flow.used <= before:
                self._end(client)
        self._timer = loop.call_later(_IDLE_SECONDS, self._end_silent) if self._flows else None

    def _end(self, client: Client) -> None:
        self._flows.pop(client).close()
        self._budget.free(1)


class _Flow(asyncio.DatagramProtocol):
    """The datagrams between one client and one target."""

    def __init__(self, owner: UDPForwarder, client: Client, target: Target, now: float) -> None:
        self._owner = owner
        self.client = client
        self.target = target
        self.used = now
        self._is_full = False
        self._pending: list[bytes] = []
        self._transport: asyncio.DatagramTransport | None = None
        self._opening = asyncio.create_task(self._open(), name=f"UDP flow to {target.host}:{target.port}")

    def send(self, data: bytes) -> None:
        if self._transport is not None:
            if not self._is_full:
                self._transport.sendto(data)
        elif len(self._pending) < _PENDING:
            self._pending.append(data)

    def close(self) -> None:
        self._opening.cancel()
        if self._transport is not None:
            self._transport.abort()

    def datagram_received(self, data: bytes, addr: Client) -> None:
        self._owner.answer(self.client, data)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False

    def error_received(self, exc: Exception) -> None:
        self._owner.refused(self)

    async def _open(self) -> None:
        try:
            transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: self, remote_addr=self.target
            )
        except OSError:
            self._owner.refused(self)
            return
        self._transport = transport
        for data in self._pending:
            transport.sendto(data)
        self._pending.clear()
