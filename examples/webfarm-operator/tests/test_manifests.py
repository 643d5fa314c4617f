"""The files under config/ match the program."""

import subprocess
import sys
from pathlib import Path

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster

PROJECT = Path(__file__).parent.parent


def test_the_generated_files_are_up_to_date() -> None:
    command = [str(Path(sys.executable).with_name("kubewright")), "generate", "--check"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_the_crd_is_valid(cluster: Cluster) -> None:
    crd = yaml.load((PROJECT / "config/crd/bases/farm.my.domain_webservers.yaml").read_text())
    await cluster.client.apply(codec.from_dict(CustomResourceDefinition, crd), field_validation="Strict")
