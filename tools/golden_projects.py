"""The golden projects in `tests/golden/projects`: what a few commands make of an empty folder.

    golden_projects.py [--check]

`--check` writes nothing, and fails if a file differs from what the commands write.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent.parent / "tests" / "golden" / "projects"
KUBEWRIGHT: Final = Path(sys.executable).with_name("kubewright")

PROJECTS: Final = {
    "minimal": [
        "init --domain my.domain --project-name webserver-operator --python 3.12",
        "create api --version v1 --kind WebServer",
        "generate",
    ],
    "full": [
        "init --domain example.com --project-name fleet --python 3.12 --multigroup --namespaced "
        "--owner Fleet --license Apache-2.0",
        "create api --group ship --version v1beta1 --kind Frigate",
        "create webhook --kind Frigate --defaulting",
        "create api --group ship --version v1 --kind Frigate",
        "create webhook --kind Frigate --programmatic-validation",
        "create webhook --kind Frigate --conversion",
        "create api --group ship --version v1 --kind Cruiser --namespaced=false --controller=false",
        "create webhook --kind Cruiser --programmatic-validation --validation-path /cruisers",
        "create api --group sea-creatures --version v1alpha1 --kind Octopus --plural octopodes",
        "create api --group fiz --version v1 --kind Cruiser",
        "create webhook --group fiz --kind Cruiser --programmatic-validation",
        "create controller --group apps --version v1 --kind Deployment",
        "create webhook --group apps --version v1 --kind Deployment --defaulting",
        "create webhook --group core --version v1 --kind Pod --programmatic-validation",
        "generate",
    ],
}


_ALL: Final = """
import sys
from kubewright_cli.main import cli
for command in sys.argv[1:]:
    cli.main(command.split(), standalone_mode=False)
"""
"""Runs several commands in one process. The last one of a project imports it, and so gets a process of its own."""


def make(name: str, folder: Path) -> None:
    """Run the commands of a project in `folder`, which is empty."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("KUBE")}
    *scaffold, generate = PROJECTS[name]
    for command in ([sys.executable, "-c", _ALL, *scaffold], [str(KUBEWRIGHT), *generate.split()]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)
    for cache in folder.rglob("__pycache__"):
        shutil.rmtree(cache)


def differences(left: Path, right: Path) -> list[str]:
    """Return the files that differ, or exist in only one of two folders."""
    files = {path.relative_to(folder) for folder in (left, right) for path in folder.rglob("*") if path.is_file()}
    kept = {path for path in files if not any(part.endswith(("_cache", "__pycache__")) for part in path.parts)}
    _, differ, missing = filecmp.cmpfiles(left, right, sorted(map(str, kept)), shallow=False)
    return sorted(differ + missing)


def main() -> int:
    status = 0
    for name in PROJECTS:
        with tempfile.TemporaryDirectory(prefix="golden-") as temporary:
            made = Path(temporary) / name
            made.mkdir()
            make(name, made)
            different = differences(FOLDER / name, made)
            for path in different:
                print(f"tests/golden/projects/{name}/{path}")
            if different and "--check" in sys.argv:
                status = 1
            elif different:
                shutil.rmtree(FOLDER / name, ignore_errors=True)
                shutil.copytree(made, FOLDER / name)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error}\n{error.stderr.decode()}")
