"""The tutorials, from an empty folder to a deployed and removed operator: their commands print what the pages show.

`make transcripts` records their output. `make test-long` replays both pages, and CI the first one.
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
VERSIONS = ROOT / "docs/tutorial-versions.md"
WEBFARM = ROOT / "examples/webfarm-operator"
OF_RELEASE_3 = """    storage=False,
    deprecated="farm.my.domain/v1alpha1 WebServer is deprecated; use farm.my.domain/v1",
"""
"""What the commands of the second page add to v1alpha1."""


@pytest.mark.long
@pytest.mark.skipif(KUBECTL is None, reason="needs kubectl: `make controlplane` builds it")
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.xdist_group("node port 30010")
def test_the_commands_of_the_tutorial_print_what_it_shows() -> None:
    written = PAGE.read_text()
    said = replay(PAGE)
    assert said == written, f"`make transcripts` records the current output:\n{difference(written, said)}"


@pytest.mark.long
@pytest.mark.skipif(KUBECTL is None, reason="needs kubectl: `make controlplane` builds it")
def test_the_commands_of_the_second_tutorial_print_what_it_shows() -> None:
    written = VERSIONS.read_text()
    said = replay(VERSIONS)
    assert said == written, f"`make transcripts` records the current output:\n{difference(written, said)}"


def files_of(page: Path) -> dict[str, str]:
    """Return the files that a page lists, without tests, as they are at its end."""
    blocks = re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', page.read_text(), flags=re.S | re.M)
    return {path: text for path, text in blocks if not path.startswith("tests/")}


def program_of(example: Path) -> dict[str, str]:
    """Return the modules of an example."""
    return {
        str(path.relative_to(example)): path.read_text()
        for path in (example / "src").rglob("*.py")
        if path.name not in ("__init__.py", "main.py")
    }


def test_it_ends_with_the_program_of_the_example() -> None:
    sample = "config/samples/my_v1_webserver.yaml"
    assert files_of(PAGE) == program_of(EXAMPLE) | {sample: (EXAMPLE / sample).read_text()}


def test_the_second_tutorial_ends_with_the_program_of_its_example() -> None:
    old, main = "src/webfarm_operator/api/v1alpha1/webserver.py", "src/webfarm_operator/main.py"
    program = program_of(WEBFARM) | {main: (WEBFARM / main).read_text()}
    assert OF_RELEASE_3 in program[old]
    program[old] = program[old].replace(OF_RELEASE_3, "")
    written = {path: text for path, text in files_of(VERSIONS).items() if path.startswith("src/")}
    assert written == program
