"""The examples' READMEs are true: their commands, run in a copy of the folder, say what they show.

`make transcripts` writes down what they say. CONTRIBUTING.md says how such a page is written.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.transcripts.replay import difference, replay

from integration.kubectl import KUBECTL

ROOT = Path(__file__).parents[2]
READMES = sorted(ROOT.glob("examples/*/README.md"))


def on_its_node_port(readme: Path) -> pytest.MarkDecorator:
    """A node port is the whole machine's where Pods run as processes: not beside others that use it."""
    port = re.search(r"\b3[0-2]\d{3}\b", readme.read_text())
    return pytest.mark.xdist_group(f"node port {port[0]}" if port else readme.parent.name)


@pytest.mark.parametrize(
    "readme", [pytest.param(each, id=each.parent.name, marks=on_its_node_port(each)) for each in READMES]
)
@pytest.mark.skipif(KUBECTL is None, reason="needs kubectl: `make controlplane` builds it")
@pytest.mark.timeout(300)
def test_its_commands_say_what_it_shows(readme: Path, target: str) -> None:
    if target != "embedded":
        pytest.skip("a README brings its own control plane")
    written = readme.read_text()
    assert "```console\n" in written, "a README shows how to see the example work"
    said = replay(readme)
    assert said == written, f"`make transcripts` writes down what is said now:\n{difference(written, said)}"
