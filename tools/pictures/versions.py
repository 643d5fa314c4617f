"""The versions of a kind: what clients see of one object, what is stored, and who converts it."""

from __future__ import annotations

from typing import Final

from tools.pictures.drawing import MARGIN, WIDTH, Drawing, Hue, Theme

TITLE: Final = "One object in two versions"
DESCRIPTION: Final = (
    "Clients of v1alpha1 read and write size, memoryMb and public. Clients of v1 read and write replicas, memory, "
    "service and env. Both are the same WebServer. The API server stores it in v1, the hub. It asks the webhook of "
    "your operator to convert the object to and from v1alpha1, a spoke. An annotation keeps what v1alpha1 lacks."
)

_CARD: Final = 210
_MIDDLE: Final = 190
_TOP: Final = 62
_HEIGHT: Final = 146
_GAP: Final = 26
_LOWER: Final = _TOP + _HEIGHT + _GAP
_BOTTOM: Final = _LOWER + _HEIGHT
_CENTER: Final = (WIDTH - _MIDDLE) / 2
_RIGHT: Final = WIDTH - MARGIN - _CARD
_SERVER: Final = 104
"""The height of the API server's box."""

_OLD: Final = ("size: 3", "memoryMb: 1074", "public: true", "annotation: 1Gi, env")
_NEW: Final = ("replicas: 3", "memory: 1Gi", "service.type: NodePort", "env: GREETING")


def draw(theme: Theme) -> Drawing:
    drawing = Drawing(theme, _BOTTOM + 24, title=TITLE, description=DESCRIPTION)
    for x, width, text, hue in _headings():
        color = theme.tints[hue].ink
        drawing.text(x + width / 2, 32, text, size=13, bold=True, color=color, anchor="middle", width=width + 8)
        drawing.line([(x, 44), (x + width, 44)], color=theme.tints[hue].stroke)
    _card(drawing, MARGIN, _TOP, "v1alpha1, a spoke", "amber", _OLD)
    _card(drawing, MARGIN, _LOWER, "v1, the hub", "green", _NEW)
    _card(drawing, _RIGHT, _LOWER, "v1, the storage version", "green", _NEW)
    _box(drawing, _LOWER + (_HEIGHT - _SERVER) / 2, "API server", "gray", ("checks schemas", "stores one version"))
    _box(drawing, _TOP + 12, "Webhook", "blue", ("/convert: to v1, and back", "defaults and checks, as v1"))
    _arrows(drawing)
    return drawing


def _headings() -> tuple[tuple[float, float, str, Hue], ...]:
    return (
        (MARGIN, _CARD, "What clients see", "amber"),
        (_CENTER, _MIDDLE, "Your operator", "blue"),
        (_RIGHT, _CARD, "What is stored", "green"),
    )


def _card(drawing: Drawing, x: float, y: float, version: str, hue: Hue, lines: tuple[str, ...]) -> None:
    """Draw an object in one version."""
    tint, muted = drawing.theme.tints[hue], drawing.theme.muted
    drawing.box(x, y, _CARD, _HEIGHT, hue)
    drawing.text(x + 12, y + 24, "WebServer", size=15, bold=True, color=tint.ink)
    drawing.text(x + 12, y + 41, version, size=12, color=muted, width=_CARD - 24)
    drawing.box(x + 7, y + 51, _CARD - 14, _HEIGHT - 58, hue, inner=True)
    for index, line in enumerate(lines):
        drawing.text(x + 14, y + 69 + index * 20, line, mono=True, size=11.5, width=_CARD - 26)


def _box(drawing: Drawing, y: float, name: str, hue: Hue, lines: tuple[str, ...]) -> None:
    drawing.box(_CENTER, y, _MIDDLE, _SERVER, hue)
    drawing.text(_CENTER + 12, y + 28, name, size=15, bold=True, color=drawing.theme.tints[hue].ink)
    for index, line in enumerate(lines):
        y_of_line = y + 54 + index * 22
        drawing.text(_CENTER + 12, y_of_line, line, size=12, color=drawing.theme.muted, width=_MIDDLE - 22)


def _arrows(drawing: Drawing) -> None:
    server, edge = _LOWER + _HEIGHT / 2, MARGIN + _CARD
    upper = _TOP + _HEIGHT / 2
    between = (edge + _CENTER) / 2
    left = (server - 14, server + 14)
    drawing.arrow([(edge, left[1]), (_CENTER, left[1])])
    drawing.arrow([(_CENTER, left[1] + 14), (edge, left[1] + 14)])
    drawing.arrow([(edge, upper), (between, upper), (between, left[0]), (_CENTER, left[0])])
    drawing.arrow(
        [(_CENTER, left[0] - 14), (between - 14, left[0] - 14), (between - 14, upper + 14), (edge, upper + 14)]
    )
    for shift, ends in ((-7, (_CENTER + _MIDDLE, _RIGHT)), (7, (_RIGHT, _CENTER + _MIDDLE))):
        drawing.arrow([(ends[0], server + shift), (ends[1], server + shift)])
    above, below = _TOP + 12 + _SERVER, _LOWER + (_HEIGHT - _SERVER) / 2
    middle, color = _CENTER + _MIDDLE / 2, drawing.theme.tints["blue"].stroke
    drawing.arrow([(middle - 9, below), (middle - 9, above)], color=color)
    drawing.arrow([(middle + 9, above), (middle + 9, below)], color=color)
