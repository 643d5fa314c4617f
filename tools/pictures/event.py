"""The life of one watch event: from the socket to a reconcile, and back."""

from __future__ import annotations

from typing import Final

from tools.pictures.drawing import MARGIN, WIDTH, Drawing, Hue, Theme

TITLE: Final = "The life of one watch event"
DESCRIPTION: Final = (
    "1: http and client read the watch and keep each object as bytes. 2: the cache's reflector keeps the watch "
    "going and makes an Entry. 3: the cache's store keeps the Entry and informs its handlers. 4: the listener of "
    "a controller turns the event into requests, and its work queue merges them. 5: a worker takes a request, "
    "decodes a fresh object and awaits your reconcile function. 6: ctx.apply compares with the cache and sends "
    "nothing when nothing differs; otherwise one PATCH goes through the fence to the API server. 7: the next read "
    "waits for the answer's version; the event of the write comes back as number 1 and finds nothing to do."
)

_SIDE: Final = 84
_GAP: Final = 22
_RIGHT: Final = 140
_BOX: Final = (WIDTH - 2 * MARGIN - _SIDE - _RIGHT - 4 * _GAP) / 3
_HEIGHT: Final = 156
_LANES: Final = 50
_STRIP: Final = 50


def draw(theme: Theme) -> Drawing:
    upper, lower = MARGIN, MARGIN + _HEIGHT + _LANES
    bottom = lower + _HEIGHT
    drawing = Drawing(theme, bottom + 18 + _STRIP + MARGIN, title=TITLE, description=DESCRIPTION)
    columns = [MARGIN + _SIDE + _GAP + index * (_BOX + _GAP) for index in range(3)]
    end = columns[2] + _BOX + _GAP
    _server(drawing, upper, bottom)
    _box(
        drawing,
        columns[0],
        upper,
        "1",
        "http, client",
        "Watch",
        "Chunks become lines. Each object stays bytes.",
        "RawEvent",
    )
    _box(
        drawing,
        columns[1],
        upper,
        "2",
        "cache",
        "Reflector",
        "Survives 410, silence and restarts. Finds deletes.",
        "Entry",
    )
    _box(drawing, columns[2], upper, "3", "cache", "Store", "Updates indexes and informs handlers.", "Event")
    _controller(drawing, end, upper, bottom)
    _box(
        drawing,
        columns[2],
        lower,
        "5",
        "controllers",
        "Worker",
        "Waits for own writes, decodes, awaits:",
        "reconcile(ctx)",
        "amber",
    )
    _box(
        drawing,
        columns[1],
        lower,
        "6",
        "controllers",
        "ctx.apply",
        "Nothing differs from the cache: nothing is sent.",
        "PATCH",
    )
    _box(drawing, columns[0], lower, "", "manager", "Fence", "A leader without its Lease sends nothing.", "PATCH")
    _arrows(drawing, columns, end, upper + _HEIGHT / 2, lower + _HEIGHT / 2)
    _return(drawing, bottom + 18)
    muted, middle = theme.muted, upper + _HEIGHT + _LANES / 2 + 4.5
    drawing.text(columns[0], middle, "In: nothing is decoded before step 5.", color=muted)
    drawing.text(columns[2] + _BOX, middle, "Out: one PATCH, or nothing.", color=muted, anchor="end")
    return drawing


def _server(drawing: Drawing, top: float, bottom: float) -> None:
    drawing.box(MARGIN, top, _SIDE, bottom - top, "gray")
    center, middle = MARGIN + _SIDE / 2, (top + bottom) / 2
    drawing.text(center, middle - 4, "API", size=15, bold=True, anchor="middle")
    drawing.text(center, middle + 16, "server", size=15, bold=True, anchor="middle")
    muted = drawing.theme.muted
    drawing.text(center, top + _HEIGHT / 2 + 4, "watch", color=muted, mono=True, anchor="middle")
    drawing.text(center, bottom - _HEIGHT / 2 + 4, "patch", color=muted, mono=True, anchor="middle")


def _box(
    drawing: Drawing,
    x: float,
    y: float,
    number: str,
    package: str,
    name: str,
    about: str,
    result: str,
    hue: Hue = "blue",
) -> None:
    """Draw one step: where it is, what it does, and what it passes on."""
    tint = drawing.theme.tints[hue]
    drawing.box(x, y, _BOX, _HEIGHT, "blue")
    _head(drawing, x, y, number, package, name)
    drawing.paragraph(x + 14, y + 72, about, _BOX - 24, lines=3)
    drawing.box(x + 8, y + _HEIGHT - 34, _BOX - 16, 26, hue, inner=True)
    drawing.text(x + _BOX / 2, y + _HEIGHT - 16.5, result, mono=True, color=tint.ink, anchor="middle", width=_BOX - 20)


def _head(drawing: Drawing, x: float, y: float, number: str, package: str, name: str) -> None:
    ink = drawing.theme.tints["blue"].ink
    if number:
        drawing.badge(x + 23, y + 23, number, "blue")
    drawing.text(x + (40 if number else 14), y + 27.5, package, mono=True, color=ink, size=12)
    drawing.text(x + 14, y + 52, name, size=15, bold=True)


def _controller(drawing: Drawing, x: float, top: float, bottom: float) -> None:
    drawing.box(x, top, _RIGHT, bottom - top, "blue")
    _head(drawing, x, top, "4", "controllers", "Listener")
    width = _RIGHT - 24
    y = drawing.paragraph(x + 14, top + 72, "Predicates first. Then requests for:", width)
    for each in ("the object", "its owner", "mapped objects"):
        drawing.text(x + 20, y + 3, f"· {each}", color=drawing.theme.muted)
        y += 18
    middle = (top + bottom) / 2
    drawing.arrow([(x + _RIGHT / 2, middle), (x + _RIGHT / 2, middle + 26)])
    drawing.text(x + 14, middle + 56, "WorkQueue", size=15, bold=True)
    drawing.paragraph(x + 14, middle + 76, "Merges requests of one object. Backoff, rate limits.", width, lines=5)
    drawing.box(x + 8, bottom - 34, _RIGHT - 16, 26, "blue", inner=True)
    ink = drawing.theme.tints["blue"].ink
    drawing.text(x + _RIGHT / 2, bottom - 16.5, "Request", mono=True, color=ink, anchor="middle")


def _arrows(drawing: Drawing, columns: list[float], end: float, upper: float, lower: float) -> None:
    starts = [MARGIN + _SIDE, *(x + _BOX for x in columns)]
    for start, stop in zip(starts, [*columns, end], strict=True):
        drawing.arrow([(start, upper), (stop, upper)])
        drawing.arrow([(stop, lower), (start, lower)])


def _return(drawing: Drawing, y: float) -> None:
    drawing.box(MARGIN, y, WIDTH - 2 * MARGIN, _STRIP, "green")
    drawing.badge(MARGIN + 25, y + _STRIP / 2, "7", "green")
    drawing.text(MARGIN + 46, y + 21, "The next read of this object waits for the version in the answer.")
    drawing.text(
        MARGIN + 46,
        y + 39,
        "The event of the write comes back as number 1 and finds nothing to do.",
        color=drawing.theme.muted,
    )
