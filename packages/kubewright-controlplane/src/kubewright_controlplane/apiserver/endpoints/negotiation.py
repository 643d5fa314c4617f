"""Content negotiation: which representation a client accepts, in which encoding.

Follows apiserver's pkg/endpoints/handlers/negotiation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from kubewright.machinery.errors import NotAcceptable, StatusDetails

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ENCODINGS = (JSON, YAML, PROTOBUF)

_META_GROUP = "meta.k8s.io"
_META_VERSIONS = ("v1", "v1beta1")


@dataclass(frozen=True, slots=True)
class MediaType:
    """One entry of an Accept header."""

    type: str
    quality: float = 1.0
    parameters: tuple[tuple[str, str], ...] = ()

    def parameter(self, name: str) -> str:
        return next((value for key, value in self.parameters if key == name), "")

    def accepts(self, type: str) -> bool:
        """Return whether this is `type`, or a wildcard that includes it."""
        return self.type in (type, "*/*", type.partition("/")[0] + "/*")


@dataclass(frozen=True, slots=True)
class Accepted:
    """The accepted answer: an encoding, and the form: objects (`kind` is empty), a Table, or metadata only."""

    encoding: str = JSON
    kind: str = ""
    """`Table`, `PartialObjectMetadata` or `PartialObjectMetadataList`."""
    version: str = ""
    """Version of the meta.k8s.io group."""


@lru_cache(maxsize=256)
def parse_accept(header: str) -> tuple[MediaType, ...]:
    """Return the entries of an Accept header, best first; an empty header accepts everything."""
    entries = [_media_type(text) for text in header.split(",") if text.strip()]
    return tuple(sorted(entries, key=lambda entry: -entry.quality)) or (MediaType("*/*"),)


@lru_cache(maxsize=256)
def negotiate(header: str, *, tables: bool, metadata: bool) -> Accepted:
    """Choose the best answer that an Accept header allows. `tables` and `metadata` say whether these forms are
    available.

    JSON, the stored form, is preferred among equals. Raises NotAcceptable.
    """
    entries = parse_accept(header)
    best: Accepted | None = None
    for entry in entries:
        accepted = _accepted(entry, tables=tables, metadata=metadata)
        if accepted is None:
            continue
        if accepted.encoding != PROTOBUF:
            return accepted
        best = best or accepted
    if best is None:
        raise NotAcceptable(f"only the following media types are accepted: {', '.join(ENCODINGS)}")
    return best


def check_encoding(header: str) -> None:
    """Raise NotAcceptable if the client accepts none of the encodings."""
    if not any(entry.accepts(encoding) for entry in parse_accept(header) for encoding in ENCODINGS):
        listed = ", ".join((*ENCODINGS, f"{JSON};stream=watch", f"{PROTOBUF};stream=watch"))
        raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {listed}", details=StatusDetails())


def _accepted(entry: MediaType, *, tables: bool, metadata: bool) -> Accepted | None:
    encoding = next((each for each in ENCODINGS if entry.accepts(each)), None)
    if encoding is None:
        return None
    kind = entry.parameter("as")
    if not kind:
        return Accepted(encoding)
    known = entry.parameter("g") == _META_GROUP and entry.parameter("v") in _META_VERSIONS
    offered = (kind == "Table" and tables) or (kind.startswith("PartialObjectMetadata") and metadata)
    return Accepted(encoding, kind, entry.parameter("v")) if known and offered else None


def _media_type(text: str) -> MediaType:
    type, *parts = (part.strip() for part in text.split(";"))
    quality = 1.0
    parameters: list[tuple[str, str]] = []
    for part in parts:
        key, _, value = part.partition("=")
        if key == "q":
            try:
                quality = float(value)
            except ValueError:
                quality = 0.0
        else:
            parameters.append((key, value))
    return MediaType(type.lower(), quality, tuple(parameters))
