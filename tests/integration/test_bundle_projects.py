"""Bundles that `kubewright generate bundle` makes run without OLM: webhooks, conversion, upgrades, images."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import pytest_asyncio

from integration.bundles import ForeignBundle
from integration.deployed import Deployed
from integration.deployed_webhooks import WebhookProject
from integration.registries import REGISTRY, registry
from kubewright import Invalid
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.testing import Cluster, eventually
from kubewright_cli.deployment.conversions import conversion_of, service_of
from kubewright_cli.image.content import CONFIG, encode, manifest
from kubewright_cli.image.layer import files_of, write_layer
from kubewright_cli.image.layout import Layout
from kubewright_cli.image.registry import Registry
from kubewright_cli.manifests.reference import Reference


class Bundled(Deployed):
    project: WebhookProject

    async def bundle(self, version: str, *settings: str) -> None:
        """Generate the bundle of a version."""
        self.project.set("[tool.kubewright.bundle]", 'provider = { name = "Tests" }', *settings)
        path = self.project.folder / "pyproject.toml"
        path.write_text(path.read_text().replace('version = "1"', f'version = "{version}"'))
        await self.good("generate", "bundle", "--image", f"registry.example.com/{self.project.name}:{version}")


@pytest_asyncio.fixture
async def bundled(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Bundled]:
    found = Bundled(WebhookProject(tmp_path), cluster)
    yield found
    status, said = await found.run("bundle", "cleanup", found.project.name, "--yes", "--timeout=30")
    assert status == 0, said


@pytest.mark.usefixtures("processes")
async def test_webhooks_and_conversion_of_a_bundle_work(bundled: Bundled, namespace: str) -> None:
    project, client = bundled.project, bundled.client
    project.write(stored="v1alpha1")
    await bundled.bundle("1.0.0")
    said = await bundled.good("bundle", "run")
    assert f"{project.name}.v1.0.0 runs in namespace {project.namespace}" in said
    assert (await project.make(client, namespace, "one")).spec.size == 3
    with pytest.raises(Invalid, match=r"spec\.size: Invalid value: 12: must be at most 10"):
        await project.make(client, namespace, "big", size=12)
    assert await project.sizes(client, namespace) == ({"one": 3}, {"one": 3})
    assert "unchanged" in await bundled.good("bundle", "run")

    program = project.folder / "gizmos.py"
    program.write_text(program.read_text().replace("spec.size = 3", "spec.size = 4"))
    await bundled.bundle("1.1.0", f'replaces = "{project.name}.v1.0.0"')
    said = await bundled.good("bundle", "upgrade")
    assert "deployment.apps" in said

    async def is_new() -> None:
        made: Any = await project.make(client, namespace, "two")
        await client.delete(made)
        assert made.spec.size == 4

    await eventually(is_new)
    assert (await project.sizes(client, namespace))[1] == {"one": 3}

    await bundled.good("bundle", "cleanup", "--keep-crds")
    crd = await client.get(CustomResourceDefinition, project.crd)
    assert service_of(conversion_of(crd)) == ("", "")
    new, old = await project.sizes(client, namespace)
    assert (set(new), set(old)) == ({"one"}, {"one"})


needs_registry = pytest.mark.skipif(REGISTRY is None, reason="needs the registry that `make controlplane` builds")


@needs_registry
async def test_a_bundle_is_pulled_from_a_registry(cluster: Cluster, tmp_path: Path) -> None:
    bundle = ForeignBundle()
    folder = Bundled(WebhookProject(tmp_path), cluster)
    async with registry(tmp_path / "registry") as server:
        name = f"{server}/team/cached-bundle:v0.1.0"
        await push(bundle.write(tmp_path / "made"), Reference.parse(name), tmp_path / "layout")
        assert f"{bundle.name} is applied" in await folder.good("bundle", "run", name, "--no-wait")
        await folder.good("bundle", "cleanup", bundle.package)
        large = bundle.write(tmp_path / "large")
        with (large / "manifests/large.yaml").open("wb") as file:
            file.truncate(65 << 20)
        await push(large, Reference.parse(f"{server}/team/large:v1"), tmp_path / "layout")
        said = await folder.failed("bundle", "run", f"{server}/team/large:v1")
        assert "the folders manifests, metadata have more than 10000 files or 67108864 bytes" in said
        missing = await folder.failed("bundle", "run", f"{server}/team/missing:v1")
        assert "missing" in missing


async def push(bundle: Path, name: Reference, scratch: Path) -> None:
    """Push the image of a bundle, as a container engine would build it from the Dockerfile."""
    layout = Layout(scratch)
    layers = [
        write_layer(layout, files_of(bundle / each, PurePosixPath(each)), f"COPY {each}")
        for each in ("manifests", "metadata")
    ]
    content = {"os": "linux", "architecture": "amd64", "rootfs": {"diff_ids": [each.diff_id for each in layers]}}
    config = layout.write(CONFIG, encode(content))
    image = layout.write("application/vnd.oci.image.manifest.v1+json", manifest(config, [each.blob for each in layers]))
    async with Registry(name.registry, None) as target:
        await target.push(image, name, layout, lambda _: None)
    shutil.rmtree(scratch)
