"""The report as a page: no scripts, no other files, light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Final

from kubewright.testing.levels._report import Claim, Level, Report

_MARKS: Final = {"held": "✓", "failed": "✗", "missing": "○", "not applicable": "–"}
_CLASSES: Final = {"held": "held", "failed": "failed", "missing": "missing", "not applicable": "none"}
_ABOUT: Final = {
    1: "Installs, configures and reports.",
    2: "Upgrades itself and its operand.",
    3: "Backs up, restores, scales, fails over.",
    4: "Metrics, alerts, dashboards, Events.",
    5: "Scales, heals and tunes on its own.",
}
_STYLE: Final = """
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --text: #1c2430; --soft: #5b6675; --line: #dfe3e8;
  --held: #1a7f4b; --failed: #c0362c; --missing: #a66a00; --accent: #2f5fd0; }
@media (prefers-color-scheme: dark) { :root { --page: #14181f; --card: #1d232c; --text: #e6eaf0; --soft: #9aa6b5;
  --line: #303946; --held: #4cc38a; --failed: #ff7b72; --missing: #e3a94a; --accent: #7ea2ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.55 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
header h1 { font-size: 1.7rem; line-height: 1.25; margin: 0; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem; }
.soft { color: var(--soft); }
a { color: var(--accent); }
.steps { display: grid; grid-template-columns: repeat(5, 1fr); gap: .5rem; margin: 1.5rem 0; padding: 0;
  list-style: none; }
.steps li { background: var(--card); border: 1px solid var(--line); border-top: 4px solid var(--line);
  border-radius: 6px; padding: .65rem .75rem; }
.steps li.held { border-top-color: var(--held); }
.steps li.next { border-top-color: var(--missing); }
.steps b { display: block; }
.steps small { color: var(--soft); display: block; line-height: 1.35; }
.next-level li { margin: .6rem 0; }
section, .next-level { background: var(--card); border: 1px solid var(--line); border-radius: 6px; }
.next-level { padding: .5rem 1.25rem; }
details { border-top: 1px solid var(--line); }
section details:first-child { border-top: 0; }
summary { display: grid; grid-template-columns: 1.5rem 1fr; gap: .25rem .5rem; padding: .65rem 1rem; cursor: pointer;
  list-style: none; }
summary::-webkit-details-marker { display: none; }
summary:focus-visible { outline: 2px solid var(--accent); outline-offset: -2px; }
summary p { margin: 0; grid-column: 2; color: var(--soft); overflow-wrap: anywhere; }
.mark { font-weight: 700; }
.held .mark { color: var(--held); } .failed .mark { color: var(--failed); } .missing .mark { color: var(--missing); }
code { font: .86em ui-monospace, monospace; color: var(--soft); }
.scroll { overflow-x: auto; padding: 0 1rem .9rem 3rem; }
table { border-collapse: collapse; font-size: .87rem; }
td { padding: .15rem 1rem .15rem 0; vertical-align: top; overflow-wrap: anywhere; }
td:first-child { color: var(--soft); white-space: nowrap; font-variant-numeric: tabular-nums; text-align: right; }
td:nth-child(2), td:nth-child(3) { white-space: nowrap; }
@media (max-width: 42rem) { .steps { grid-template-columns: 1fr; } .scroll { padding-left: 1rem; } }
@media print { details:not([open]) > .scroll { display: none; } }
"""


def page(report: Report) -> str:
    """Return the report as HTML."""
    title = f"{report.operator} {report.version}".strip()
    level = f"Level {Level(report.level).numeral}: {report.capability}" if report.level else "No capability level yet"
    body = "\n".join((*_head(report, title, level), *_steps(report), *_missing(report), *_levels(report)))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}: {escape(level)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _head(report: Report, title: str, level: str) -> Iterator[str]:
    held = sum(each.is_held for each in report.claims)
    server = f" on Kubernetes {report.server}" if report.server else ""
    yield f'<header><p class="soft">{escape(title)}</p><h1>{escape(level)}</h1>'
    yield (
        f'<p class="soft">{held} of {len(report.claims)} claims are held, measured at '
        f"{escape(report.measured_at)}{escape(server)}.</p></header>"
    )
    if report.partial:
        yield "<p><strong>Only some claims were measured, so the level is not known.</strong></p>"


def _steps(report: Report) -> Iterator[str]:
    yield '<ol class="steps">'
    for level in tuple(Level)[1:]:
        own = [each for each in report.claims if each.level == level]
        state = "held" if level <= report.level else "next" if level == report.level + 1 else ""
        count = f"{sum(each.is_held for each in own)} of {len(own)}"
        yield (
            f'<li class="{state}"><b>{level.numeral}. {level.capability}</b>'
            f"<small>{_ABOUT[level]}</small><small>{count} held</small></li>"
        )
    yield "</ol>"


def _missing(report: Report) -> Iterator[str]:
    if report.partial or not report.missing:
        return
    yield f'<h2>Missing for level {Level(report.level + 1).numeral}</h2>\n<ul class="next-level">'
    for each in report.missing:
        yield f'<li><a href="#{each.id}">{escape(each.title)}</a>. {_prose(each.summary)} {_prose(each.remedy)}</li>'
    yield "</ul>"


def _levels(report: Report) -> Iterator[str]:
    for level in tuple(Level)[1:]:
        own = [each for each in report.claims if each.level == level]
        if own:
            yield f"<h2>Level {level.numeral}: {level.capability}</h2>\n<section>"
            yield from map(_claim, own)
            yield "</section>"


def _claim(claim: Claim) -> str:
    remedy = f"<p>{_prose(claim.remedy)}</p>" if claim.remedy else ""
    rows = "".join(
        f"<tr><td>{each.at:.2f} s</td><td>{each.action}</td><td>{escape(each.object)}</td>"
        f"<td>{escape(each.text)}</td></tr>"
        for each in claim.evidence
    )
    table = f"<table>{rows}</table>" if rows else '<p class="soft">No evidence was recorded.</p>'
    return (
        f'<details id="{claim.id}" class="{_CLASSES[claim.outcome]}"><summary>'
        f'<span class="mark" role="img" aria-label="{claim.outcome}">{_MARKS[claim.outcome]}</span>'
        f"<span>{escape(claim.title)} <code>{claim.id}</code></span>"
        f"<p>{_prose(claim.summary)}</p>{remedy}</summary>"
        f'<div class="scroll">{table}</div></details>'
    )


def _prose(text: str) -> str:
    """Return escaped text in which what stands in backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
