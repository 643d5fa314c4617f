"""From queries to answers, in the format of RFC 1035. Resolvers of this machine answer for names outside the zone."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset

from kubewright.apis.core.v1 import Service
from kubewright.apis.discovery.v1 import EndpointSlice
from kubewright.cache._store import Lister
from kubewright_controlplane.common.resolver import DOMAIN
from kubewright_controlplane.dns.upstream import Upstream
from kubewright_controlplane.dns.zone import Found, Record, Zone

_TTL: Final = 5
_SOA: Final = f"ns.dns.{DOMAIN}. hostmaster.{DOMAIN}. 1 7200 1800 86400 {_TTL}"
_LEAST_SIZE: Final = 512
_MOST_SIZE: Final = 4096
"""The sizes of answers over UDP that a client may ask for. A longer answer is truncated, and the client uses TCP."""
_MOST_RECORDS: Final = 2
"""The records that a query may add to its question: one for EDNS, and a signature."""
_HEADER: Final = struct.Struct(">HHHHHH")
_QUERY_FLAGS: Final = 0x7900
"""The bits of a query that an answer repeats: the opcode, and whether recursion is desired."""
_ALIASES: Final = 8
"""The number of aliases that are followed."""


class Answers:
    """Answers queries from the zone of a cluster, and passes others on."""

    def __init__(self, services: Lister[Service], slices: Lister[EndpointSlice], own: str, resolvers: Path) -> None:
        """`own` is the address of this server. The file `resolvers` names those of this machine."""
        self._zone = Zone(services, slices)
        self._upstream = Upstream(own, resolvers)

    async def answer(self, data: bytes, *, is_tcp: bool) -> bytes:
        """Return the answer to a query; nothing if it can't be understood."""
        if _is_costly(data):
            return _format_error(data)
        try:
            query = dns.message.from_wire(data, ignore_trailing=True)
        except dns.exception.DNSException:
            return b""
        if query.flags & dns.flags.QR:
            return b""
        response = await self._respond(query)
        size = 65_535 if is_tcp else min(max(query.payload, _LEAST_SIZE), _MOST_SIZE)
        return response.to_wire(max_size=size, prefer_truncation=True)

    async def _respond(self, query: dns.message.Message) -> dns.message.Message:
        if query.opcode() != dns.opcode.QUERY:
            return _error(query, dns.rcode.NOTIMP)
        if len(query.question) != 1:
            return _error(query, dns.rcode.FORMERR)
        question = query.question[0]
        if question.rdclass != dns.rdataclass.IN:
            return _error(query, dns.rcode.REFUSED)
        if self._zone.contains(_labels(question.name)):
            return await self._respond_from_zone(query, question)
        answer = await self._upstream.ask(query)
        return answer if answer is not None else _error(query, dns.rcode.SERVFAIL)

    async def _respond_from_zone(self, query: dns.message.Message, question: dns.rrset.RRset) -> dns.message.Message:
        response = dns.message.make_response(query, recursion_available=True)
        response.flags |= dns.flags.AA
        name, answers = question.name, list[Record]()
        for _ in range(_ALIASES):
            found = self._zone.find(_labels(name))
            if found is None:
                response.set_rcode(dns.rcode.NXDOMAIN)
                break
            records = _of_type(found, question.rdtype)
            answers += records
            response.additional += _sets(found.additional if question.rdtype == dns.rdatatype.SRV else ())
            alias = next((each for each in records if each.type == "CNAME"), None)
            if alias is None or question.rdtype == dns.rdatatype.CNAME:
                break
            name = dns.name.from_text(alias.value)
            if not self._zone.contains(_labels(name)):
                return await self._follow(response, answers, name, question.rdtype)
        response.answer = _sets(answers)
        if not answers:
            response.authority.append(dns.rrset.from_text(f"{DOMAIN}.", _TTL, "IN", "SOA", _SOA))
        return response

    async def _follow(
        self,
        response: dns.message.Message,
        answers: Sequence[Record],
        name: dns.name.Name,
        kind: dns.rdatatype.RdataType,
    ) -> dns.message.Message:
        """Add what other resolvers answer about the target of an alias."""
        found = await self._upstream.ask(dns.message.make_query(name, kind))
        response.answer = _sets(answers)
        if found is None:
            response.set_rcode(dns.rcode.SERVFAIL)
        else:
            response.set_rcode(found.rcode())
            response.answer += found.answer
        return response


def _of_type(found: Found, kind: dns.rdatatype.RdataType) -> list[Record]:
    """Return the records that answer a query for a type."""
    if kind == dns.rdatatype.ANY:
        return list(found.records)
    return [each for each in found.records if each.type in (dns.rdatatype.to_text(kind), "CNAME")]


def _sets(records: Iterable[Record]) -> list[dns.rrset.RRset]:
    """Return records grouped by name and type."""
    groups: dict[tuple[str, str], list[str]] = {}
    for each in records:
        groups.setdefault((each.name, each.type), []).append(each.value)
    return [
        dns.rrset.from_text_list(f"{name}.", _TTL, "IN", kind, dict.fromkeys(values))
        for (name, kind), values in groups.items()
    ]


def _labels(name: dns.name.Name) -> tuple[str, ...]:
    return tuple(label.decode("ascii", "replace").lower() for label in name.labels if label)


def _is_costly(data: bytes) -> bool:
    """Return whether a message has more than a query: to parse thousands of records takes seconds."""
    if len(data) < _HEADER.size:
        return False
    _, _, questions, answers, authorities, additional = _HEADER.unpack_from(data)
    return len(data) > _MOST_SIZE or questions + answers + authorities > 1 or additional > _MOST_RECORDS


def _format_error(data: bytes) -> bytes:
    """Return the answer FORMERR, without the question; nothing if the message is not a query."""
    number, flags, *_ = _HEADER.unpack_from(data)
    if flags & dns.flags.QR:
        return b""
    return _HEADER.pack(number, dns.flags.QR | flags & _QUERY_FLAGS | dns.rcode.FORMERR, 0, 0, 0, 0)


def _error(query: dns.message.Message, code: dns.rcode.Rcode) -> dns.message.Message:
    response = dns.message.make_response(query, recursion_available=True)
    response.set_rcode(code)
    return response
