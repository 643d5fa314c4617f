"""The life of one PATCH through the API server."""

from __future__ import annotations

from typing import Final

from tools.pictures.drawing import MARGIN, WIDTH, Drawing, Hue, Theme

TITLE: Final = "The life of one PATCH through the API server"
DESCRIPTION: Final = (
    "1: the HTTP server parses the request and knows its peer. 2: the server authenticates, impersonates and "
    "authorizes. 3: the resource's registry is found and the body is decoded. 4: the registry reads the object, "
    "applies the patch, conforms it to the schema, owns its fields, admits, prepares, validates and commits. "
    "Nothing is awaited between the read and the commit, so a write is atomic. 5: the store gives the object the "
    "next revision, keeps its bytes, adds an event to the history and wakes the watches. 6: the client gets its "
    "answer."
)

Step = tuple[str, str]
BEFORE: Final = (
    ("1", "http", "Parse", "HTTP/1.1 and TLS; the peer's certificate"),
    ("2", "server", "Authorize", "certificate or token, impersonation, RBAC"),
    ("3", "resources", "Decode", "find the registry; JSON, YAML or protobuf"),
)
AFTER: Final = (
    ("5", "storage", "Store", "next revision, bytes and history; wakes the watches; appends to the log with --data"),
    ("6", "resources", "Answer", "the stored bytes, a Table, or metadata alone, as the client asked"),
)
ATOMIC: Final[tuple[tuple[Step, ...], tuple[Step, ...]]] = (
    (
        ("read", "the stored bytes, decoded"),
        ("patch", "merge, JSON, strategic, apply"),
        ("conform", "types, unknown fields, defaults"),
        ("own fields", "who set what: managedFields"),
    ),
    (
        ("admit", "mutating plugins"),
        ("prepare", "the kind's Strategy"),
        ("validate", "schema, CEL, kind, plugins"),
        ("commit", "if something changed"),
    ),
)
"""The steps of the registry: the first row from right to left, the second from left to right."""

_SIDE: Final = 104
_GAP: Final = 26
_LEFT: Final = MARGIN + _SIDE + _GAP
_INNER: Final = WIDTH - MARGIN - _LEFT
_BOX: Final = (_INNER - 2 * _GAP) / 3
_HEIGHT: Final = 92
_CHIP: Final = 62
_FRAME: Final = 40 + 2 * _CHIP + 22 + 12


def draw(theme: Theme) -> Drawing:
    upper = MARGIN
    frame = upper + _HEIGHT + 30
    lower = frame + _FRAME + 30
    bottom = lower + _HEIGHT
    drawing = Drawing(theme, bottom + MARGIN, title=TITLE, description=DESCRIPTION)
    columns = [_LEFT + index * (_BOX + _GAP) for index in range(3)]
    _client(drawing, upper, bottom)
    for x, (number, package, name, about) in zip(columns, BEFORE, strict=True):
        _box(drawing, x, upper, number, package, name, about, "purple")
    last = columns[2] + _BOX / 2
    drawing.arrow([(last, upper + _HEIGHT), (last, frame)])
    _registry(drawing, frame)
    drawing.arrow([(last, frame + _FRAME), (last, lower)])
    wide = (_INNER - _GAP) / 2
    for x, (number, package, name, about) in zip((_LEFT + wide + _GAP, _LEFT), AFTER, strict=True):
        _box(drawing, x, lower, number, package, name, about, "purple", wide)
    _arrows(drawing, columns, upper + _HEIGHT / 2, lower)
    return drawing


def _client(drawing: Drawing, top: float, bottom: float) -> None:
    drawing.box(MARGIN, top, _SIDE, bottom - top, "blue")
    center, middle = MARGIN + _SIDE / 2, (top + bottom) / 2
    drawing.text(center, middle - 14, "Client", size=15, bold=True, anchor="middle")
    muted = drawing.theme.muted
    drawing.text(center, middle + 8, "an operator,", color=muted, anchor="middle", width=_SIDE - 8)
    drawing.text(center, middle + 25, "kubectl", color=muted, anchor="middle", width=_SIDE - 8)
    drawing.text(center, top + _HEIGHT / 2 + 4, "PATCH", color=muted, mono=True, anchor="middle")
    drawing.text(center, bottom - _HEIGHT / 2 + 4, "200", color=muted, mono=True, anchor="middle")


def _box(
    drawing: Drawing,
    x: float,
    y: float,
    number: str,
    package: str,
    name: str,
    about: str,
    hue: Hue,
    width: float = _BOX,
) -> None:
    ink = drawing.theme.tints[hue].ink
    drawing.box(x, y, width, _HEIGHT, hue)
    if number:
        drawing.badge(x + 23, y + 23, number, hue)
    drawing.text(x + (40 if number else 14), y + 28, name, size=15, bold=True)
    drawing.text(x + width - 12, y + 27.5, package, mono=True, size=12, color=ink, anchor="end")
    drawing.paragraph(x + 14, y + 54, about, width - 24, lines=2)


def _registry(drawing: Drawing, y: float) -> None:
    """Draw the steps between which nothing is awaited."""
    theme, tint = drawing.theme, drawing.theme.tints["amber"]
    drawing.box(_LEFT, y, _INNER, _FRAME, "amber", dashed=True)
    drawing.badge(_LEFT + 23, y + 22, "4", "amber")
    drawing.text(_LEFT + 40, y + 27, "Registry", size=15, bold=True)
    drawing.text(_LEFT + 122, y + 26.5, "no await from read to commit: a write is atomic", color=theme.muted, width=390)
    drawing.text(_LEFT + _INNER - 12, y + 26.5, "registry", mono=True, size=12, color=tint.ink, anchor="end")
    gap = 16
    width = (_INNER - 24 - 3 * gap) / 4
    xs = [_LEFT + 12 + index * (width + gap) for index in range(4)]
    first, second = y + 40, y + 40 + _CHIP + 22
    for x, (name, about) in zip(reversed(xs), ATOMIC[0], strict=True):
        _chip(drawing, x, first, width, name, about)
    for x, (name, about) in zip(xs, ATOMIC[1], strict=True):
        _chip(drawing, x, second, width, name, about)
    for x in xs[:3]:
        drawing.arrow([(x + width + gap, first + _CHIP / 2), (x + width, first + _CHIP / 2)])
        drawing.arrow([(x + width, second + _CHIP / 2), (x + width + gap, second + _CHIP / 2)])
    drawing.arrow([(xs[0] + width / 2, first + _CHIP), (xs[0] + width / 2, second)])


def _chip(drawing: Drawing, x: float, y: float, width: float, name: str, about: str) -> None:
    drawing.box(x, y, width, _CHIP, "amber", inner=True)
    drawing.text(x + 10, y + 19, name, bold=True, color=drawing.theme.tints["amber"].ink, width=width - 16)
    drawing.paragraph(x + 10, y + 36, about, width - 16, size=12, leading=15.5, lines=2)


def _arrows(drawing: Drawing, columns: list[float], upper: float, lower: float) -> None:
    starts = [MARGIN + _SIDE, columns[0] + _BOX, columns[1] + _BOX]
    for start, stop in zip(starts, columns, strict=True):
        drawing.arrow([(start, upper), (stop, upper)])
    middle, half = lower + _HEIGHT / 2, _LEFT + (_INNER - _GAP) / 2
    drawing.arrow([(half + _GAP, middle), (half, middle)])
    drawing.arrow([(_LEFT, middle), (MARGIN + _SIDE, middle)])
