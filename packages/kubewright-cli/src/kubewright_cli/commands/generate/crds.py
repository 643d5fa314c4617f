"""CustomResourceDefinitions as input of a command: files, folders of files, or names in a cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import click

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.client import Client, Config, Unstructured
from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright_cli.options import config_of, kubeconfig_options

F = TypeVar("F", bound=Callable[..., object])

EXTENSIONS: Final = (".yaml", ".yml", ".json")


def crd_sources(function: F) -> F:
    """Add `SOURCES`, `--from-cluster`, `--kubeconfig` and `--context`: the arguments of `given`."""
    sources = click.argument("sources", nargs=-1, type=click.Path(exists=True, path_type=Path))
    names = click.option(
        "--from-cluster", "names", metavar="NAME", multiple=True, help="Name of a CRD in the cluster. May be repeated."
    )
    return sources(names(kubeconfig_options(function)))


def given(
    sources: Iterable[Path], names: tuple[str, ...], kubeconfig: Path | None, context: str | None
) -> list[JSONObject]:
    """Return the CRDs in `sources`, and the CRDs `names` of the cluster. Raises UsageError if there are none."""
    sources = list(sources)
    found = [each for source in sources for each in read_folder(source)]
    crds = [each for each in found if is_crd(each)]
    if names:
        crds += asyncio.run(_fetch(names, config_of(kubeconfig, context)))
    if not crds:
        raise click.UsageError(_nothing_found([str(each) for each in sources], found))
    return crds


def _nothing_found(sources: list[str], found: list[JSONObject]) -> str:
    where = f"in {', '.join(sources)}" if sources else "given"
    others = f" (found: {_counted(found)})" if found else ""
    return (
        f"no CustomResourceDefinition {where}{others}. Expected YAML or JSON documents with apiVersion: "
        "apiextensions.k8s.io/v1 and kind: CustomResourceDefinition, as `kubectl get crd NAME -o yaml` prints them. "
        "Name files or folders that have some, or use --from-cluster NAME"
    )


def is_crd(document: JSONObject) -> bool:
    """Return whether the document is a CustomResourceDefinition."""
    return document.get("kind") == "CustomResourceDefinition"


def read_folder(source: Path) -> Iterator[JSONObject]:
    """Yield the documents of a file, or of the YAML and JSON files in a folder. Raises ConfigError."""
    paths: Iterable[Path] = [source]
    if source.is_dir():
        paths = sorted(path for path in source.rglob("*") if path.suffix in EXTENSIONS)
    for path in paths:
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {error}") from error
        yield from read_text(text, str(path))


def read_text(text: str, name: str) -> Iterator[JSONObject]:
    """Yield the documents of a text. Raises ConfigError, which names the text."""
    try:
        documents = list(yaml.load_all(text))
    except DecodeError as error:
        raise ConfigError(f"{name}: {error}") from error
    yield from (each for document in documents for each in _items(document))


def _items(document: JSONObject) -> Iterator[JSONObject]:
    """Yield the document, or the items of a List, as kubectl prints several objects."""
    items = document.get("items")
    if str(document.get("kind", "")).endswith("List") and is_array(items):
        yield from filter(is_object, items)
    else:
        yield document


def _counted(documents: Iterable[JSONObject]) -> str:
    kinds = Counter(str(each.get("kind") or "object without a kind") for each in documents)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


async def _fetch(names: Iterable[str], config: Config) -> list[JSONObject]:
    kind = Unstructured.of(CustomResourceDefinition.__api__)
    async with Client(config, user_agent="kubewright-cli") as client:
        return [_document(await client.get(kind, name)) for name in names]


def _document(crd: Unstructured) -> JSONObject:
    metadata = {"name": crd.metadata.name, "annotations": crd.metadata.annotations}
    return {"apiVersion": crd.api_version, "kind": crd.kind, "metadata": metadata, **crd.content}
