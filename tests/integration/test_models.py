"""Modules generated from the CRDs of a cluster: they read and write its objects, and it accepts their CRDs."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from integration.command import COMMAND
from kubewright import ObjectMeta
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.client._crds import until_established
from kubewright.machinery import yaml
from kubewright.machinery.errors import Invalid
from kubewright.models import codec, custom_resource_definition
from kubewright.testing import Cluster, eventually

GOLDEN = Path(__file__).parents[1] / "golden" / "models"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"made_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


async def installed(cluster: Cluster) -> list[str]:
    """Install the golden CRDs. Returns their names."""
    names: list[str] = []
    for document in yaml.load_all((GOLDEN / "crds.yaml").read_text()):
        crd = await cluster.client.apply(codec.from_dict(CustomResourceDefinition, document))
        names.append(crd.metadata.name)
        await until_established(cluster.client, crd.metadata.name)
    return names


async def test_generated_modules_read_and_write_objects(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    names = await installed(cluster)
    process = await asyncio.create_subprocess_exec(
        *(COMMAND, "generate", "models", "--output", tmp_path, "--kubeconfig", cluster.kubeconfig()),
        *(argument for name in names for argument in ("--from-cluster", name)),
    )
    assert await process.wait() == 0
    made = load(tmp_path / "shop_example_com_v1.py")
    items = [made.BasketSpecItems(sku="a", count=2)]
    basket = made.Basket(
        metadata=ObjectMeta(name="one", namespace=namespace),
        spec=made.BasketSpec(owner="ann", note=None, items=items, pod_ips=["10.0.0.1"], weight=0.5),
    )
    assert made.Basket.validate(basket) == []
    written = await eventually(cluster.client.create, basket)
    assert written.spec.items == items
    assert (written.spec.delivery, written.spec.discount, written.spec.tags) == ("Standard", "10%", ["new"])
    written.spec.owner = "bob"
    with pytest.raises(Invalid, match="a basket stays with its owner"):
        await cluster.client.update(written)


async def test_modules_from_a_file_are_up_to_date_with_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    names = await installed(cluster)
    generate = (COMMAND, "generate", "models", "--output", tmp_path)
    from_file = await asyncio.create_subprocess_exec(*generate, GOLDEN / "crds.yaml")
    assert await from_file.wait() == 0
    checked = await asyncio.create_subprocess_exec(
        *(*generate, "--check", "-v", "--kubeconfig", cluster.kubeconfig()),
        *(argument for name in names for argument in ("--from-cluster", name)),
    )
    assert await checked.wait() == 0


async def test_a_cluster_accepts_the_crds_of_the_classes(cluster: Cluster) -> None:
    await installed(cluster)
    current, old = load(GOLDEN / "shop_example_com_v1.py"), load(GOLDEN / "shop_example_com_v1alpha1.py")
    for classes in ((current.Basket, old.Basket), (current.Person,)):
        crd = codec.from_dict(CustomResourceDefinition, custom_resource_definition(*classes))
        taken = await cluster.client.apply(crd, dry_run=True, force=True)
        assert [each.name for each in taken.spec.versions] == [cls.__api__.version for cls in classes]
