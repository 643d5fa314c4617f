"""The three distributions and their packages, and what an operator talks to."""

from __future__ import annotations

from typing import Final

from tools.pictures.drawing import MARGIN, WIDTH, Drawing, Hue, Theme

TITLE: Final = "The architecture of Kubewright"
DESCRIPTION: Final = (
    "An operator imports the distribution kubewright. Its packages, from the bottom up: machinery, http, models, "
    "apis, client, cache, controllers, manager, testing. Its client talks to the embedded control plane, by a "
    "function call or over HTTPS, or to any Kubernetes over HTTPS. The distribution kubewright-controlplane has, "
    "from the bottom up: schema, apiserver, controllers, kubelet with scheduler and proxy, environment. The "
    "distribution kubewright-cli runs, builds and deploys operators and starts control planes: commands, "
    "manifests, image, deployment, codegen."
)

Rows = tuple[tuple[str, str], ...]

KUBEWRIGHT: Final[Rows] = (
    ("testing", "Cluster, fixtures, faults"),
    ("manager", "leader election, health, metrics"),
    ("controllers", "work queue, reconciles, finalizers"),
    ("cache", "informers, indexes, own writes"),
    ("client", "every verb, apply, patches, watches"),
    ("apis", "all built-in kinds, typed"),
    ("models", "your kinds as classes, CRDs, codec"),
    ("http", "HTTP/1.1 client and server, TLS"),
    ("machinery", "errors, selectors, quantities, time"),
)
CONTROL_PLANE: Final[Rows] = (
    ("environment", "all of it in one process"),
    ("kubelet", "Pods; scheduler and proxy"),
    ("controllers", "workloads, garbage, ..."),
    ("apiserver", "RBAC, admission, CRDs"),
    ("schema", "validation, CEL, ownership"),
)
CLI: Final[Rows] = (
    ("commands", "init, create, up, run, ..."),
    ("manifests", "kustomize, Helm, RBAC"),
    ("image", "OCI images, no Docker"),
    ("deployment", "deploy, status, undeploy"),
    ("codegen", "CRDs to classes, clients"),
)
OPERATOR: Final = (
    "@controller(WebServer, owns=[Deployment])",
    "async def reconcile(ctx):",
    "    web = ctx.object",
    "    await ctx.apply(deployment_for(web))",
    "",
    "manager = Manager([reconcile])",
)

_ROW: Final = 32
_HEAD: Final = 40
_LEFT: Final = 380
_GUTTER: Final = 100
_RIGHT: Final = WIDTH - 2 * MARGIN - _LEFT - _GUTTER
_RIGHT_X: Final = MARGIN + _LEFT + _GUTTER


def draw(theme: Theme) -> Drawing:
    top = MARGIN
    middle = top + _height(CLI) + 42
    kubernetes = middle + _height(CONTROL_PLANE) + 20
    bottom = middle + _height(KUBEWRIGHT)
    drawing = Drawing(theme, bottom + MARGIN, title=TITLE, description=DESCRIPTION)
    _operator(drawing, top)
    _card(drawing, _RIGHT_X, top, _RIGHT, "kubewright-cli", "the command", CLI, "green")
    client = _card(drawing, MARGIN, middle, _LEFT, "kubewright", "what an operator's image needs", KUBEWRIGHT, "blue")
    server = _card(drawing, _RIGHT_X, middle, _RIGHT, "kubewright-controlplane", "", CONTROL_PLANE, "purple")
    _kubernetes(drawing, kubernetes, bottom - kubernetes)
    _arrows(drawing, top, middle)
    _connections(drawing, client["client"], server["apiserver"], (kubernetes + bottom) / 2)
    return drawing


def _height(rows: Rows) -> float:
    return _HEAD + len(rows) * _ROW + 8


def _operator(drawing: Drawing, y: float) -> None:
    tint = drawing.theme.tints["amber"]
    drawing.box(MARGIN, y, _LEFT, _height(CLI), "amber")
    drawing.text(MARGIN + 14, y + 26, "Your operator", size=15, bold=True, color=tint.ink)
    drawing.text(MARGIN + _LEFT - 14, y + 26, "typed classes, plain functions", color=drawing.theme.muted, anchor="end")
    drawing.box(MARGIN + 8, y + _HEAD, _LEFT - 16, len(CLI) * _ROW, "amber", inner=True)
    for index, line in enumerate(OPERATOR):
        if line:
            drawing.text(MARGIN + 22, y + _HEAD + 27 + index * 23, line, mono=True, width=_LEFT - 40)


def _card(
    drawing: Drawing, x: float, y: float, width: float, name: str, about: str, rows: Rows, hue: Hue
) -> dict[str, float]:
    """Draw a distribution, and return the heights of its rows' middles."""
    tint = drawing.theme.tints[hue]
    drawing.box(x, y, width, _height(rows), hue)
    drawing.text(x + 14, y + 26, name, size=15, bold=True, color=tint.ink)
    if about:
        drawing.text(x + width - 14, y + 26, about, color=drawing.theme.muted, anchor="end")
    middles: dict[str, float] = {}
    for index, (package, contents) in enumerate(rows):
        row = y + _HEAD + index * _ROW
        middles[package] = row + (_ROW - 4) / 2
        drawing.box(x + 8, row, width - 16, _ROW - 4, hue, inner=True)
        drawing.text(x + 18, row + 18.5, package, mono=True, bold=True, color=tint.ink)
        column = x + 18 + 98
        drawing.text(column, row + 18.5, contents, color=drawing.theme.muted, width=x + width - 12 - column)
    return middles


def _kubernetes(drawing: Drawing, y: float, height: float) -> None:
    drawing.box(_RIGHT_X, y, _RIGHT, height, "gray")
    middle = y + height / 2
    drawing.text(_RIGHT_X + 14, middle - 19, "Any Kubernetes", size=15, bold=True)
    drawing.paragraph(
        _RIGHT_X + 14,
        middle + 4,
        "The same operator runs there unchanged: a cluster, or kube-apiserver with etcd.",
        _RIGHT - 28,
        lines=3,
    )


def _arrows(drawing: Drawing, top: float, middle: float) -> None:
    """Draw the arrows between the four cards."""
    muted = drawing.theme.muted
    below = top + _height(CLI)
    left, right = MARGIN + _LEFT / 2, _RIGHT_X + _RIGHT / 2
    drawing.arrow([(left, below), (left, middle)])
    drawing.text(left + 12, (below + middle) / 2 + 4.5, "imports", color=muted)
    drawing.arrow([(right, below), (right, middle)])
    drawing.text(right + 12, (below + middle) / 2 + 4.5, "starts", color=muted)
    across = top + _height(CLI) / 2
    drawing.arrow([(_RIGHT_X, across), (MARGIN + _LEFT, across)])
    center = MARGIN + _LEFT + _GUTTER / 2
    drawing.text(center, across - 10, "runs, builds,", color=muted, anchor="middle", width=_GUTTER - 8)
    drawing.text(center, across + 20, "deploys", color=muted, anchor="middle", width=_GUTTER - 8)


def _connections(drawing: Drawing, client: float, server: float, kubernetes: float) -> None:
    """Draw what the client talks to."""
    muted, color = drawing.theme.muted, drawing.theme.tints["blue"].ink
    start, turn = MARGIN + _LEFT - 8, MARGIN + _LEFT + 20
    drawing.arrow([(start, client), (turn, client), (turn, server), (_RIGHT_X + 8, server)], color=color, both=True)
    drawing.arrow([(start, client), (turn, client), (turn, kubernetes), (_RIGHT_X, kubernetes)], color=color)
    label = (turn + _RIGHT_X) / 2 + 2
    drawing.text(label, server - 9, "a call", color=muted, anchor="middle", width=74)
    drawing.text(label, server + 19, "or HTTPS", color=muted, anchor="middle", width=74)
    drawing.text(label, kubernetes - 9, "HTTPS", color=muted, anchor="middle", width=74)
