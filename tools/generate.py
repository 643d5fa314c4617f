"""Writes all generated files (`make generate`), or checks that they are up to date (`--check`).

built-in kinds          packages/kubewright/src/kubewright/apis, from the catalog
the examples' manifests examples/*/config, by `kubewright generate`
the examples' clients   examples/*/client, by `kubewright generate client`
golden manifests        tests/golden/manifests/*/{config,dist,bundle,catalog}, by `kubewright generate`
golden modules          tests/golden/models, by `kubewright generate models`
golden projects         tests/golden/projects, by `kubewright init`, `create` and `generate`
transcripts             tests/golden/transcripts, by their commands
public API              tests/golden/api.txt, from the exports of the packages
reference               docs/cli.md, from --help
levels                  README.md and docs/levels.schema.json, from the stored reports
conformance             docs/kubernetes-conformance.md, from recorded results
lock                    requirements-dev.lock: only checked; `make lock` writes it
pictures                docs/pictures, from tools/pictures and the benchmarks' latest results
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent


class Step(NamedTuple):
    """A command that writes something generated, or checks it."""

    what: str
    command: list[str | Path]
    folder: Path


def main() -> int:
    arguments = sys.argv[1:]
    if arguments not in ([], ["--check"]):
        sys.exit("usage: generate.py [--check]")
    # What is written may need what was written before; checks need nothing from each other.
    workers = os.cpu_count() if arguments else 1
    with ThreadPoolExecutor(workers) as executor:
        return max(executor.map(_run, _steps(arguments)))


def _steps(arguments: list[str]) -> Iterator[Step]:
    kubewright = Path(sys.executable).with_name("kubewright")
    yield Step("built-in kinds", [sys.executable, ROOT / "tools" / "generate_apis.py", *arguments], ROOT)
    golden = ROOT / "tests" / "golden" / "models"
    command = [kubewright, "generate", "models", golden / "crds.yaml", "--output", golden, *arguments]
    yield Step("golden modules", command, ROOT)
    for project in sorted(ROOT.glob("examples/*/pyproject.toml")):
        folder = project.parent
        yield Step(f"manifests of {folder.name}", [kubewright, "generate", *arguments], folder)
    for client in sorted(ROOT.glob("examples/*/client/pyproject.toml")):
        name = tomllib.loads(client.read_text())["project"]["name"]
        command = [kubewright, "generate", "client", "--output", "client", "--name", name, *arguments]
        yield Step(f"client of {client.parts[-3]}", command, client.parents[1])
    for project in sorted((ROOT / "tests" / "golden" / "manifests").glob("*/pyproject.toml")):
        for what in ("manifests", "installer", "chart", "bundle"):
            yield Step(f"golden {what}", [kubewright, "generate", what, *arguments], project.parent)
    released = ROOT / "tests" / "golden" / "manifests" / "full"
    yield Step("golden catalog", [kubewright, "generate", "catalog", *arguments], released)
    yield Step("golden projects", [sys.executable, ROOT / "tools" / "golden_projects.py", *arguments], ROOT)
    for transcript in sorted((ROOT / "tests" / "golden" / "transcripts").glob("*.txt")):
        command = [sys.executable, "-m", "tools.transcripts", transcript, *arguments]
        yield Step(f"transcript {transcript.stem}", command, ROOT)
    yield Step("public API", [sys.executable, ROOT / "tools" / "api.py", *arguments], ROOT)
    yield Step("requirements-dev.lock", [sys.executable, ROOT / "tools" / "lock.py", "--check"], ROOT)
    yield Step("pictures", [sys.executable, "-m", "tools.pictures", *arguments], ROOT)
    command = [sys.executable, "-m", "tools.kubernetes_conformance.page", *arguments]
    yield Step("docs/kubernetes-conformance.md", command, ROOT)
    yield Step("levels in README.md", [sys.executable, "-m", "tools.levels", *arguments], ROOT)
    yield Step("docs/cli.md", [sys.executable, ROOT / "tools" / "cli_page.py", *arguments], ROOT)


def _run(step: Step) -> int:
    done = subprocess.run(step.command, cwd=step.folder, capture_output=True, text=True)
    failure = f"FAILED\n{done.stdout}{done.stderr}"
    print(f"{step.what}: {'up to date or written' if done.returncode == 0 else failure}")
    return abs(done.returncode)


if __name__ == "__main__":
    sys.exit(main())
