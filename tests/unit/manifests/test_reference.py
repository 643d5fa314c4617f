"""Names of images have the same meaning as in Docker."""

import pytest

from kubewright.machinery.errors import ConfigError
from kubewright_cli.manifests.reference import Reference

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.13-slim", "docker.io/library/python:3.13-slim"),
        ("team/app", "docker.io/team/app:latest"),
        ("localhost/app:v1", "localhost/app:v1"),
        ("localhost:5000/app", "localhost:5000/app:latest"),
        ("[::1]:5000/app:v1", "[::1]:5000/app:v1"),
        ("gcr.io/distroless/python3-debian12", "gcr.io/distroless/python3-debian12:latest"),
        (f"ghcr.io/a/b/c@{DIGEST}", f"ghcr.io/a/b/c:latest@{DIGEST}"),
    ],
)
def test_a_name_is_read_as_docker_reads_it(text: str, meant: str) -> None:
    assert str(Reference.parse(text)) == meant


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a valid name"),
        ("Team/App", "is not a valid name; use one like registry.example.com/team/my-operator:v1"),
        ("app:", '"" is not a tag'),
        ("app:v 1", '"v 1" is not a tag'),
        ("app@sha256:12", '"sha256:12" is not a digest'),
        ("registry.example.com/", "is not a valid name"),
    ],
)
def test_an_invalid_image_name_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        Reference.parse(text)
    assert why in str(error.value)


def test_a_digest_takes_precedence() -> None:
    assert Reference.parse("python:3.13").version == "3.13"
    assert Reference.parse("python:3.13").at(DIGEST).version == DIGEST
