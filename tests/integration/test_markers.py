"""Every row of docs/markers.md is a CRD that an API server accepts."""

import pytest

from kubewright import CustomResource
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.models import codec, custom_resource_definition
from kubewright.testing import Cluster
from markers_page import Row, kind_with_arguments, kind_with_field, kind_with_model, rows

KINDS = [
    *((row, kind_with_field(row)) for row in rows("Fields")),
    *((row, kind_with_model(row)) for row in rows("Models")),
    *((row, kind_with_arguments(row)) for row in rows("Kinds")),
]


@pytest.mark.parametrize(("row", "kind"), KINDS, ids=[row.marker for row, _ in KINDS])
async def test_the_crd_of_a_row_is_accepted(cluster: Cluster, row: Row, kind: type[CustomResource]) -> None:
    written = codec.from_dict(CustomResourceDefinition, custom_resource_definition(kind))
    accepted = await cluster.client.create(written, dry_run=True)
    assert accepted.spec.versions == written.spec.versions, row.code
