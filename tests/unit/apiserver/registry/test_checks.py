"""Checks that several kinds share."""

from __future__ import annotations

from kubewright_controlplane.apiserver.registry import checks


class _Compared(str):
    """A text that counts its comparisons."""

    __slots__ = ()
    count = 0

    def __eq__(self, other: object) -> bool:
        _Compared.count += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_repeated_values_are_found_with_few_comparisons() -> None:
    values = [_Compared(number % 5_000) for number in range(10_000)]
    assert checks.repeated(values) == frozenset(range(5_000, 10_000))
    assert _Compared.count < 20_000
