"""An image has the base, the requirements and the program, and starts the program."""

import gzip
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from images import AMD64, ARM64, PYPROJECT, PYTHON, read, write_base, write_project, write_wheel
from kubewright.machinery.errors import ConfigError
from kubewright_cli.image.build import Base, Plan, build
from kubewright_cli.image.content import Descriptor, Platform
from kubewright_cli.image.layout import Layout
from kubewright_cli.image.project import ImageProject
from kubewright_cli.manifests.reference import Reference


def say(text: str) -> None:
    """Ignore progress."""


def plan(project: Path, base: Layout, platforms: tuple[Platform, ...] = (AMD64,), python: str = "") -> Plan:
    return Plan(
        project=ImageProject.read(project),
        base=Base("base", base, base.images[0]),
        name=Reference.parse("registry.example.com/team/web-operator:v3"),
        platforms=platforms,
        python=python,
        find_links=(project / "wheels",),
    )


@pytest.fixture(autouse=True)
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only folders of wheels are used."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_NO_INDEX", "1")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project")


@pytest.fixture
def base(tmp_path: Path) -> Layout:
    return write_base(tmp_path / "base")


def unpack(layout: Layout, image: Descriptor, root: Path) -> None:
    for layer in read(layout, image)["layers"]:
        content = gzip.decompress(layout.read(Descriptor.read(layer)))
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4
            archive.extractall(root)


def test_the_program_runs_from_the_files_of_the_image_only(project: Path, base: Layout, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "image")
    image, _ = build(plan(project, base), layout, say)
    root = tmp_path / "root"
    unpack(layout, image, root)
    config = read(layout, Descriptor.read(read(layout, image)["config"]))["config"]
    environment = dict(each.split("=", 1) for each in config["Env"])
    assert config["Entrypoint"] == ["python3", "-m", "web_operator.main"]
    assert config["User"] == "65532:65532"
    assert "Cmd" not in config
    path = ":".join(f"{root}{folder}" for folder in environment["PYTHONPATH"].split(":"))
    command = [sys.executable, "-S", *config["Entrypoint"][1:]]
    done = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("hello 0.3.0 1.0\n", "")
    assert (root / "etc/os-release").is_file()


def test_bytecode_names_its_path_in_the_image(project: Path, base: Layout, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "image")
    image, _ = build(plan(project, base), layout, say)
    unpack(layout, image, tmp_path / "root")
    for name in ("source/web_operator/__pycache__/main", "packages/__pycache__/greeting"):
        (compiled,) = (tmp_path / "root/app").glob(f"{name}.*.pyc")
        assert str(tmp_path).encode() not in compiled.read_bytes()
        assert b"/app/" in compiled.read_bytes()


def test_the_same_sources_produce_the_same_image_in_any_folder(base: Layout, tmp_path: Path) -> None:
    digests: set[str] = set()
    for name in ("here", "somewhere-else"):
        project = write_project(tmp_path / name)
        (project / "src/web_operator/__pycache__").mkdir()
        (project / "src/web_operator/__pycache__/main.pyc").write_text(name)
        digests.add(build(plan(project, base), Layout(tmp_path / f"{name}-image"), say)[0].digest)
    assert len(digests) == 1


def test_a_program_change_keeps_the_layer_of_requirements(project: Path, base: Layout, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "image")
    before = read(layout, build(plan(project, base), layout, say)[0])["layers"]
    (project / "src/web_operator/more.py").write_text("x = 1\n")
    after = read(layout, build(plan(project, base), layout, say)[0])["layers"]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, True, False]


def test_an_image_for_two_platforms_has_each_on_its_own_base(project: Path, tmp_path: Path) -> None:
    base = write_base(tmp_path / "both", (AMD64, ARM64))
    layout = Layout(tmp_path / "image")
    image, built = build(plan(project, base, (AMD64, ARM64)), layout, say)
    assert set(layout.platforms(image)) == {AMD64, ARM64}
    for one in built:
        root = tmp_path / one.platform.architecture
        unpack(layout, one.image, root)
        assert (root / "etc/os-release").read_text() == f"NAME=test-{one.platform.architecture}\n"


def test_locked_requirements_are_installed(project: Path, base: Layout, tmp_path: Path) -> None:
    write_wheel(project / "wheels", "greeting", "2.0", 'TEXT = "good evening"\n')
    (project / "pyproject.toml").write_text(PYPROJECT.replace("==1.0", ""))
    (project / "requirements.lock").write_text("greeting==1.0\n")
    layout = Layout(tmp_path / "image")
    unpack(layout, build(plan(project, base), layout, say)[0], tmp_path / "root")
    assert (tmp_path / "root/app/packages/greeting.py").read_text() == 'TEXT = "hello"\n'


def test_a_base_for_another_platform_is_refused(project: Path, base: Layout, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="base base does not support linux/arm64, only linux/amd64"):
        build(plan(project, base, (ARM64,)), Layout(tmp_path / "image"), say)


def test_a_base_without_a_declared_python_needs_an_option(project: Path, tmp_path: Path) -> None:
    base = write_base(tmp_path / "base", python="")
    with pytest.raises(ConfigError, match=r"does not declare its Python \(PYTHON_VERSION\); name the version"):
        build(plan(project, base), Layout(tmp_path / "image"), say)
    assert build(plan(project, base, python=PYTHON), Layout(tmp_path / "image"), say)[1][0].python == PYTHON


def test_a_base_with_an_unsupported_python_is_refused(project: Path, tmp_path: Path) -> None:
    base = write_base(tmp_path / "base", python="3.9")
    text = PYPROJECT.replace("dependencies", 'requires-python = ">=3.11"\ndependencies')
    (project / "pyproject.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"the base has Python 3\.9, and web-operator needs >=3\.11"):
        build(plan(project, base), Layout(tmp_path / "image"), say)


def test_a_missing_requirement_is_named(project: Path, base: Layout, tmp_path: Path) -> None:
    (project / "wheels/greeting-1.0-py3-none-any.whl").unlink()
    with pytest.raises(ConfigError, match=r"cannot install the requirements for linux/amd64(.|\n)*greeting"):
        build(plan(project, base), Layout(tmp_path / "image"), say)


def test_a_source_that_does_not_compile_is_refused(project: Path, base: Layout, tmp_path: Path) -> None:
    (project / "src/web_operator/main.py").write_text("def\n")
    with pytest.raises(ConfigError, match=r"cannot compile the sources(.|\n)*main\.py"):
        build(plan(project, base), Layout(tmp_path / "image"), say)


def test_an_unknown_setting_is_refused(project: Path) -> None:
    with (project / "pyproject.toml").open("a") as file:
        file.write('\n[tool.kubewright.build]\nbasis = "python:3.13"\n')
    with pytest.raises(ConfigError, match=r'kubewright\.build: unknown setting "basis"; did you mean "base"'):
        ImageProject.read(project)
