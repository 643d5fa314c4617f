"""The text and the causes of errors."""

from __future__ import annotations

from kubewright.machinery.errors import Invalid
from kubewright.machinery.fields import invalid


def test_an_error_counts_many_mistakes_and_lists_the_first() -> None:
    error = Invalid.of("Pod", "", "a", [invalid(f"spec.a[{each}]", each, "no") for each in range(5000)])
    assert str(error).startswith('Pod "a" is invalid: [spec.a[0]: Invalid value: 0: no, spec.a[1]: ')
    assert str(error).endswith("spec.a[999]: Invalid value: 999: no, and 4000 more errors]")
    assert len(error.causes) == 1000
