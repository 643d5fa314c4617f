"""Which files of a project have changed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from kubewright_cli.sources import Sources


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    for name in ("main.py", "api/v1/web.py", "api/data.json", ".hidden/other.py", "env/pyvenv.cfg", "env/lib/x.py"):
        path = tmp_path / "src/web" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    return tmp_path


async def changed_by(project: Path, *written: str) -> list[str]:
    sources = Sources(project)
    change = asyncio.create_task(sources.change())
    for name in written:
        (project / name).write_text("y = 22\n")
    return [str(path) for path in await change]


@pytest.mark.parametrize("name", ["src/web/main.py", "src/web/api/v1/web.py", "pyproject.toml", "src/web/api/new.py"])
async def test_a_written_file_is_reported(project: Path, name: str) -> None:
    assert await changed_by(
        project, "src/web/api/data.json", "src/web/.hidden/other.py", "src/web/env/lib/x.py", name
    ) == [name]


async def test_files_that_are_written_together_are_reported_together(project: Path) -> None:
    names = ["src/web/api/v1/web.py", "src/web/main.py"]
    assert await changed_by(project, *names) == names


async def test_a_change_of_equal_size_and_a_removed_file_are_reported(project: Path) -> None:
    main, web = project / "src/web/main.py", project / "src/web/api/v1/web.py"
    sources = Sources(project)
    main.write_text("x = 3\n")
    os.utime(main, ns=(0, 1))
    web.unlink()
    assert await sources.change() == [path.relative_to(project) for path in (web, main)]


async def test_a_folder_that_is_removed_and_created_again_is_reported(project: Path) -> None:
    sources = Sources(project)
    (project / "src").rename(project / "away")
    assert [str(path) for path in await sources.change()] == ["src/web/api/v1/web.py", "src/web/main.py"]
    (project / "away").rename(project / "src")
    assert len(await sources.change()) == 2


async def test_every_change_is_reported_once(project: Path) -> None:
    sources = Sources(project)
    (project / "src/web/main.py").write_text("")
    await sources.change()
    again = asyncio.create_task(sources.change())
    (project / "pyproject.toml").write_text("[project]")
    assert await again == [Path("pyproject.toml")]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        (b"x = (", "src/web/main.py, line 1: SyntaxError: '(' was never closed"),
        (b"x = '\xff'", "src/web/main.py, line 1: SyntaxError: "),
        (b"x = 1", ""),
    ],
)
def test_a_file_that_does_not_compile_is_named_with_its_line(project: Path, source: bytes, fault: str) -> None:
    (project / "src/web/main.py").write_bytes(source)
    found = Sources(project).error([Path("pyproject.toml"), Path("src/web/gone.py"), Path("src/web/main.py")])
    assert found.startswith(fault)
    assert bool(found) == bool(fault)
