"""The generated files (config/, client/) match the program."""

import subprocess
import sys
from pathlib import Path

import pytest
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster

from myweb_operator.api.v1.myweb import MyWeb
from mywebs import PORT, MyWebs

PROJECT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "what", [[], ["client", "--output", "client", "--name", "myweb-client"]], ids=["config", "client"]
)
def test_generated_files_are_up_to_date(what: list[str]) -> None:
    command = [str(Path(sys.executable).with_name("kubewright")), "generate", *what, "--check"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_the_sample_and_the_crd_are_valid(cluster: Cluster, webs: MyWebs) -> None:
    crd = yaml.load((PROJECT / "config/crd/bases/operator.k8s-summit.org_mywebs.yaml").read_text())
    await cluster.client.apply(codec.from_dict(CustomResourceDefinition, crd), field_validation="Strict")
    sample = codec.from_dict(MyWeb, yaml.load((PROJECT / "config/samples/operator_v1_myweb.yaml").read_text()))
    sample.metadata.namespace = webs.namespace
    made = await cluster.client.create(sample, field_validation="Strict")
    assert (made.spec.node_port_number, made.spec.image) == (PORT, "nginx:1.23.1")
