"""Files that pages link to: programs and manifests become pages, other files are copied."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LANGUAGES: Final = {
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".sh": "bash",
    ".js": "javascript",
    ".html": "html",
    "": "text",
}
"""The languages of files that become pages, by suffix. A file without suffix is a Makefile or another text file."""

_PAGE: Final = "---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n{text}\n"


def page_of(path: Path) -> str:
    """Return the name of the page of a file or folder. A file that is copied keeps its own name."""
    if path.is_dir():
        return f"{path.name}/README.md"
    return f"{path.name}.md" if path.suffix in LANGUAGES else path.name


def write(path: Path, root: Path, folder: Path) -> None:
    """Write a file or a folder of the repository to the path that pages link to."""
    target = folder / path.parent.relative_to(root) / page_of(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        inner = sorted(_inner(path))
        listed = "\n".join(f"- [{each.relative_to(path)}]({_link(each, path)})" for each in inner)
        target.write_text(_PAGE.format(name=path.name, text=listed))
        for each in inner:
            write(each, root, folder)
    elif path.suffix in LANGUAGES:
        code = f"````{LANGUAGES[path.suffix]}\n{path.read_text()}````"
        target.write_text(_PAGE.format(name=path.name, text=code))
    else:
        shutil.copyfile(path, target)


def _inner(folder: Path) -> Iterator[Path]:
    for each in folder.rglob("*"):
        if each.is_file() and not any(part[0] in "._" for part in each.relative_to(folder).parts):
            yield each


def _link(file: Path, folder: Path) -> str:
    return (file.parent / page_of(file)).relative_to(folder).as_posix()
