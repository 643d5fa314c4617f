"""The READMEs of the examples: their commands, run in a copy of the folder, print the output on the page.

`make transcripts` records their output. CONTRIBUTING.md describes the format of such a page. `make test-long` replays
all of them, `make test` one.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tools.transcripts.replay import difference, replay

from integration.kubectl import KUBECTL
from integration.nodeports import on_its_node_port

ROOT = Path(__file__).parents[2]
READMES = sorted(ROOT.glob("examples/*/README.md"))
SAMPLE = "webserver-operator"


def marks(readme: Path) -> list[pytest.MarkDecorator]:
    own = on_its_node_port(readme)
    return [own] if readme.parent.name == SAMPLE else [own, pytest.mark.long]


@pytest.mark.parametrize("readme", [pytest.param(each, id=each.parent.name, marks=marks(each)) for each in READMES])
@pytest.mark.skipif(KUBECTL is None, reason="needs kubectl: `make controlplane` builds it")
def test_the_commands_print_the_output_of_the_page(readme: Path) -> None:
    written = readme.read_text()
    assert "```console\n" in written, "a README shows how to run the example"
    if "curl -" in written and shutil.which("curl") is None:
        pytest.skip("needs curl")
    said = replay(readme)
    assert said == written, f"`make transcripts` records the current output:\n{difference(written, said)}"
