"""The files under config/ and what the program says are the same."""

import subprocess
import sys
from pathlib import Path

from kubewright import Manager
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster

from podset_operator.api.v1.podset import PodSet
from podsets import PodSets

PROJECT = Path(__file__).parent.parent


def test_the_generated_files_are_up_to_date() -> None:
    command = [str(Path(sys.executable).with_name("kubewright")), "generate", "--check"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_the_crd_is_valid(cluster: Cluster) -> None:
    crd = yaml.load((PROJECT / "config/crd/bases/batch.tutorial.kubebuilder.io_podsets.yaml").read_text())
    await cluster.client.apply(codec.from_dict(CustomResourceDefinition, crd), field_validation="Strict")


async def test_the_sample_is_valid_and_becomes_ready(podsets: PodSets, operator: Manager) -> None:
    sample = codec.from_dict(PodSet, yaml.load((PROJECT / "config/samples/batch_v1_podset.yaml").read_text()))
    sample.metadata.namespace = podsets.namespace
    made = await podsets.client.create(sample, field_validation="Strict")
    await podsets.completes(made.metadata.name, replicas=3)
