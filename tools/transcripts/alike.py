"""Outputs that are the same but for what is another each time: times, ages, uids, addresses, names at random."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Final

_RANDOM: Final = "[bcdfghjklmnpqrstvwxz2456789]"
"""What Kubernetes makes names of at random, and the hashes of Pod templates: no vowels, so that no word comes of it."""

_VARYING: Final = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uid>"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?", "<time>"),
        (r"\b\d\d:\d\d:\d\d(\.\d+)?\b", "<time>"),
        (r"\b\d+\.\d+\.\d+\.\d+(:\d+)?\b", "<address>"),
        (r"\b(\d+(\.\d+)?(ms|s|m|h|d))+\b|\b\d+(\.\d+)? (ms|s)\b", "<age>"),
        (r"<age> \(x\d+ over <age>\)", "<age>"),
        (r"(?i)\b(resource ?version\"?:) *\"?\d+\"?", r"\1 <version>"),
        (rf"-{_RANDOM}{{8,10}}(-{_RANDOM}{{5}})?\b", "-<random>"),
        (rf"-{_RANDOM}{{5}}\b", "-<random>"),
        (rf"\bpod-template-hash={_RANDOM}{{8,10}}\b", "pod-template-hash=<random>"),
        (r"[ \t]+", " "),
    ]
]
_PROGRESS: Final = re.compile(r"\S.*\.\.\.$")
"""What `kubectl rollout status` and `kubewright deploy` say on their way, or don't, if they are late."""


def alike(one: str, other: str) -> bool:
    """Whether nothing differs but what is another each time.

    Neighbouring lines with names at random are compared in any order: they are sorted by them. How wide the columns
    of tables are does not count.
    """
    return list(_essence(one)) == list(_essence(other))


def _essence(output: str) -> Iterator[str]:
    lines = (fixed(line) for line in output.strip("\n").splitlines() if not _PROGRESS.match(line))
    for at_random, group in itertools.groupby(lines, lambda line: "<random>" in line):
        neighbours = list(group)
        yield from sorted(neighbours) if at_random else neighbours


def fixed(line: str) -> str:
    """A line, with words in place of what varies."""
    for pattern, replacement in _VARYING:
        line = pattern.sub(replacement, line)
    return line.rstrip()
