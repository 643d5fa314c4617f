"""CPU time of an operator's imports, and the slowest modules.

Measured in a fresh interpreter with compiled bytecode, as after an installation, without the startup of Python itself.
The result of a round is the minimum of several runs: the imports are the same each time, so the minimum contains the
least interference.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.peers import KUBEWRIGHT
from benchmarks.process import compiled_into
from benchmarks.report import Figure, Measured, NotMeasured, Run, in_turns, say

FIGURES: Final = (
    Figure("import_ms", "import kubewright: CPU, ms", 0),
    Figure("import_operator_ms", "imports of an operator: CPU, ms", 0),
)
PROGRAMS: Final[Mapping[str, str]] = {
    "import_ms": "import kubewright",
    "import_operator_ms": (
        "from kubewright import Context, CustomResource, Manager, Model, controller, field\n"
        "from kubewright.apis.apps.v1 import Deployment\n"
        "from kubewright.apis.core.v1 import Service"
    ),
}
_PRINT_CPU: Final = "\nimport time; print(time.process_time())"
_LINE: Final = re.compile(r"import time:\s+(?P<own>\d+) \|\s+\d+ \| \s*(?P<module>\S+)")
_SHOWN: Final = 5
_TRIES: Final = 3


@dataclass(frozen=True)
class _Subject:
    name: str = KUBEWRIGHT


async def measure(repetitions: int) -> Measured:
    """Return milliseconds by figure, and print the slowest modules."""
    with TemporaryDirectory(prefix="kubewright-bench-") as folder:
        environment = compiled_into(Path(folder))
        for figure, program in PROGRAMS.items():
            await _cpu(program, environment)  # compiles
            modules = await _modules(program, environment)
            slowest = sorted(modules.items(), key=lambda item: -item[1])[:_SHOWN]
            say(f"  {figure}: {len(modules)} modules; {', '.join(f'{module} {ms:.1f} ms' for module, ms in slowest)}")

        async def run(_: _Subject) -> Run:
            bare = await _least("", environment)
            return {figure: await _least(program, environment) - bare for figure, program in PROGRAMS.items()}

        return await in_turns([_Subject()], repetitions, run, FIGURES)


async def _least(program: str, environment: Mapping[str, str]) -> float:
    """Return the smallest CPU milliseconds of several interpreters that run `program`."""
    return min([await _cpu(program, environment) for _ in range(_TRIES)])


async def _cpu(program: str, environment: Mapping[str, str]) -> float:
    """Return the CPU milliseconds of an interpreter that runs `program`."""
    return float((await _output(["-c", program + _PRINT_CPU], environment))[0]) * 1e3


async def _modules(program: str, environment: Mapping[str, str]) -> dict[str, float]:
    """Return the milliseconds of each module without its own imports, except for modules that Python itself imports."""
    loaded = {text: await _timed(text, environment) for text in ("pass", program)}
    return {module: ms for module, ms in loaded[program].items() if module not in loaded["pass"]}


async def _timed(program: str, environment: Mapping[str, str]) -> dict[str, float]:
    return import_times((await _output(["-X", "importtime", "-c", program], environment))[1])


def import_times(report: str) -> dict[str, float]:
    """Return milliseconds by module, from the output of `-X importtime`."""
    return {found["module"]: int(found["own"]) / 1e3 for found in _LINE.finditer(report)}


async def _output(arguments: list[str], environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the standard output and standard error of an interpreter."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment
    )
    output, errors = await process.communicate()
    if process.returncode:
        raise NotMeasured(f"{arguments[-1]!r} failed:\n{errors.decode()}")
    return output.decode(), errors.decode()
