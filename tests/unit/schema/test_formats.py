"""Text formats, checked as in the API server."""

from __future__ import annotations

import pytest

from kubewright.machinery.formats import format_check

GOOD = {
    "ipv4": ["1.2.3.4", "01.2.3.4"], "ipv6": ["::1", "fe80::1"], "cidr": ["10.0.0.0/8", "::/0"],
    "email": ["a@b.c", "A B <a@b.c>"], "hostname": ["web", "a.example", "a-b.example"], "uri": ["http://a/b", "/a"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000"], "date": ["2026-02-28"], "duration": ["1h30m", "3 days"],
    "date-time": ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5+02:00"], "byte": ["aGk="],
    "mac": ["01:23:45:67:89:ab"], "hexcolor": ["#fff", "00FF00"], "rgbcolor": ["rgb(1, 2, 255)"],
    "isbn": ["0321751043", "978-0321751041"], "creditcard": ["4111 1111 1111 1111"], "ssn": ["123-45-6789"],
    "k8s-short-name": ["web-1"], "k8s-long-name": ["a.b-c.d"], "password": [""],
}  # fmt: skip
BAD = {
    "ipv4": ["1.2.3", "256.1.1.1", "::1"], "ipv6": ["1.2.3.4", "fe80::1%eth0"], "cidr": ["10.0.0.0", "10.0.0.0/33"],
    "email": ["a", "@b", "a@"], "hostname": ["", "a_b", "-a", "a.b-c", "a" * 64], "uri": ["a", "", "http://a b"],
    "uuid": ["123"], "date": ["2026-02-30", "26-1-1"], "duration": ["x", "1"],
    "date-time": ["2026-01-01", "2026-01-01T25:00:00Z"],
    "byte": ["x!"], "mac": ["01:23"], "hexcolor": ["#ff"], "rgbcolor": ["rgb(1,2,256)"], "isbn": ["0321751044"],
    "creditcard": ["4111 1111 1111 1112"], "ssn": ["1"], "k8s-short-name": ["Web", "a.b"], "k8s-long-name": ["a..b"],
}  # fmt: skip


@pytest.mark.parametrize(("format", "text"), [(name, text) for name, texts in GOOD.items() for text in texts])
def test_valid_text_is_accepted(format: str, text: str) -> None:
    check = format_check(format)
    assert check is not None
    assert check(text)


@pytest.mark.parametrize(("format", "text"), [(name, text) for name, texts in BAD.items() for text in texts])
def test_invalid_text_is_rejected(format: str, text: str) -> None:
    check = format_check(format)
    assert check is not None
    assert not check(text)


@pytest.mark.parametrize("format", BAD)
def test_long_text_costs_as_much_as_its_length(format: str) -> None:
    """Fails by its time limit if the cost is quadratic."""
    check = format_check(format)
    assert check is not None
    for text in ("1", "1h", "1 ", "a.", "a@", "::", "%20", "-", "A:", "(", "\u0661"):
        check(text * 50_000 + "!")


def test_unknown_formats_are_not_checked() -> None:
    assert format_check("unheard-of") is None
