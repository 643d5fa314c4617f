"""The operator as a whole."""

from pathlib import Path

from kubewright import Config
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster

from demovolume_operator.api.v1.demovolume import DemoVolume
from demovolume_operator.api.v1.volumeoperation import VolumeOperation
from demovolume_operator.main import manager
from demovolumes import Volumes

CONFIG = Path(__file__).parents[1] / "config"


async def test_the_operator_starts_with_its_declared_permissions(account: Config) -> None:
    async with manager.replace(config=account) as operator:
        await operator.wait_ready()


async def test_the_samples_and_the_crds_are_valid(cluster: Cluster, volumes: Volumes) -> None:
    for file in sorted(CONFIG.glob("crd/bases/*.yaml")):
        crd = codec.from_dict(CustomResourceDefinition, yaml.load(file.read_text()))
        await cluster.client.apply(crd, field_validation="Strict")
    volume = codec.from_dict(DemoVolume, yaml.load((CONFIG / "samples/demo_v1_demovolume.yaml").read_text()))
    operation = codec.from_dict(
        VolumeOperation, yaml.load((CONFIG / "samples/demo_v1_volumeoperation.yaml").read_text())
    )
    for sample in (volume, operation):
        sample.metadata.namespace = volumes.namespace
    made = await cluster.client.create(volume, field_validation="Strict")
    about = await cluster.client.create(operation, field_validation="Strict")
    assert about.spec.volume == made.metadata.name
