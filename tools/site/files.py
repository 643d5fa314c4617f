"""Files that pages link to and that are no pages: programs and manifests are shown as pages, others come along."""

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
"""Of the files that are shown, by their suffix: with none of them, it is a Makefile or the like."""

_PAGE: Final = "---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n{text}\n"


def page_of(path: Path) -> str:
    """The name of the page that stands for a file or folder, beside it: its own when it comes along as it is."""
    if path.is_dir():
        return f"{path.name}/README.md"
    return f"{path.name}.md" if path.suffix in LANGUAGES else path.name


def write(path: Path, root: Path, folder: Path) -> None:
    """Write a file of the repository at `root`, or a folder with all that is in it, to where pages look for it."""
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
