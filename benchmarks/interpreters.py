"""The Python interpreter of a run and how it was built, and environments for other interpreters.

A build with profile-guided optimization (PGO) and link-time optimization (LTO) runs the same program with fewer
instructions, so a figure without its interpreter says little.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Final

_ASK: Final = """
import json, platform, sysconfig
print(json.dumps([platform.python_implementation(), platform.python_version(),
                  sysconfig.get_config_var("CONFIG_ARGS") or "", sysconfig.get_config_var("PY_CFLAGS") or ""]))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter."""

    path: str
    name: str
    """The implementation and version: `CPython 3.14.0`."""
    pgo: bool
    lto: bool

    @property
    def build(self) -> str:
        """Return how it was built, for readers."""
        found = [name for name, is_on in (("PGO", self.pgo), ("LTO", self.lto)) if is_on]
        return " and ".join(found) if found else "neither PGO nor LTO"

    def __str__(self) -> str:
        return f"{self.name} ({self.build})"


def interpreter(path: str = sys.executable) -> Interpreter:
    """Ask an interpreter what it is. Raises OSError or CalledProcessError if it does not run."""
    answer = subprocess.run((path, "-c", _ASK), capture_output=True, text=True, check=True)
    implementation, version, arguments, flags = json.loads(answer.stdout)
    return Interpreter(
        path,
        f"{implementation} {version}",
        pgo=is_pgo(arguments, flags),
        lto="--with-lto" in arguments or "-flto" in flags,
    )


def is_pgo(arguments: str, flags: str) -> bool:
    """Return whether the arguments of `configure` or the compiler's flags mean profile-guided optimization."""
    return "--enable-optimizations" in arguments or "-fprofile-use" in flags or "-fprofile-instr-use" in flags
