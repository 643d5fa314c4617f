"""The files under config/ match the program."""

import subprocess
import sys
from pathlib import Path

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster

from podbuggertool_operator.api.v1beta1.podbuggertool import Podbuggertool
from podbuggertool_operator.main import manager
from podbuggertools import Podbuggertools

PROJECT = Path(__file__).parent.parent


def test_the_generated_files_are_up_to_date() -> None:
    command = [str(Path(sys.executable).with_name("kubewright")), "generate", "--check"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_the_sample_and_the_crd_are_valid(cluster: Cluster, tools: Podbuggertools) -> None:
    crd = yaml.load((PROJECT / "config/crd/bases/ualter.com_podbuggertools.yaml").read_text())
    await cluster.client.apply(codec.from_dict(CustomResourceDefinition, crd), field_validation="Strict")
    document = yaml.load((PROJECT / "config/samples/ualter_v1beta1_podbuggertool.yaml").read_text())
    sample = codec.from_dict(Podbuggertool, document)
    sample.metadata.namespace = tools.namespace
    made = await cluster.client.create(sample, field_validation="Strict")
    assert (made.spec.label, made.spec.image) == ("app=payment", "busybox")


def test_the_role_allows_changes_only_of_ephemeral_containers() -> None:
    permissions = {
        resource: sorted(rule.verbs)
        for rule in manager.rbac_rules()
        for resource in rule.resources
        if resource.startswith("pods")
    }
    assert permissions == {"pods": ["get", "list", "watch"], "pods/ephemeralcontainers": ["patch"]}
