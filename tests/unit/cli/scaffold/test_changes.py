"""Files are written all or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubewright.machinery.errors import ConfigError
from kubewright_cli.scaffold.changes import Changes, WouldOverwrite


def contents(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_new_files_and_their_folders_are_created(tmp_path: Path) -> None:
    changes = Changes(tmp_path)
    changes.create("a/b/c.txt", "c")
    changes.create("d.txt", "d")
    assert changes.paths == ["a/b/c.txt", "d.txt"]
    changes.write()
    assert contents(tmp_path) == {"a/b/c.txt": "c", "d.txt": "d"}


def test_an_edited_file_keeps_its_mode(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("old")
    script.chmod(0o755)
    changes = Changes(tmp_path)
    changes.edit("run.sh", "new")
    changes.write()
    assert (script.read_text(), script.stat().st_mode & 0o777) == ("new", 0o755)


def test_a_conflict_prevents_all_writes(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine\n")
    changes = Changes(tmp_path)
    changes.create("first.txt", "first")
    changes.create("mine.txt", "theirs\n")
    with pytest.raises(WouldOverwrite, match=r"^mine\.txt exists with other content") as refused:
        changes.write()
    assert refused.value.difference.endswith("-mine\n+theirs\n")
    assert contents(tmp_path) == {"mine.txt": "mine\n"}
    changes.write(overwrite=True)
    assert contents(tmp_path) == {"first.txt": "first", "mine.txt": "theirs\n"}


def test_a_file_that_changed_since_it_was_read_is_a_conflict(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("read")
    changes = Changes(tmp_path)
    changes.edit("main.py", "edited")
    (tmp_path / "main.py").write_text("changed meanwhile")
    with pytest.raises(WouldOverwrite):
        changes.write()
    assert contents(tmp_path) == {"main.py": "changed meanwhile"}


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "half.txt").write_text("done")  # by a process that was killed before the rest
    changes = Changes(tmp_path)
    changes.create("half.txt", "done")
    changes.create("rest.txt", "rest")
    assert changes.paths == ["rest.txt"]
    changes.write()
    assert contents(tmp_path) == {"half.txt": "done", "rest.txt": "rest"}


@pytest.mark.parametrize("place", ["a file where a folder should be", "a folder where a file should be"])
def test_a_failure_leaves_everything_as_it_was(tmp_path: Path, place: str) -> None:
    (tmp_path / "PROJECT").write_text("before")
    changes = Changes(tmp_path)
    changes.edit("PROJECT", "after")
    changes.create("src/new/module.py", "new")
    changes.create("blocked/file.py", "never")
    if place == "a file where a folder should be":
        (tmp_path / "blocked").write_text("")
    else:
        (tmp_path / "blocked/file.py").mkdir(parents=True)
    before = contents(tmp_path)
    with pytest.raises(ConfigError, match="nothing was written"):
        changes.write()
    assert contents(tmp_path) == before
    assert not (tmp_path / "src").exists()
