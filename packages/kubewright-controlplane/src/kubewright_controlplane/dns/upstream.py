"""Queries to the resolvers of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import dns.asyncquery
import dns.entropy
import dns.exception
import dns.message

from kubewright_controlplane.common.resolver import Resolver

_SECONDS: Final = 4.0
"""How long each resolver may take."""
_ASKING: Final = 200
"""The queries that wait for resolvers at the same time. Queries for names of the cluster do not wait behind them."""
_ATTEMPTS: Final = 2
"""The number of resolvers that are asked, one after the other."""


class Upstream:
    """Asks the resolvers in a file like `/etc/resolv.conf`, except the server's own address."""

    def __init__(self, own: str, config: Path) -> None:
        self._own = own
        self._config = config
        self._asking = 0

    async def ask(self, query: dns.message.Message) -> dns.message.Message | None:
        """Return the answer of a resolver; None if none answers, or if too many queries wait."""
        if self._asking >= _ASKING:
            return None
        self._asking += 1
        try:
            return await self._ask(query)
        finally:
            self._asking -= 1

    async def _ask(self, query: dns.message.Message) -> dns.message.Message | None:
        sent = dns.message.from_wire(query.to_wire())
        sent.id = dns.entropy.random_16()
        for address in (await asyncio.to_thread(self._resolvers))[:_ATTEMPTS]:
            try:
                answer, _ = await dns.asyncquery.udp_with_fallback(sent, address, timeout=_SECONDS)
            except (dns.exception.DNSException, OSError, EOFError):
                continue
            answer.id = query.id
            return answer
        return None

    def _resolvers(self) -> Sequence[str]:
        return [each for each in Resolver.read(self._config).nameservers if each != self._own]
