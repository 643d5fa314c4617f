"""The files under config/: generated files are up to date, and the API server accepts the others."""

import subprocess
import sys

import msgspec
import pytest
from kubewright import ObjectMeta
from kubewright.client import RESTMapper
from kubewright.machinery import yaml
from kubewright.models import codec
from kubewright.testing import Cluster

from foos import PROJECT, Foos
from sample_controller.api.v1alpha1.foo import Foo

WRITTEN = sorted(path for folder in ("rbac", "manager") for path in (PROJECT / "config" / folder).glob("[!k]*.yaml"))


def test_the_generated_files_are_up_to_date() -> None:
    command = [sys.executable, "-m", "kubewright", "generate", "--check"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_the_sample_is_synced(foos: Foos, controller: object) -> None:
    document = yaml.load((PROJECT / "config/samples/samplecontroller_v1alpha1_foo.yaml").read_text())
    sample = codec.from_dict(Foo, document)
    sample.metadata.namespace = foos.namespace
    await foos.client.create(sample, field_validation="Strict")
    await foos.synced("example-foo", replicas=1)


@pytest.mark.parametrize("text", [each.read_text() for each in WRITTEN], ids=[each.name for each in WRITTEN])
async def test_manifests_written_by_hand_are_valid(cluster: Cluster, namespace: str, text: str) -> None:
    mapper = RESTMapper(cluster.client)
    for document in yaml.load_all(text):
        kind = await mapper.kind(document.pop("apiVersion"), document.pop("kind"))
        metadata = msgspec.convert(document.pop("metadata"), ObjectMeta)
        metadata.namespace = namespace if kind.__api__.namespaced else ""
        await cluster.client.create(kind(metadata=metadata, content=document), dry_run=True, field_validation="Strict")
