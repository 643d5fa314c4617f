"""Writes all generated files (`make generate`), or checks that they are up to date (`--check`).

built-in kinds          packages/kubewright/src/kubewright/apis, from the catalog
the examples' manifests examples/*/config, by `kubewright generate`
the examples' clients   examples/*/client, by `kubewright generate client`
golden manifests        tests/golden/manifests/*/{config,dist}, by `kubewright generate manifests`, `installer`, `chart`
golden modules          tests/golden/models, by `kubewright generate models`
golden projects         tests/golden/projects, by `kubewright init`, `create` and `generate`
transcripts             tests/golden/transcripts, by their commands
public API              tests/golden/api.txt, from the exports of the packages
reference               docs/cli.md, from --help
lock                    requirements-dev.lock: only checked; `make lock` writes it
pictures                docs/pictures, from tools/pictures and the benchmarks' latest results
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent


def main() -> int:
    arguments = sys.argv[1:]
    if arguments not in ([], ["--check"]):
        sys.exit("usage: generate.py [--check]")
    status = _run("built-in kinds", [sys.executable, ROOT / "tools" / "generate_apis.py", *arguments], ROOT)
    kubewright = Path(sys.executable).with_name("kubewright")
    golden = ROOT / "tests" / "golden" / "models"
    command = [kubewright, "generate", "models", golden / "crds.yaml", "--output", golden, *arguments]
    status |= _run("golden modules", command, ROOT)
    for project in sorted(ROOT.glob("examples/*/pyproject.toml")):
        folder = project.parent
        command = [kubewright, "generate", *arguments]
        status |= _run(f"manifests of {folder.name}", command, folder)
    for client in sorted(ROOT.glob("examples/*/client/pyproject.toml")):
        name = tomllib.loads(client.read_text())["project"]["name"]
        command = [kubewright, "generate", "client", "--output", "client", "--name", name, *arguments]
        status |= _run(f"client of {client.parts[-3]}", command, client.parents[1])
    for project in sorted((ROOT / "tests" / "golden" / "manifests").glob("*/pyproject.toml")):
        for what in ("manifests", "installer", "chart"):
            status |= _run(f"golden {what}", [kubewright, "generate", what, *arguments], project.parent)
    status |= _run("golden projects", [sys.executable, ROOT / "tools" / "golden_projects.py", *arguments], ROOT)
    transcripts = sorted((ROOT / "tests" / "golden" / "transcripts").glob("*.txt"))
    status |= _run("transcripts", [sys.executable, "-m", "tools.transcripts", *transcripts, *arguments], ROOT)
    status |= _run("public API", [sys.executable, ROOT / "tools" / "api.py", *arguments], ROOT)
    status |= _run("docs/cli.md", [sys.executable, ROOT / "tools" / "cli_page.py", *arguments], ROOT)
    status |= _run("requirements-dev.lock", [sys.executable, ROOT / "tools" / "lock.py", "--check"], ROOT)
    status |= _run("pictures", [sys.executable, "-m", "tools.pictures", *arguments], ROOT)
    return status


def _run(what: str, command: list[str | Path], folder: Path) -> int:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=dict(os.environ))
    print(f"{what}: {'up to date or written' if done.returncode == 0 else 'FAILED'}")
    if done.returncode != 0:
        print(done.stdout + done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
