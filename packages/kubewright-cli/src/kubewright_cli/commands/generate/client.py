"""`kubewright generate client`: a separate package for the users of some kinds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import click

from kubewright.machinery._suggestions import nearest
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright.models import custom_resource_definitions
from kubewright_cli.codegen.package import Package, package
from kubewright_cli.commands.generate.crds import crd_sources, given
from kubewright_cli.commands.generate.writing import check_options, folder_option, write
from kubewright_cli.manifests.generated import changes
from kubewright_cli.project import Project


@click.command("client", short_help="Write a typed client package for some kinds.")
@crd_sources
@click.option("--kinds", metavar="KIND,...", default="", help="Only these kinds.")
@click.option("--name", metavar="NAME", default="", help="Name of the package.  [default: the name of the folder]")
@folder_option
@check_options
def command(
    sources: tuple[Path, ...],
    names: tuple[str, ...],
    kubeconfig: Path | None,
    context: str | None,
    kinds: str,
    name: str,
    folder: Path,
    check: bool,
    verbose: bool,
) -> None:
    """Write a typed client package for the users of some kinds: clientset, informers, listers.

    The package needs kubewright, but not the operator. The kinds are those of this project, or of the
    CustomResourceDefinitions in SOURCES (YAML or JSON files, or folders of them) and in a cluster.

    \b
    Examples:
      kubewright generate client --output clients/fleet-client
      kubewright generate client --kinds Ship,Harbor --output clients/fleet-client
      kubewright generate client --from-cluster certificates.cert-manager.io --output ../certificates-client
    """
    number = "0.1.0"
    if sources or names:
        crds = given(sources, names, kubeconfig, context)
    else:
        project = Project.load()
        crds, number = custom_resource_definitions(project.kinds), project.settings.version
        if not crds:
            raise ConfigError("the project has no kinds; add one, or name files with CustomResourceDefinitions")
    chosen = _chosen(crds, [each for each in kinds.split(",") if each])
    about = Package(_name(name or folder.resolve().name), number, f"kubewright>={version('kubewright')}")
    files = {str(folder / path): text for path, text in package(chosen, about).items()}
    write(changes(Path(), files, folders=[str(folder)]), check=check, verbose=verbose)


def _chosen(crds: list[JSONObject], kinds: Iterable[str]) -> list[JSONObject]:
    known = {crd["spec"]["names"]["kind"] for crd in crds}
    for kind in kinds:
        if kind not in known:
            similar = nearest(kind, known)
            hint = f"did you mean {similar}?" if similar else f"the kinds are {', '.join(sorted(known))}"
            raise click.BadParameter(f"there is no kind {kind}; {hint}", param_hint="--kinds")
    return [crd for crd in crds if not kinds or crd["spec"]["names"]["kind"] in kinds]


def _name(text: str) -> str:
    """Return the name on an index. The name of the import package follows from it."""
    name = re.sub(r"[-_.]+", "-", text).lower()
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise click.BadParameter(f'"{text}" is not a package name; use a name like "fleet-client"', param_hint="--name")
    return name
