"""What imports cost before an operator does anything, and the modules that it goes to.

In a fresh interpreter, with bytecode at hand as after an installation; what Python itself costs at its start is left
out. It is CPU time, and the smallest of all repetitions: what is imported is the same each time, so that one has the
least of other work in it.
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
from benchmarks.report import Figure, Medians, NotMeasured, say

FIGURES: Final = (
    Figure("import_ms", "import kubewright: CPU, ms", 0),
    Figure("import_operator_ms", "imports of an operator: CPU, ms", 0),
)
_PROGRAMS: Final[Mapping[str, str]] = {
    "import_ms": "import kubewright",
    "import_operator_ms": (
        "from kubewright import Context, CustomResource, Manager, Model, controller, field\n"
        "from kubewright.apis.apps.v1 import Deployment\n"
        "from kubewright.apis.core.v1 import Service"
    ),
}
_TELL_CPU: Final = "\nimport time; print(time.process_time())"
_LINE: Final = re.compile(r"import time:\s+(?P<own>\d+) \|\s+\d+ \| \s*(?P<module>\S+)")
_SHOWN: Final = 5


async def measure(repetitions: int) -> Medians:
    """Milliseconds by figure; tells which modules the slowest are."""
    ours: dict[str, dict[str, float]] = {}
    for figure, program in _PROGRAMS.items():
        with TemporaryDirectory(prefix="kubewright-bench-") as folder:
            environment = compiled_into(Path(folder))
            await _cpu(program, environment)  # compiles
            modules = await _modules(program, environment)
            bare = min([await _cpu("", environment) for _ in range(repetitions)])
            ours[figure] = {KUBEWRIGHT: min([await _cpu(program, environment) for _ in range(repetitions)]) - bare}
        slowest = sorted(modules.items(), key=lambda item: -item[1])[:_SHOWN]
        say(f"  {figure}: {len(modules)} modules; {', '.join(f'{module} {ms:.1f} ms' for module, ms in slowest)}")
    return ours


async def _cpu(program: str, environment: Mapping[str, str]) -> float:
    """Milliseconds of CPU of an interpreter that runs `program`."""
    return float((await _output(["-c", program + _TELL_CPU], environment))[0]) * 1e3


async def _modules(program: str, environment: Mapping[str, str]) -> dict[str, float]:
    """Milliseconds that each module took by itself; those that Python itself imports are left out."""
    loaded = {text: await _timed(text, environment) for text in ("pass", program)}
    return {module: ms for module, ms in loaded[program].items() if module not in loaded["pass"]}


async def _timed(program: str, environment: Mapping[str, str]) -> dict[str, float]:
    return import_times((await _output(["-X", "importtime", "-c", program], environment))[1])


def import_times(told: str) -> dict[str, float]:
    """Milliseconds by module, from what `-X importtime` tells."""
    return {found["module"]: int(found["own"]) / 1e3 for found in _LINE.finditer(told)}


async def _output(arguments: list[str], environment: Mapping[str, str]) -> tuple[str, str]:
    """What an interpreter writes to its standard output and error."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment
    )
    output, errors = await process.communicate()
    if process.returncode:
        raise NotMeasured(f"{arguments[-1]!r} failed:\n{errors.decode()}")
    return output.decode(), errors.decode()
