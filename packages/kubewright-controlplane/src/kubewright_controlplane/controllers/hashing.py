"""Short hashes for names, with letters and digits that form no words, as in the Kubernetes controllers."""

from __future__ import annotations

from typing import Final

_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"


def short_hash(data: bytes) -> str:
    """Return the 32-bit FNV-1a hash in at most ten characters."""
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(value))
