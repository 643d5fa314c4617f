"""The objects of the tutorial: which object owns which, what makes them, and how status comes back."""

from __future__ import annotations

from typing import Final

from tools.pictures.drawing import MARGIN, WIDTH, Drawing, Hue, Theme

TITLE: Final = "The objects of the tutorial"
DESCRIPTION: Final = (
    "You write the WebServer webserver-sample. Your operator applies the Deployment webserver-sample and the "
    "Service webserver-sample-service, which the WebServer owns. Kubernetes creates a ReplicaSet, which the "
    "Deployment owns, and three Pods, which the ReplicaSet owns. The Service selects the Pods by label. Status "
    "comes back from the Pods to the ReplicaSet, the Deployment and the WebServer. An object is deleted with its "
    "owner."
)

_CARD: Final = 164
_WIDE: Final = 200
"""The width of the Service's card, whose name is long."""
_GAP: Final = (WIDTH - 2 * MARGIN - 4 * _CARD) / 3
_TOP: Final = 62
_HEIGHT: Final = 110
_FIRST: Final = 158
"""The height of the WebServer's card."""
_SERVICE: Final = _TOP + _FIRST + 30
_POD: Final = 42
_BOTTOM: Final = _SERVICE + _HEIGHT
_COLUMNS: Final = [MARGIN + index * (_CARD + _GAP) for index in range(4)]


def draw(theme: Theme) -> Drawing:
    drawing = Drawing(theme, _BOTTOM + 52, title=TITLE, description=DESCRIPTION)
    _authors(drawing)
    web, deployment, replicas, pods = _COLUMNS
    _card(
        drawing,
        web,
        _TOP,
        _FIRST,
        "WebServer",
        "my.domain/v1",
        "amber",
        ("webserver-sample", "replicas: 3", "image: nginx:1.23.1", "Ready: True"),
    )
    _card(drawing, deployment, _TOP, _HEIGHT, "Deployment", "apps/v1", "blue", ("webserver-sample", "available: 3"))
    _card(
        drawing,
        deployment,
        _SERVICE,
        _HEIGHT,
        "Service",
        "v1",
        "blue",
        ("webserver-sample-service", "80:30010/TCP"),
        _WIDE,
    )
    _card(drawing, replicas, _TOP, _HEIGHT, "ReplicaSet", "apps/v1", "purple", ("webserver-sample-*", "ready: 3"))
    _pods(drawing, pods)
    _arrows(drawing)
    _legend(drawing, _BOTTOM + 27)
    return drawing


def _authors(drawing: Drawing) -> None:
    """Draw what writes the objects below it."""
    authors: tuple[tuple[float, float, str, Hue], ...] = (
        (_COLUMNS[0], _CARD, "You write", "amber"),
        (_COLUMNS[1], _CARD, "Your operator applies", "blue"),
        (_COLUMNS[2], 2 * _CARD + _GAP, "Kubernetes creates", "purple"),
    )
    for x, width, text, hue in authors:
        color = drawing.theme.tints[hue].ink
        drawing.text(x + width / 2, 32, text, size=13, bold=True, color=color, anchor="middle", width=width + 8)
        drawing.line([(x, 44), (x + width, 44)], color=drawing.theme.tints[hue].stroke)


def _card(
    drawing: Drawing,
    x: float,
    y: float,
    height: float,
    kind: str,
    version: str,
    hue: Hue,
    lines: tuple[str, ...],
    width: float = _CARD,
) -> None:
    """Draw an object: its kind and version, its name, and what matters here."""
    tint, muted = drawing.theme.tints[hue], drawing.theme.muted
    drawing.box(x, y, width, height, hue)
    drawing.text(x + 12, y + 25, kind, size=15, bold=True, color=tint.ink)
    drawing.text(x + 12, y + 42, version, mono=True, size=12, color=muted)
    drawing.box(x + 7, y + 53, width - 14, height - 60, hue, inner=True)
    for index, line in enumerate(lines):
        color = muted if index else drawing.theme.ink
        drawing.text(x + 14, y + 72 + index * 20, line, mono=True, size=11.5, color=color, width=width - 24)


def _pods(drawing: Drawing, x: float) -> None:
    tint, muted = drawing.theme.tints["purple"], drawing.theme.muted
    height = 57 + 3 * _POD + 4
    drawing.box(x, _TOP, _CARD, height, "purple")
    drawing.text(x + 12, _TOP + 25, "Pods", size=15, bold=True, color=tint.ink)
    drawing.text(x + 12, _TOP + 42, "v1", mono=True, size=12, color=muted)
    for index in range(3):
        y = _TOP + 53 + index * _POD
        drawing.box(x + 7, y, _CARD - 14, _POD - 5, "purple", inner=True)
        drawing.text(x + 14, y + 16, "webserver-sample-*", mono=True, size=11.5, width=_CARD - 26)
        drawing.text(x + 14, y + 31, "Ready", mono=True, size=11.5, color=muted)


def _arrows(drawing: Drawing) -> None:
    web, deployment, replicas, pods = _COLUMNS
    status = drawing.theme.tints["green"].stroke
    for left, right in ((web, deployment), (deployment, replicas), (replicas, pods)):
        drawing.arrow([(left + _CARD, _TOP + 34), (right, _TOP + 34)])
        drawing.arrow([(right, _TOP + 82), (left + _CARD, _TOP + 82)], color=status, dashed=True)
    middle = _SERVICE + _HEIGHT / 2
    drawing.arrow([(web + _CARD / 2, _TOP + _FIRST), (web + _CARD / 2, middle), (deployment, middle)])
    bottom = _TOP + 57 + 3 * _POD + 4
    color = drawing.theme.tints["blue"].stroke
    drawing.arrow([(deployment + _WIDE, middle), (pods + _CARD / 2, middle), (pods + _CARD / 2, bottom)], color=color)
    drawing.text(
        (deployment + _WIDE + pods + _CARD / 2) / 2,
        middle - 9,
        "selects by label",
        color=drawing.theme.muted,
        anchor="middle",
    )


def _legend(drawing: Drawing, y: float) -> None:
    muted = drawing.theme.muted
    drawing.arrow([(MARGIN, y), (MARGIN + 34, y)])
    drawing.text(MARGIN + 44, y + 4.5, "owns: deleted with its owner", color=muted)
    drawing.arrow([(290 + 34, y), (290, y)], color=drawing.theme.tints["green"].stroke, dashed=True)
    drawing.text(290 + 44, y + 4.5, "status comes back", color=muted)
