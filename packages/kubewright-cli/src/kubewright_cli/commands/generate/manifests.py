"""`kubewright generate manifests`: write the folder config/."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from kubewright.machinery.json import JSONObject
from kubewright.models import custom_resource_definitions
from kubewright_cli.commands.generate.released import released_crds, released_option
from kubewright_cli.commands.generate.writing import options as check_options
from kubewright_cli.commands.generate.writing import write
from kubewright_cli.manifests import kustomize, samples
from kubewright_cli.manifests.crd_changes import BreakingChange, breaking_changes
from kubewright_cli.manifests.generated import Change, changes
from kubewright_cli.manifests.versions import LostFields, lost_fields, require_conversions
from kubewright_cli.project import Project

F = TypeVar("F", bound=Callable[..., object])


def options(function: F) -> F:
    """Add the options of `generate`."""
    return check_options(released_option(function))


@click.command("manifests", short_help="Write config/, kustomize folders.")
@options
def command(check: bool, verbose: bool, output: str, released: str) -> None:
    """Write config/: the deployment of this project as kustomize folders, in kubebuilder's layout.

    \b
    crd              a CustomResourceDefinition for each kind
    rbac             the manager's role, from what its controllers declare; leader election; metrics; roles
                     for the people who administer, edit or view each kind
    manager          Namespace and Deployment
    webhook          webhook configurations and their Service (certmanager: their certificate)
    policy           admission policies and their bindings
    replacements     transformers for overlays that set a namespace or a prefix
    default          everything, with namespace and prefix: `kubectl apply --server-side -k config/default`
    prometheus       ServiceMonitor        network-policy   access to the metrics
    samples          an object of each kind, updated until you edit it

    For a project without a Manager (`kinds` in its settings): crd and samples.

    Generated files that are no longer needed are removed. Other files are left alone. Warns of samples that break the
    rules of their types; --check fails for such samples. Fails if a served version of a kind lacks fields of another,
    and no Conversion converts them.

    With --check, compares the CRDs with those of the last release, which --released or the setting `released` names.
    Fails if a change breaks the users of that release, and prints a way out for each change.

    \b
    Examples:
      kubewright generate manifests
      kubewright generate manifests --check -v
      kubewright generate manifests --check --released v1.2.0
    """
    generate(check=check, verbose=verbose, output=output, released=released)


def generate(*, check: bool, verbose: bool, output: str, released: str) -> None:
    """Run the command."""
    if released and not check:
        raise click.UsageError("--released compares without writing; add --check")
    project = Project.load()
    folder = project.root / "config" / "samples"
    written, obsolete = samples.planned(project.kinds, folder), samples.obsolete(project.kinds, folder)
    shown = {*samples.present(folder), *written}.difference(obsolete)
    crds = custom_resource_definitions(project.kinds)
    lost: list[LostFields] = []
    if project.program is None:
        lost = lost_fields(crds)
        files = kustomize.files_of_kinds(crds, shown)
    else:
        require_conversions(project.program, crds)
        project.require_known_flags()
        files = kustomize.files(project.manifests(), shown)
    files |= {_sample(name): text for name, text in written.items()}
    todo = changes(project.root, files, folders=kustomize.FOLDERS, replaceable={_sample(name) for name in written})
    todo += [Change(folder / name, _sample(name), None) for name in obsolete]
    invalid = list(samples.invalid_samples(project.kinds, folder))
    warnings = [*map(str, lost), *map(str, invalid)]
    breaking = _breaking(project, released, crds) if check else []
    write(todo, check=check, verbose=verbose, output=output, warnings=warnings, breaking=breaking)
    if check and invalid:
        raise click.ClickException(f"samples that break the rules of their types: {', '.join(_files_of(invalid))}")


def _sample(name: str) -> str:
    return f"config/samples/{name}"


def _breaking(project: Project, released: str, crds: list[JSONObject]) -> list[BreakingChange]:
    released = released or project.settings.released
    return breaking_changes(released_crds(project.root, released), crds) if released else []


def _files_of(invalid: list[samples.InvalidSample]) -> list[str]:
    return list(dict.fromkeys(_sample(each.file) for each in invalid))
