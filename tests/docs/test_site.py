"""The site: its links work, it loads nothing from other hosts, and it has every page."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import griffe
import pytest
from tools.site import check, navigation, pages, reference, reference_pages

from docs.snippets import ROOT

pytestmark = pytest.mark.xdist_group("site")  # one worker loads the reference, once
GOOD = '<html><body id="top"><a href="other.html#there">x</a><a href="https://kubernetes.io">y</a></body></html>'
OTHER = '<html><head><script src="own.js"></script></head><body><h1 id="there">x</h1></body></html>'


def problems_of(folder: Path, page: str) -> list[str]:
    (folder / "index.html").write_text(page)
    (folder / "other.html").write_text(OTHER)
    (folder / "own.js").touch()
    return check.problems(folder)


def test_a_site_without_dead_links_has_no_problems(tmp_path: Path) -> None:
    assert problems_of(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ('<a href="gone.html">x</a>', "index.html links to gone.html: there is no such file"),
        ('<a href="other.html#gone">x</a>', "index.html links to other.html#gone: there is no such anchor"),
        ('<a href="#gone">x</a>', "index.html links to #gone: there is no such anchor"),
        ('<img src="gone.png">', "index.html links to gone.png: there is no such file"),
        ('<source srcset="gone.svg">', "index.html links to gone.svg: there is no such file"),
        (
            '<script src="https://cdn.example.com/x.js"></script>',
            "index.html loads https://cdn.example.com/x.js: the site must work offline",
        ),
        (
            '<link rel="stylesheet" href="//fonts.example.com/x.css">',
            "index.html loads //fonts.example.com/x.css: the site must work offline",
        ),
        (
            '<autoref identifier="kubewright.Gone">x</autoref>',
            "index.html refers to kubewright.Gone, which is not in the reference",
        ),
    ],
)
def test_problems_of_a_site_are_found(page: str, problem: str, tmp_path: Path) -> None:
    assert problems_of(tmp_path, page) == [problem]


def test_a_style_sheet_that_loads_a_font_from_another_host_is_found(tmp_path: Path) -> None:
    (tmp_path / "site.css").write_text('@font-face { src: url("https://fonts.example.com/a.woff2") }')
    assert problems_of(tmp_path, GOOD) == [
        "site.css loads https://fonts.example.com/a.woff2: the site must work offline"
    ]


def test_a_link_to_a_missing_page_is_found_before_the_build(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "NOTES.md").touch()
    (tmp_path / "README.md").write_text("[a](gone.py) [b](folder) [c](folder/NOTES.md)\n\n```\n[d](code)\n```\n")
    assert pages.problems(tmp_path) == [
        "README.md: the link to gone.py leads nowhere",
        "README.md: the link to folder/NOTES.md leads to a page that is not on the site; tools/site/pages.py says "
        "which are",
    ]


def test_a_program_and_a_folder_that_a_page_links_to_are_on_the_site(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for file in ("src/main.py", "src/inner/role.yaml", "src/.hidden", "map.svg"):
        (project / file).parent.mkdir(parents=True, exist_ok=True)
        (project / file).write_text(f"# {file}\n")
    (project / "README.md").write_text("[a](src) [b](src/main.py) ![c](map.svg) [d](https://kubernetes.io)\n")
    site = tmp_path / "site"
    pages.write(project, site, reference.load(ROOT))
    made = {str(each.relative_to(site)): each.read_text() for each in site.rglob("*") if each.is_file()}
    assert made["README.md"] == ("[a](src/README.md) [b](src/main.py.md) ![c](map.svg) [d](https://kubernetes.io)\n")
    assert "- [inner/role.yaml](inner/role.yaml.md)\n- [main.py](main.py.md)" in made["src/README.md"]
    assert "```python\n# src/main.py\n```" in made["src/main.py.md"]
    assert sorted(made) == ["README.md", "map.svg", "src/README.md", "src/inner/role.yaml.md", "src/main.py.md"]


def test_pictures_for_light_and_dark_are_on_the_site(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "pictures").mkdir(parents=True)
    for name in ("map.svg", "map-dark.svg"):
        (project / "pictures" / name).touch()
    picture = (
        '<source media="(prefers-color-scheme: dark)" srcset="pictures/map-dark.svg">\n<img src="pictures/map.svg">'
    )
    (project / "README.md").write_text(f"<picture>\n{picture}\n</picture>\n")
    site = tmp_path / "site"
    pages.write(project, site, reference.load(ROOT))
    assert sorted(each.name for each in (site / "pictures").iterdir()) == ["map-dark.svg", "map.svg"]


def test_a_picture_that_does_not_exist_is_found_before_the_site_is_built(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text('<source srcset="gone-dark.svg"><img src="https://example.com/a.svg">')
    assert pages.problems(tmp_path) == ["README.md: the link to gone-dark.svg leads nowhere"]


def paths(entries: list[navigation.Entry]) -> list[str]:
    found: list[str] = []
    for entry in entries:
        for each in [entry] if isinstance(entry, str) else entry.values():
            found += [each] if isinstance(each, str) else paths(each)
    return found


def test_every_page_is_in_the_navigation_once() -> None:
    listed = paths(navigation.entries(ROOT / "docs/README.md"))
    inner = set(ROOT.glob("examples/*/*/**/*.md"))  # linked from the README of the example
    expected = [str(page.relative_to(ROOT)) for page in pages.pages(ROOT) if page not in inner]
    expected += [f"docs/api/{name}.md" for name in reference.PACKAGES]
    assert sorted(listed) == sorted(expected)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of the sources."""
    ignored = shutil.ignore_patterns("__pycache__", "data")
    for each in ROOT.glob("packages/*/src"):
        shutil.copytree(each, tmp_path / each.relative_to(ROOT), ignore=ignored)
    return tmp_path


def test_every_public_name_has_a_docstring_with_valid_references() -> None:
    assert reference.load(ROOT).problems() == []


def test_missing_docstrings_and_invalid_references_are_found(repository: Path) -> None:
    client = repository / "packages/kubewright/src/kubewright/client"
    wait = client / "_wait.py"
    text = wait.read_text()
    start = text.index('    """', text.index("def has_condition"))
    wait.write_text(text[:start] + text[text.index('"""', start + 7) + 3 :])
    managed_fields = client / "_managed_fields.py"
    text = managed_fields.read_text()
    problems = "See `Object.nothing`, `models.nowhere`. Raises NoSuch."
    managed_fields.write_text(text.replace('"""The', f'"""{problems} The', 1))
    found = [each.partition(": ")[2] for each in reference.load(repository).problems()]
    assert found == [
        "kubewright.client._managed_fields refers to `NoSuch`, which does not exist",
        "kubewright.client._managed_fields refers to `Object.nothing`, which does not exist",
        "kubewright.client._managed_fields refers to `models.nowhere`, which does not exist",
        "kubewright.client._wait.has_condition has no docstring",
    ]


def test_reference_entries_are_the_names_that_users_import(tmp_path: Path) -> None:
    reference_pages.write(reference.load(ROOT), tmp_path)
    package = griffe.load("kubewright", search_paths=[ROOT / "packages" / "kubewright" / "src"], submodules=True)
    entries = re.findall(r"^::: kubewright\.(\S+)", "\n".join(page.read_text() for page in tmp_path.iterdir()), re.M)
    assert "controllers.controller" in entries
    assert [each for each in entries if package[each].is_module] == []
