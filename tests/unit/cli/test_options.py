"""Options that several commands share."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kubewright_cli.main import cli


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["deploy", "--image", "Bad Image"], "'--image': image \"Bad Image\" is not a valid name"),
        (["generate", "chart", "--image=web:no/tag:"], '\'--image\': image "web:no/tag:": "" is not a tag'),
        (["undeploy", "-n", "Bad_One"], "'--namespace' / '-n': \"Bad_One\": a lowercase RFC 1123 label must"),
    ],
)
def test_a_wrong_value_is_reported_with_its_option(arguments: list[str], error: str) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert f"Invalid value for {error}" in result.stderr
