"""Short hashes that end names: letters and digits that spell no word, as the Kubernetes controllers make them."""

from __future__ import annotations

from typing import Final

_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"


def short_hash(data: bytes) -> str:
    """FNV-1a of 32 bits, in at most ten characters."""
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(value))
