"""Packs the documents of one kind: of a document that is similar to another one, only the differences are kept.

There are two formats:

    Template    the values in which a document differs from the others of its workload. It takes two documents to learn
                a template. Packing a further one costs a tenth of Deflate
    Reference   Deflate with another document as dictionary (RFC 1951; `zdict` of zlib), for documents that are similar
                in any other way, and for the text of templates

A Pod of 3 KB is reduced to 100 to 300 bytes if another Pod of the same Deployment exists.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import compress, count
from operator import ne
from typing import Final, TypeAlias

_LONGEST: Final = 32_000
"""The maximum size of a packed document in bytes. Deflate looks back 32 KiB and finds no match beyond."""

_SLACK: Final = 512
"""Extra bytes of the window beyond the reference: documents differ in length, and Deflate looks ahead."""

_ALIKE: Final = 3
"""The minimum compression ratio of a document that is packed."""

_LESSONS: Final = 4
"""How many templates are learned from one document. Each has the gaps of the one before, and further ones."""

_LONGEST_VALUE: Final = 512
"""The largest number of bytes in a gap. A longer search for the text that follows the gap does not pay."""

_MISSES: Final = 4
"""After this many dissimilar documents in a row, some are not tried: twice as many after each further one."""
_MOST_UNTRIED: Final = 64

_QUOTE: Final = b'"'
_SEPARATOR: Final = b"\0"
"""Does not occur in JSON, where control characters are escaped."""

_deflate: Final = partial(zlib.compressobj, level=3, memLevel=5)


class Reference:
    """A document that serves as dictionary for others."""

    __slots__ = ("document", "window")

    def __init__(self, document: bytes) -> None:
        self.document = document
        self.window = -max(10, min(15, (len(document) + _SLACK).bit_length()))

    @property
    def parts(self) -> tuple[bytes, ...]:
        """What is kept once for all documents that are packed with this reference."""
        return (self.document,)

    def unpack(self, packed: bytes) -> bytes:
        """Return the unpacked document."""
        return zlib.decompressobj(self.window, self.document).decompress(packed)


class Template:
    """The text that documents share, with gaps for the values in which they differ.

    A packed document is the content of its gaps. The text is packed with `reference`, if there is one.
    """

    __slots__ = ("_text", "reference")

    def __init__(self, text: bytes, reference: Reference | None) -> None:
        self._text = text
        self.reference = reference

    @property
    def parts(self) -> tuple[bytes, ...]:
        """What is kept once for all documents that are packed with this template."""
        return (self._text, *(self.reference.parts if self.reference is not None else ()))

    @property
    def texts(self) -> list[bytes]:
        """The parts of the text before, between and after the gaps."""
        text = self._text if self.reference is None else self.reference.unpack(self._text)
        return text.split(_SEPARATOR)

    def unpack(self, packed: bytes) -> bytes:
        """Return the unpacked document."""
        first, *others = self.texts
        pieces = [first]
        for value, text in zip(packed.split(_SEPARATOR), others, strict=True):
            pieces += (value, text)
        return b"".join(pieces)


Unpacker: TypeAlias = Reference | Template
"""What restores packed documents."""

Packed: TypeAlias = tuple[bytes, Unpacker | None]
"""A packed document and what unpacks it, or a document that is not packed."""


def _values(document: bytes, texts: list[bytes], lengths: list[int]) -> bytes | None:
    """Return the content of the gaps between `texts`, or None if a document does not have these texts.

    `lengths` are the probable lengths of the gaps.
    """
    place, values = len(texts[0]), list[bytes]()
    if not document.startswith(texts[0]):
        return None
    for text, length in zip(texts[1:], lengths, strict=True):
        end = place + length if text else len(document)
        if not document.startswith(text, end):
            end = document.find(text, place, place + len(text) + _LONGEST_VALUE)
            if end < 0:
                return None
        values.append(document[place:end])
        place = end + len(text)
    packed = _SEPARATOR.join(values)
    return packed if place == len(document) and len(packed) * _ALIKE < len(document) else None


class _Learner:
    """Learns the template of adjacent documents, from the first two of them."""

    def __init__(self) -> None:
        self.template: Template | None = None
        self._texts: list[bytes] = []
        self._lengths: list[int] = []
        self._pieces: list[bytes] = []
        """A document between its quotation marks."""
        self._gaps: set[int] = set()
        """The indexes of the pieces that differ in documents like this one."""
        self._lessons = 0
        self._tries = _Tries()

    def pack(self, document: bytes) -> bytes | None:
        """Pack a document with the last template that was learned. Returns None if it has another text."""
        return _values(document, self._texts, self._lengths) if self.template is not None else None

    def learn(self, document: bytes, deflated: Callable[[bytes], tuple[bytes, Reference | None]]) -> bytes | None:
        """Learn a template from the document and an earlier one, and return the packed document.

        Returns None if the documents are not similar. `deflated` packs the text of the template.
        """
        if not self._tries.next():
            return None
        pieces = document.split(_QUOTE)
        gaps = self._gaps | _differences(self._pieces, pieces)
        size = sum(len(pieces[gap]) for gap in gaps if gap < len(pieces))
        if not self._lessons or size * _ALIKE > len(document) or not gaps:
            self._pieces, self._gaps, self._lessons = pieces, set(), _LESSONS
            self._tries.failed()
            return None
        self._pieces, self._gaps = pieces, gaps
        self._lessons -= 1
        self._tries.succeeded()
        places = sorted(gaps)
        self._lengths = [len(pieces[place]) for place in places]
        self._texts = list(_texts(pieces, places))
        text, reference = deflated(_SEPARATOR.join(self._texts))
        self.template = Template(text, reference)
        return self.pack(document)


def _differences(pieces: list[bytes], others: list[bytes]) -> set[int]:
    """Return the indexes of the pieces that differ. Everything differs if the numbers of pieces do."""
    if len(pieces) != len(others):
        return set(range(len(others)))
    return set(compress(count(), map(ne, pieces, others)))


def _texts(pieces: list[bytes], gaps: list[int]) -> Iterator[bytes]:
    """Yield the text before, between and after the gaps, each with its quotation marks."""
    before = -1
    for gap in (*gaps, len(pieces)):
        start = [b""] if before >= 0 else []
        end = [b""] if gap < len(pieces) else []
        yield _QUOTE.join([*start, *pieces[before + 1 : gap], *end])
        before = gap


class _Tries:
    """Whether to try something that failed several times in a row. Each further failure doubles the pause."""

    def __init__(self) -> None:
        self._failures = 0
        self._left_out = 0

    def next(self) -> bool:
        """Return whether to try it this time."""
        if self._left_out:
            self._left_out -= 1
            return False
        return True

    def failed(self) -> None:
        self._failures += 1
        if self._failures >= _MISSES:
            self._left_out = min(2**self._failures, _MOST_UNTRIED)

    def succeeded(self) -> None:
        self._failures = 0


class Packer:
    """Packs the JSON documents of one kind in any order. It packs best if similar documents are adjacent.

    Documents that are not similar to others are kept unpacked. After a few of them, most are not tried.
    """

    def __init__(self) -> None:
        self._learner = _Learner()
        self._current: Reference | None = None
        self._compressor = _deflate()
        """Compressor of the current reference. A copy costs half of a new one."""
        self._next: Reference | None = None
        """The last dissimilar document. Similar ones may follow."""
        self._tries = _Tries()

    def pack(self, document: bytes, last: Unpacker | None = None) -> Packed:
        """Pack a document. `last` is what unpacks its previous version."""
        if len(document) > _LONGEST:
            return document, None
        learner = self._learner
        if isinstance(last, Template) and last is not learner.template:
            texts = last.texts
            values = _values(document, texts, [0] * (len(texts) - 1))
            if values is not None:
                return values, last
            last = last.reference
        elif not isinstance(last, Reference):
            values = learner.pack(document)
            if values is None:
                values = learner.learn(document, self._deflated_text)
            if values is not None:
                return values, learner.template
            last = None
        if last is None and not self._tries.next():
            return document, None
        return self._deflated(document, last)

    def _deflated(self, document: bytes, last: Reference | None) -> Packed:
        """Pack a document with its last reference, the current one, or the last dissimilar document."""
        packed = self._deflated_with((last or self._current, self._next), document)
        if packed is None:
            self._next = Reference(document)
            self._tries.failed()
            return document, None
        return packed

    def _deflated_text(self, text: bytes) -> tuple[bytes, Reference | None]:
        """Pack the text of a template."""
        return self._deflated_with((self._current, self._next), text) or (text, None)

    def _deflated_with(self, references: Iterable[Reference | None], document: bytes) -> tuple[bytes, Reference] | None:
        for reference in references:
            if reference is not None and len(data := self._in_terms_of(reference, document)) * _ALIKE < len(document):
                self._turn_to(reference)
                return data, reference
        return None

    def _in_terms_of(self, reference: Reference, document: bytes) -> bytes:
        if reference is self._current:
            compressor = self._compressor.copy()
        else:
            compressor = _deflate(wbits=reference.window, zdict=reference.document)
        return compressor.compress(document) + compressor.flush()

    def _turn_to(self, reference: Reference) -> None:
        self._tries.succeeded()
        if reference is self._next:
            self._current, self._next = reference, None
            self._compressor = _deflate(wbits=reference.window, zdict=reference.document)
