"""The manifests of `kubewright generate`, tested with kustomize and an API server with strict validation."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from integration.kubectl import KUBECTL, Kubectl
from integration.manifests import GOLDEN, by_name, each_project, installer, name, needs_kubectl
from integration.manifests import kubectl as kubectl
from kubewright.machinery import yaml
from kubewright.machinery.json import JSONObject

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
def test_an_overlay_moves_the_service_of_webhooks_with_its_references(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "full/config", tmp_path / "config")
    text = "resources: [../config/default]\nnamespace: elsewhere\nnamePrefix: staging-\n"
    (tmp_path / "overlay").mkdir()
    (tmp_path / "overlay/kustomization.yaml").write_text(text)
    built = kustomize(tmp_path / "overlay")
    [service] = [each["metadata"] for each in built if each["metadata"]["name"].endswith("-webhook-service")]
    assert (service["namespace"], service["name"]) == ("elsewhere", "staging-fleet-webhook-service")
    hooks = [hook for each in built if each["kind"].endswith("WebhookConfiguration") for hook in each["webhooks"]]
    hooks += [each["spec"]["conversion"]["webhook"] for each in built if "conversion" in each.get("spec", ())]
    called = [hook["clientConfig"]["service"] for hook in hooks]
    assert len(called) == 4
    assert {(each["namespace"], each["name"]) for each in called} == {(service["namespace"], service["name"])}


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
