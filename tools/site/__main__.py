"""The documentation as a site: `python -m tools.site`, or `make docs`.

pages             the Markdown of the repository, as the generator reads it
navigation        the order of the pages: that of docs/README.md
reference         the public names of the packages, and their docstrings
reference_pages   a page for each package
docstrings        docstrings as Markdown
extension         passes these docstrings to mkdocstrings
settings          the generator's settings
check             checks the finished site: no dead links, nothing from another host

The site is built in `build/docs/site`, or in `site` of the folder that is passed. A warning of any part is an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.site import check, navigation, pages, reference, reference_pages, settings

ROOT: Final = Path(__file__).parents[2]


def main() -> int:
    build = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "docs"
    found = _make(build.resolve())
    for each in found:
        print(f"error: {each}", file=sys.stderr)
    if not found:
        print(f"{len(list((build / 'site').rglob('*.html')))} pages: {os.path.relpath(build / 'site' / 'index.html')}")
    return 1 if found else 0


def _make(build: Path) -> list[str]:
    """Build the site in a folder. Returns the problems; with any, the site is missing or unusable."""
    shutil.rmtree(build, ignore_errors=True)
    source = build / "source"
    api = reference.load(ROOT)
    if found := pages.problems(ROOT) + api.problems():
        return found
    pages.write(ROOT, source, api)
    reference_pages.write(api, source / "docs" / "api")
    file = settings.write(build, navigation.entries(ROOT / "docs" / "README.md"))
    return _generate(file) or check.problems(build / "site")


def _generate(file: Path) -> list[str]:
    command: list[str | Path] = [Path(sys.executable).with_name("zensical"), "build", "--strict", "--config-file", file]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}  # for the modules of the extension
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode == 0:
        return []
    return ["the generator rejects the pages:\n" + done.stdout + done.stderr.partition("Traceback")[0]]


if __name__ == "__main__":
    sys.exit(main())
