"""`kubewright generate models`: typed modules for the kinds of others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.cli.options import config_of, kubeconfig_options
from kubewright.client.client import Client
from kubewright.client.config import Config
from kubewright.client.dynamic import Unstructured
from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.json import JSONObject
from kubewright.models.codegen import HEADER, modules

_EXTENSIONS = (".yaml", ".yml", ".json")


@click.command("models")
@click.argument("sources", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--from-cluster", "names", multiple=True, help="A CRD of the cluster, by name. May be given again.")
@click.option(
    "--output", "-o", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder to write."
)
@click.option("--check", is_flag=True, help="Write nothing; fail when a file is not what it would be.")
@kubeconfig_options
def command(
    sources: tuple[Path, ...],
    names: tuple[str, ...],
    output: Path,
    check: bool,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Write typed modules for CustomResourceDefinitions, one for each group and version.

    SOURCES are YAML or JSON files, or folders of them; documents of other kinds in them are passed over.

    \b
    kubewright generate models crds/ --output src/my_operator/apis
    kubewright generate models --from-cluster certificates.cert-manager.io --output src/my_operator/apis
    """
    crds = [crd for source in sources for crd in _read(source)]
    if names:
        crds += asyncio.run(_fetch(names, config_of(kubeconfig, context)))
    if not crds:
        raise click.UsageError("no CustomResourceDefinition is given; name files that have some, or --from-cluster")
    files = {output / f"{name}.py": text for name, text in modules(crds).items()}
    stale = [path for path, text in files.items() if not path.is_file() or path.read_text() != text]
    if check and stale:
        raise click.ClickException(f"not up to date: {', '.join(map(str, stale))}; run this without --check")
    foreign = [path for path in stale if path.exists() and not path.read_text().startswith(HEADER)]
    if foreign:
        listed = ", ".join(map(str, foreign))
        raise click.ClickException(f"{listed} was not made by this command and is left alone; choose another --output")
    output.mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.write_text(files[path])
        click.echo(f"wrote {path}")
    if not stale:
        click.echo("everything is up to date")


def _read(source: Path) -> Iterator[JSONObject]:
    paths: Iterable[Path] = [source]
    if source.is_dir():
        paths = sorted(path for path in source.rglob("*") if path.suffix in _EXTENSIONS)
    for path in paths:
        try:
            documents = list(yaml.load_all(path.read_text()))
        except (OSError, UnicodeDecodeError, DecodeError) as error:
            raise ConfigError(f"{path}: {error}") from error
        yield from (each for each in documents if each.get("kind") == "CustomResourceDefinition")


async def _fetch(names: Iterable[str], config: Config) -> list[JSONObject]:
    kind = Unstructured.of(CustomResourceDefinition.__api__)
    client = Client(config, user_agent="kubewright-cli")
    try:
        found = [await client.get(kind, name) for name in names]
    finally:
        await client.close()
    return [_document(each) for each in found]


def _document(crd: Unstructured) -> JSONObject:
    metadata = {"name": crd.metadata.name, "annotations": crd.metadata.annotations}
    return {"apiVersion": crd.api_version, "kind": crd.kind, "metadata": metadata, **crd.content}
