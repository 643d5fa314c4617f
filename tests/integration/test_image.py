"""`kubewright image`: built images can be pushed to a registry and used as base images."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from images import AMD64, ARM64, write_base, write_project
from integration import forked
from integration.command import COMMAND
from integration.registries import PASSWORD, REGISTRY, USER, passwords, registry, tokens
from kubewright_cli.image.bases import find_base
from kubewright_cli.image.content import Platform
from kubewright_cli.image.layout import Layout
from kubewright_cli.image.registry import Registry
from kubewright_cli.manifests.reference import Reference

needs_registry = pytest.mark.skipif(REGISTRY is None, reason="needs the registry that `make controlplane` builds")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_base(tmp_path / "base")
    return write_project(tmp_path / "project")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use no package index, no logins of the user, and a separate cache."""
    for name in ("PIP_NO_INDEX", "UV_NO_INDEX"):
        monkeypatch.setenv(name, "1")
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in ("DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)


def image(project: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return forked.run(COMMAND, "image", *arguments, folder=project, environment=os.environ)


def built(project: Path, *arguments: object) -> str:
    """Build an image. Returns its digest."""
    done = image(project, "build", "--base", f"oci:{project.parent / 'base'}", "--find-links", "wheels",
                 "--output", "json", *arguments)  # fmt: skip
    assert done.returncode == 0, done.stderr
    digest: str = json.loads(done.stdout)["digest"]
    return digest


def log_in(server: str) -> None:
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    folder = Path(os.environ["HOME"], ".docker")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"auths": {server: {"auth": auth}}}))


async def pulled(name: str, folder: Path, platforms: tuple[Platform, ...] = (AMD64,)) -> Layout:
    layout = Layout(folder)
    reference = Reference.parse(name)
    async with Registry(reference.registry, None) as source:
        layout.publish(await source.pull(reference, platforms, layout, print), name)
    return layout


@pytest.mark.parametrize("has_path", [True, False])
def test_a_requirement_that_no_index_has_is_reported_with_advice(
    project: Path, has_path: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without PATH, pip is the installer; or uv, if it is next to the command, but it finds no Python of its own."""
    if not has_path:
        monkeypatch.setenv("PATH", str(project.parent / "nothing"))
    settings = (project / "pyproject.toml").read_text()
    wanted = 'dependencies = ["kubewright[tls]~=0.1.0"]'
    (project / "pyproject.toml").write_text(re.sub("(?m)^dependencies = .*$", wanted, settings))
    done = image(project, "build", "--base", f"oci:{project.parent / 'base'}")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith(
        "Put wheels that no index has into a folder, and name it: --find-links FOLDER, or find-links in "
        "[tool.kubewright.build]"
    ), done.stderr


def test_a_build_reports_its_result(project: Path) -> None:
    done = image(project, "build", "--base", f"oci:{project.parent / 'base'}", "--find-links", "wheels")
    assert done.returncode == 0, done.stderr
    assert "Image  registry.example.com/team/web-operator:v3 (sha256:" in done.stdout
    assert "`kubewright image push` pushes it" in done.stdout


def test_missing_parts_are_reported_in_one_line(project: Path) -> None:
    done = image(project, "push")
    assert done.returncode == 1
    assert done.stderr.endswith("/dist/image does not exist; build the image first: kubewright image build\n")
    done = image(project, "build", "--base", "oci:nowhere")
    assert done.stderr == "Error: nowhere is not an OCI image layout: it has no index.json\n"


def test_an_unreachable_registry_is_not_reported_as_an_api_server(project: Path, refusing_address: str) -> None:
    done = image(project, "build", "--base", f"{refusing_address}/base:v1")
    assert done.returncode == 1
    expected = f"Error: registry {refusing_address}: cannot connect to {refusing_address}: Connection refused; "
    assert expected in done.stderr
    assert "kubeconfig" not in done.stderr


@needs_registry
async def test_a_pushed_image_is_pulled_as_it_was_built(project: Path, tmp_path: Path) -> None:
    async with registry(tmp_path / "registry") as server:
        name = f"{server}/team/web-operator:v3"
        digest = built(project, "--image", name)
        pushed = image(project, "push", "--image", name)
        assert pushed.stdout == f"Pushed {name} ({digest})\n", pushed.stderr
        layout = await pulled(name, tmp_path / "pulled")
        assert layout.images[0].digest == digest
        assert all(layout.has(blob) for blob in layout.closure(layout.images[0]))


@needs_registry
async def test_a_pushed_image_can_be_a_base_image(project: Path, tmp_path: Path) -> None:
    async with registry(tmp_path / "registry") as server:
        base = f"{server}/base:v1"
        built(project, "--image", base)
        assert image(project, "push", "--image", base).returncode == 0
        done = image(project, "build", "--base", base, "--find-links", "wheels", "--output", "json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["base"].startswith(f"{base}@sha256:")
        again = await find_base(base, (AMD64,), print)
        assert len(list(again.layout.closure(again.image))) == 5  # the base's layer, two more, config, manifest


@needs_registry
async def test_an_image_for_two_platforms_is_pushed_as_one(project: Path, tmp_path: Path) -> None:
    write_base(tmp_path / "base", (AMD64, ARM64))
    async with registry(tmp_path / "registry") as server:
        name = f"{server}/team/web-operator:v3"
        digest = built(project, "--image", name, "--platform", "linux/amd64", "--platform", "linux/arm64")
        assert image(project, "push", "--image", name).returncode == 0
        layout = await pulled(name, tmp_path / "pulled", (AMD64, ARM64))
        assert layout.images[0].digest == digest
        assert set(layout.platforms(layout.images[0])) == {AMD64, ARM64}


@needs_registry
async def test_a_registry_that_requires_a_password_gets_it(project: Path, tmp_path: Path) -> None:
    async with registry(tmp_path / "registry", passwords(tmp_path / "auth")) as server:
        name = f"{server}/web-operator:v3"
        built(project, "--image", name)
        refused = image(project, "push", "--image", name)
        assert refused.returncode == 1
        assert refused.stderr == f"Error: {server} requires a login: docker login {server}\n"
        log_in(server)
        assert image(project, "push", "--image", name).returncode == 0


@needs_registry
async def test_a_registry_that_requires_a_token_gets_it(project: Path, tmp_path: Path) -> None:
    async with (
        tokens(tmp_path / "auth") as (auth, issuer),
        registry(tmp_path / "registry", auth) as server,
    ):
        name = f"{server}/team/web-operator:v3"
        built(project, "--image", name)
        refused = await in_thread(project, "push", "--image", name)
        assert refused.returncode == 1
        assert "refused a token for repository:team/web-operator:pull,push without a login: 401" in refused.stderr
        log_in(server)
        done = await in_thread(project, "push", "--image", name)
        assert done.returncode == 0, done.stderr
        assert issuer.scopes == ["repository:team/web-operator:pull,push"]  # one token is enough for all requests
        await pulled(name, tmp_path / "pulled")
        assert issuer.scopes[1:] == ["repository:team/web-operator:pull"]


async def in_thread(project: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a thread, while a server in this process answers it."""
    return await asyncio.to_thread(image, project, *arguments)


@needs_registry
async def test_existing_layers_are_not_sent_again(project: Path, tmp_path: Path) -> None:
    async with registry(tmp_path / "registry") as server:
        name = f"{server}/web-operator:v3"
        built(project, "--image", name)
        layout = Layout(project / "dist/image")
        told: list[str] = []
        for _ in range(2):
            async with Registry(server, None) as target:
                await target.push(layout.images[0], Reference.parse(name), layout, told.append)
        assert len(told) == 4  # three layers and a config, once


@needs_registry
async def test_a_missing_image_is_reported(tmp_path: Path, project: Path) -> None:
    async with registry(tmp_path / "registry") as server:
        done = image(project, "build", "--base", f"{server}/nothing:v1")
        assert done.stderr == (
            f"Error: cannot pull {server}/nothing:v1: {server} answered 404 not found, or access denied\n"
        )
