"""Compares outputs, except for parts that differ each time: times, ages, uids, addresses, random names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Final

_RANDOM: Final = "[bcdfghjklmnpqrstvwxz2456789]"
"""The characters of random names and of the hashes of Pod templates. There are no vowels, so no words result."""

_VARYING: Final = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uid>"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?", "<time>"),
        (r"\b\d\d:\d\d:\d\d(\.\d+)?\b", "<time>"),
        (r"\b\d+\.\d+\.\d+\.\d+(:\d+)?\b", "<address>"),
        (r"(?i)\b(resource ?version\"?:) *\"?\d+\"?", r"\1 <version>"),
        (rf"-{_RANDOM}{{8,10}}(-{_RANDOM}{{5}})?\b", "-<random>"),
        (rf"-{_RANDOM}{{5}}\b", "-<random>"),
        (rf"\bpod-template-hash={_RANDOM}{{8,10}}\b", "pod-template-hash=<random>"),
        (r"\b(\d+(\.\d+)?(ms|s|m|h|d))+\b|\b\d+(\.\d+)? (ms|s)\b", "<age>"),
        (r"<age> \(x\d+ over <age>\)", "<age>"),
        (r"[ \t]+", " "),
    ]
]
_PROGRESS: Final = re.compile(r"\S.*\.\.\.$")
"""Progress lines of `kubectl rollout status` and `kubewright deploy`, which appear only if they have to wait."""


def alike(one: str, other: str) -> bool:
    """Return whether two outputs are equal except for parts that differ each time.

    Adjacent lines with random names are compared in any order, because commands sort by name. The width of table
    columns is ignored.
    """
    return list(_essence(one)) == list(_essence(other))


def _essence(output: str) -> Iterator[str]:
    lines = (fixed(line) for line in output.strip("\n").splitlines() if not _PROGRESS.match(line))
    for at_random, group in itertools.groupby(lines, lambda line: "<random>" in line):
        adjacent = list(group)
        yield from sorted(adjacent) if at_random else adjacent


def fixed(line: str) -> str:
    """Return a line with placeholders for the parts that vary."""
    for pattern, replacement in _VARYING:
        line = pattern.sub(replacement, line)
    return line.rstrip()
