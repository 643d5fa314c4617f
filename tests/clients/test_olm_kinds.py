"""The kinds of both generations of OLM accept bundles and catalogs that Kubewright writes.

Their CRDs come from Go modules; nothing is built. The API server checks every field against their schemas.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.client._crds import until_established
from kubewright.client._dynamic import decode_object
from kubewright.machinery import yaml
from kubewright.machinery.json import JSONObject
from kubewright.models import codec
from kubewright.testing import Cluster
from kubewright_cli.deployment.objects import Objects

GOLDEN = Path(__file__).parents[1] / "golden" / "manifests"
MODULES = {
    "github.com/operator-framework/api@v0.45.0": "crds/*.yaml",
    "github.com/operator-framework/operator-controller@v1.11.0": "helm/olmv1/base/*/crd/standard/*.yaml",
}
pytestmark = [pytest.mark.long, pytest.mark.skipif(shutil.which("go") is None, reason="Go was not found")]


def definitions(folder: Path) -> Iterator[JSONObject]:
    """Yield the CRDs of OLM. Skips if a module is not available."""
    (folder / "go.mod").write_text("module olm.test\n")
    for module, pattern in MODULES.items():
        done = subprocess.run(("go", "mod", "download", "-json", module), cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"the Go module {module} cannot be had: {done.stdout.strip()}")
        files = sorted(Path(json.loads(done.stdout)["Dir"]).glob(pattern))
        assert files, f"{module} has no files {pattern}"
        for each in files:
            yield from (one for one in yaml.load_all(each.read_text()) if one.get("kind") == "CustomResourceDefinition")


@pytest_asyncio.fixture
async def kinds_of_olm(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Objects]:
    names: list[str] = []
    for document in definitions(tmp_path):
        crd: Any = codec.from_dict(CustomResourceDefinition, document)
        await cluster.client.apply(crd)
        names.append(crd.metadata.name)
    for each in names:
        await until_established(cluster.client, each)
    yield Objects(cluster.client)
    for each in names:
        await cluster.client.delete(CustomResourceDefinition, each)


@pytest.mark.parametrize("project", ["full", "minimal", "namespaced"])
async def test_cluster_service_versions_are_accepted(kinds_of_olm: Objects, namespace: str, project: str) -> None:
    (path,) = (GOLDEN / project / "bundle/manifests").glob("*.clusterserviceversion.yaml")
    found = await create(kinds_of_olm, yaml.load(path.read_text()), namespace)
    assert found["spec"]["install"]["spec"]["deployments"]


async def test_objects_that_install_a_package_are_accepted(kinds_of_olm: Objects, namespace: str) -> None:
    package = yaml.load((GOLDEN / "full/bundle/metadata/annotations.yaml").read_text())["annotations"][
        "operators.operatorframework.io.bundle.package.v1"
    ]
    image = "registry.test/catalog:latest"
    specs: dict[str, tuple[str, JSONObject]] = {
        "CatalogSource": ("operators.coreos.com/v1alpha1", {"sourceType": "grpc", "image": image}),
        "OperatorGroup": ("operators.coreos.com/v1", {"targetNamespaces": [namespace]}),
        "Subscription": (
            "operators.coreos.com/v1alpha1",
            {"name": package, "channel": "stable", "source": "catalog", "sourceNamespace": namespace},
        ),
        "ClusterCatalog": ("olm.operatorframework.io/v1", {"source": {"type": "Image", "image": {"ref": image}}}),
        "ClusterExtension": (
            "olm.operatorframework.io/v1",
            {
                "namespace": namespace,
                "serviceAccount": {"name": "installer"},
                "source": {"sourceType": "Catalog", "catalog": {"packageName": package, "channels": ["stable"]}},
            },
        ),
    }
    for kind, (api_version, spec) in specs.items():
        await create(kinds_of_olm, {"apiVersion": api_version, "kind": kind, "metadata": {}, "spec": spec}, namespace)


async def create(objects: Objects, document: JSONObject, namespace: str) -> JSONObject:
    """Create an object by a dry run that rejects unknown fields. Returns its content."""
    kind = await objects.kind(document)
    metadata = {"name": "accepted", **document["metadata"]}
    if kind.__api__.namespaced:
        metadata["namespace"] = namespace
    wanted = decode_object(kind, json.dumps({**document, "metadata": metadata}).encode())
    return (await objects.client.create(wanted, dry_run=True, field_validation="Strict")).content
