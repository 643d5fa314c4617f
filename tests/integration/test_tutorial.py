"""The tutorial, from an empty folder to a deployed and removed operator: its commands print the output on the page.

`make transcripts` records their output.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tools.transcripts.replay import difference, replay

from integration.kubectl import KUBECTL

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/tutorial.md"
EXAMPLE = ROOT / "examples/webserver-operator"


@pytest.mark.skipif(KUBECTL is None, reason="needs kubectl: `make controlplane` builds it")
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.xdist_group("node port 30010")
def test_the_commands_of_the_tutorial_print_what_it_shows() -> None:
    written = PAGE.read_text()
    said = replay(PAGE)
    assert said == written, f"`make transcripts` records the current output:\n{difference(written, said)}"


def test_it_ends_with_the_program_of_the_example() -> None:
    blocks = re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', PAGE.read_text(), flags=re.S | re.M)
    written = {path: text for path, text in blocks if not path.startswith("tests/")}
    program = {
        str(path.relative_to(EXAMPLE)): path.read_text()
        for path in (EXAMPLE / "src").rglob("*.py")
        if path.name not in ("__init__.py", "main.py")
    }
    sample = "config/samples/my_v1_webserver.yaml"
    assert written == program | {sample: (EXAMPLE / sample).read_text()}
