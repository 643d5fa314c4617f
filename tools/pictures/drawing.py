"""Drawing primitives: a page, text that must fit, boxes, arrows, and two themes.

Pictures are 830 units wide, the width of a README on GitHub, so that a unit is a pixel there. Text uses the reader's
system fonts. Its width is estimated with the widest common one (DejaVu Sans): text that fits here fits everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from xml.sax.saxutils import escape, quoteattr

WIDTH: Final = 830
"""Of every picture, in units."""
MARGIN: Final = 20

Hue: TypeAlias = Literal["blue", "purple", "green", "amber", "gray"]
Anchor: TypeAlias = Literal["start", "middle", "end"]
Point: TypeAlias = tuple[float, float]

_SANS: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_MONO: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace"

_WIDTHS: Final = (
    (0.28, "'ijl"),
    (0.32, " ,.·IJ"),
    (0.34, "/:;\\|"),
    (0.40, "-f!()[]t"),
    (0.46, 'r"'),
    (0.52, "*_`–szck?"),
    (0.60, "PvxyLFT"),
    (0.64, "$0123456789ESbdghnpquaeoY{}"),
    (0.70, "ABVXZKCR"),
    (0.78, "NUH&DGOQ"),
    (0.84, "w#+<=>^~×→←≤"),
)
_EM: Final = {character: width for width, characters in _WIDTHS for character in characters}
_WIDEST: Final = 1.0
_BOLD: Final = 1.1
_MONO_EM: Final = 0.61


class DrawingError(Exception):
    """A text is wider than its box."""


@dataclass(frozen=True)
class Tint:
    """The colors of one hue."""

    fill: str
    row: str
    """Of a box within a box of this hue."""
    stroke: str
    ink: str


@dataclass(frozen=True)
class Theme:
    """The colors of a picture."""

    suffix: str
    """Of the file's name."""
    canvas: str
    border: str
    ink: str
    muted: str
    line: str
    tints: dict[Hue, Tint]


LIGHT: Final = Theme(
    suffix="",
    canvas="#ffffff",
    border="#d1d9e0",
    ink="#1f2328",
    muted="#59636e",
    line="#818b98",
    tints={
        "blue": Tint("#eef6ff", "#ffffff", "#54aeff", "#0550ae"),
        "purple": Tint("#f8f2ff", "#ffffff", "#b98eff", "#6639ba"),
        "green": Tint("#ebfbee", "#ffffff", "#4ac26b", "#116329"),
        "amber": Tint("#fff9e5", "#ffffff", "#d4a72c", "#7d4e00"),
        "gray": Tint("#f6f8fa", "#ffffff", "#b7bfc8", "#454c54"),
    },
)
DARK: Final = Theme(
    suffix="-dark",
    canvas="#0d1117",
    border="#30363d",
    ink="#f0f6fc",
    muted="#9ea7b3",
    line="#7d8590",
    tints={
        "blue": Tint("#0f1d30", "#0b1523", "#2f6fc9", "#79c0ff"),
        "purple": Tint("#1d1630", "#151023", "#7d55c7", "#d2a8ff"),
        "green": Tint("#0f2318", "#0b1a12", "#2f8a45", "#7ee787"),
        "amber": Tint("#261d0c", "#1b1509", "#96700f", "#e3b341"),
        "gray": Tint("#161b22", "#0f141a", "#4b535d", "#c9d1d9"),
    },
)
THEMES: Final = (LIGHT, DARK)


def text_width(text: str, size: float, *, bold: bool = False, mono: bool = False) -> float:
    """Return the maximum width of a text, in units."""
    if mono:
        return len(text) * _MONO_EM * size
    return sum(_EM.get(character, _WIDEST) for character in text) * size * (_BOLD if bold else 1.0)


def wrapped(text: str, width: float, size: float) -> list[str]:
    """Return the lines of a text that is wrapped at spaces to fit a width."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


class Drawing:
    """One picture in one theme."""

    def __init__(self, theme: Theme, height: float, *, title: str, description: str) -> None:
        self.theme = theme
        self.height = height
        self._title = title
        self._description = description
        self._parts: list[str] = []

    def svg(self) -> str:
        """Return the document."""
        height, theme = _number(self.height), self.theme
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
            f'role="img" aria-labelledby="title description" font-family={quoteattr(_SANS)}>'
        )
        page = (
            f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{_number(self.height - 1)}" rx="10" '
            f'fill="{theme.canvas}" stroke="{theme.border}"/>'
        )
        return "\n".join(
            [
                head,
                f'<title id="title">{escape(self._title)}</title>',
                f'<desc id="description">{escape(self._description)}</desc>',
                page,
                *self._parts,
                "</svg>\n",
            ]
        )

    def box(
        self, x: float, y: float, width: float, height: float, hue: Hue, *, inner: bool = False, dashed: bool = False
    ) -> None:
        """Draw a rounded rectangle; `inner` is for one within a box of the same hue."""
        tint = self.theme.tints[hue]
        style = f'fill="{tint.row if inner else tint.fill}" stroke="{tint.stroke}"'
        style += ' stroke-opacity="0.45"' if inner else ' stroke-width="1.25"'
        style += ' stroke-dasharray="5 4"' if dashed else ""
        self._rectangle(x, y, width, height, 5 if inner else 8, style)

    def bar(self, x: float, y: float, width: float, height: float, color: str) -> None:
        """Draw a bar of a chart."""
        self._rectangle(x, y, max(width, 1.5), height, min(3, max(width, 1.5) / 2), f'fill="{color}"')

    def dot(self, x: float, y: float, radius: float, color: str) -> None:
        """Draw a disk, centered at a point."""
        self._parts.append(f'<circle cx="{_number(x)}" cy="{_number(y)}" r="{_number(radius)}" fill="{color}"/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12.5,
        color: str = "",
        bold: bool = False,
        mono: bool = False,
        anchor: Anchor = "start",
        width: float | None = None,
    ) -> None:
        """Draw one line of text, whose baseline is at `y`. Raises DrawingError if it may be wider than `width`."""
        room = self._room(x, anchor) if width is None else width
        if (needed := text_width(text, size, bold=bold, mono=mono)) > room:
            raise DrawingError(f"{text!r} is {needed:.0f} wide and has room for {room:.0f}; shorten it or make room")
        style = f'font-size="{_number(size)}" fill="{color or self.theme.ink}"'
        style += ' font-weight="600"' if bold else ""
        style += f" font-family={quoteattr(_MONO)}" if mono else ""
        style += f' text-anchor="{anchor}"' if anchor != "start" else ""
        style += ' xml:space="preserve"' if text != text.strip() or "  " in text else ""
        self._parts.append(f'<text x="{_number(x)}" y="{_number(y)}" {style}>{escape(text)}</text>')

    def paragraph(
        self,
        x: float,
        y: float,
        text: str,
        width: float,
        *,
        size: float = 12.5,
        color: str = "",
        leading: float = 16.5,
        lines: int = 9,
    ) -> float:
        """Text in at most `lines` lines; returns the baseline after the last."""
        broken = wrapped(text, width, size)
        if len(broken) > lines:
            raise DrawingError(f"{text!r} takes {len(broken)} lines and has room for {lines}; shorten it or make room")
        for line in broken:
            self.text(x, y, line, size=size, color=color or self.theme.muted, width=width)
            y += leading
        return y

    def badge(self, x: float, y: float, text: str, hue: Hue) -> None:
        """Draw a number in a disk, centered at a point."""
        tint = self.theme.tints[hue]
        self._parts.append(f'<circle cx="{_number(x)}" cy="{_number(y)}" r="10" fill="{tint.ink}"/>')
        self.text(x, y + 4.2, text, size=12, color=self.theme.canvas, bold=True, anchor="middle")

    def arrow(self, points: Sequence[Point], *, color: str = "", dashed: bool = False, both: bool = False) -> None:
        """Draw a line through points, with rounded corners and a head at its end, or at both ends."""
        color = color or self.theme.line
        self.line(points, color=color, dashed=dashed)
        self._head(points[-2], points[-1], color)
        if both:
            self._head(points[1], points[0], color)

    def line(self, points: Sequence[Point], *, color: str = "", dashed: bool = False) -> None:
        """Draw a line through points, with rounded corners."""
        style = f'fill="none" stroke="{color or self.theme.line}" stroke-width="1.6" stroke-linejoin="round"'
        style += ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(f'<path d="{_path(points)}" {style}/>')

    def _head(self, start: Point, end: Point, color: str) -> None:
        (x0, y0), (x1, y1) = start, end
        dx, dy = _sign(x1 - x0), _sign(y1 - y0)
        left = (x1 - 7 * dx - 4 * dy, y1 - 7 * dy + 4 * dx)
        right = (x1 - 7 * dx + 4 * dy, y1 - 7 * dy - 4 * dx)
        corners = " ".join(f"{_number(x)},{_number(y)}" for x, y in (left, (x1, y1), right))
        self._parts.append(
            f'<polygon points="{corners}" fill="{color}" stroke="{color}" stroke-width="1" stroke-linejoin="round"/>'
        )

    def _rectangle(self, x: float, y: float, width: float, height: float, radius: float, style: str) -> None:
        place = f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
        self._parts.append(f'<rect {place} rx="{_number(radius)}" {style}/>')

    @staticmethod
    def _room(x: float, anchor: Anchor) -> float:
        right = WIDTH - 10 - x
        left = x - 10
        return {"start": right, "end": left, "middle": 2 * min(left, right)}[anchor]


def _path(points: Sequence[Point], radius: float = 7) -> str:
    """Return a path with rounded corners, of horizontal and vertical lines."""
    parts = [f"M{_number(points[0][0])} {_number(points[0][1])}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        start = _towards(corner, before, radius)
        end = _towards(corner, after, radius)
        parts.append(f"L{_number(start[0])} {_number(start[1])}")
        parts.append(f"Q{_number(corner[0])} {_number(corner[1])} {_number(end[0])} {_number(end[1])}")
    parts.append(f"L{_number(points[-1][0])} {_number(points[-1][1])}")
    return "".join(parts)


def _towards(start: Point, end: Point, distance: float) -> Point:
    dx, dy = end[0] - start[0], end[1] - start[1]
    distance = min(distance, max(abs(dx), abs(dy)) / 2)
    return start[0] + _sign(dx) * distance, start[1] + _sign(dy) * distance


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
