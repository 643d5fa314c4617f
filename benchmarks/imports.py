"""The time that imports take before an operator does anything, and the modules that it goes to.

Measured with `python -X importtime` in a fresh interpreter, whatever Python itself imports at its start left out, and
with bytecode at hand as after an installation. What is imported is the same each time, so that the smallest of several
runs is the one with the least of other work in it.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.peers import KUBEWRIGHT
from benchmarks.process import compiled_into
from benchmarks.report import Figure, Medians, say

FIGURES: Final = (
    Figure("import_ms", "import kubewright, ms", 0),
    Figure("import_operator_ms", "imports of an operator, ms", 0),
)
_PROGRAMS: Final[Mapping[str, str]] = {
    "import_ms": "import kubewright",
    "import_operator_ms": (
        "from kubewright import Context, CustomResource, Manager, Model, controller, field\n"
        "from kubewright.apis.apps.v1 import Deployment\n"
        "from kubewright.apis.core.v1 import Service"
    ),
}

_LINE: Final = re.compile(r"import time:\s+(?P<own>\d+) \|\s+\d+ \| \s*(?P<module>\S+)")
_SHOWN: Final = 5


async def measure(repetitions: int) -> Medians:
    """Milliseconds by figure, the smallest of all repetitions; tells which modules the slowest are."""
    ours: dict[str, dict[str, float]] = {}
    for name, program in _PROGRAMS.items():
        with TemporaryDirectory(prefix="kubewright-bench-") as folder:
            environment = compiled_into(Path(folder))
            await _timed(program, environment)
            best = min([await _imported(program, environment) for _ in range(repetitions)], key=_total)
        ours[name] = {KUBEWRIGHT: _total(best)}
        slowest = sorted(best.items(), key=lambda item: -item[1])[:_SHOWN]
        say(f"  {name}: {len(best)} modules; {', '.join(f'{module} {ms:.1f} ms' for module, ms in slowest)}")
    return ours


def _total(run: Mapping[str, float]) -> float:
    return sum(run.values())


async def _imported(program: str, environment: Mapping[str, str]) -> dict[str, float]:
    """Milliseconds that each module of `program` took by itself."""
    before = await _timed("pass", environment)
    return {module: ms for module, ms in (await _timed(program, environment)).items() if module not in before}


async def _timed(program: str, environment: Mapping[str, str]) -> dict[str, float]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-X", "importtime", "-c", program, stderr=asyncio.subprocess.PIPE, env=environment
    )
    _, told = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{program!r} failed:\n{told.decode()}")
    return {found["module"]: int(found["own"]) / 1e3 for found in _LINE.finditer(told.decode())}
