"""Percentages of a total."""

from __future__ import annotations

import pytest

from kubewright_controlplane.controllers.intstr import scaled


def test_a_percentage_is_rounded_up_or_down() -> None:
    assert scaled("25%", 10, round_up=True) == 3
    assert scaled("25%", 10, round_up=False) == 2
    assert scaled("100%", 3, round_up=False) == 3


def test_a_number_is_itself() -> None:
    assert scaled(7, 10, round_up=True) == 7


def test_text_that_is_not_a_percentage_is_rejected() -> None:
    with pytest.raises(ValueError, match="neither an integer nor a percentage"):
        scaled("http", 10, round_up=True)
