"""The manifests of `kubewright generate`, tested with kustomize and an API server with strict validation."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from integration.command import run
from integration.kubectl import KUBECTL, Kubectl
from integration.manifests import GOLDEN, by_name, each_project, installer, name, needs_kubectl
from integration.manifests import kubectl as kubectl
from kubewright.machinery import yaml
from kubewright.machinery.json import JSONObject
from kubewright_cli.manifests import Settings
from kubewright_cli.scaffold.settings import with_setting

TUTORIAL = Path(__file__).parents[2] / "examples/webfarm-operator"
"""Its manager makes the certificate of its webhooks."""

pytestmark = pytest.mark.xdist_group("golden manifests")


def kustomize(folder: Path) -> list[JSONObject]:
    done = subprocess.run([str(KUBECTL), "kustomize", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.load_all(done.stdout))


@needs_kubectl
@each_project
def test_kustomize_renders_the_installer_from_the_folders(project: Path) -> None:
    built, written = kustomize(project / "config/default"), installer(project)
    assert by_name(built) == by_name(written)
    assert list(map(name, built)) == list(map(name, written))


@needs_kubectl
@pytest.mark.parametrize("project", [GOLDEN / "full", TUTORIAL], ids=lambda path: path.name)
def test_an_overlay_has_the_objects_of_settings_with_its_prefix_and_namespace(project: Path, tmp_path: Path) -> None:
    here = tmp_path / project.name
    shutil.copytree(project, here)
    prefix = Settings.read(here / "pyproject.toml").name_prefix
    (here / "overlay").mkdir()
    (here / "overlay/kustomization.yaml").write_text(
        "resources: [../config/default]\nnamespace: elsewhere\nnamePrefix: staging-\n"
        "transformers: [../config/replacements]\n"
    )
    built = kustomize(here / "overlay")
    settings = with_setting((here / "pyproject.toml").read_text(), "namespace", "elsewhere")
    (here / "pyproject.toml").write_text(with_setting(settings, "name-prefix", f"staging-{prefix}"))
    status, said = run("generate", "installer", folder=here)
    assert status == 0, said
    assert by_name(built) == by_name(installer(here))


@needs_kubectl
@each_project
def test_kustomize_builds_every_folder_on_its_own(project: Path) -> None:
    for each in sorted((project / "config").glob("*/kustomization.yaml")):
        assert kustomize(each.parent)


# ---- API server


@needs_kubectl
@each_project
async def test_an_api_server_accepts_everything_with_strict_validation(project: Path, kubectl: Kubectl) -> None:
    documents = installer(project)
    used = sorted({each["metadata"].get("namespace", "default") for each in documents} - {"default"})
    for namespace in used:
        await kubectl("create", "namespace", namespace)
    try:
        server = ("--dry-run=server", "--validate=strict", "-f", str(project / "dist/install.yaml"))
        said = await kubectl("apply", "--server-side", "--force-conflicts", *server)
        assert said.count("serverside-applied (server dry run)") == len(documents)
    finally:
        for namespace in used:
            await kubectl("delete", "namespace", namespace)


@needs_kubectl
async def test_the_pods_of_the_manager_meet_the_standard_of_their_namespace(kubectl: Kubectl) -> None:
    path = str(GOLDEN / "minimal/dist/install.yaml")
    await kubectl("apply", "--server-side", "-f", path)
    try:
        deployment = ("deployment/minimal-controller-manager", "--namespace=minimal-system")
        assert "successfully rolled out" in await kubectl("rollout", "status", *deployment, "--timeout=120s")
        namespace = await kubectl.json("get", "namespace", "minimal-system")
        assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    finally:
        await kubectl("delete", "--ignore-not-found", "-f", path)
