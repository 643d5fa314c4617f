"""`kubewright generate manifests`: write the folder config/."""

from __future__ import annotations

import click

from kubewright.models import custom_resource_definitions
from kubewright_cli.commands.generate.writing import options as options
from kubewright_cli.commands.generate.writing import write
from kubewright_cli.manifests import kustomize, samples
from kubewright_cli.manifests.generated import Change, changes
from kubewright_cli.manifests.versions import lost_fields
from kubewright_cli.project import Project


@click.command("manifests", short_help="Write config/, kustomize folders.")
@options
def command(check: bool, verbose: bool, output: str) -> None:
    """Write config/: the deployment of this project as kustomize folders, in kubebuilder's layout.

    \b
    crd              a CustomResourceDefinition for each kind
    rbac             the manager's role, from what its controllers declare; leader election; metrics; roles
                     for the people who administer, edit or view each kind
    manager          Namespace and Deployment
    default          everything, with namespace and prefix: `kubectl apply --server-side -k config/default`
    prometheus       ServiceMonitor        network-policy   access to the metrics
    samples          an object of each kind, updated until you edit it

    For a project without a Manager (`kinds` in its settings): crd and samples.

    Generated files that are no longer needed are removed. Other files are left alone. Warns of samples that break the
    rules of their types, and of fields that only some versions of a kind have. --check fails for such samples, too.

    \b
    Examples:
      kubewright generate manifests
      kubewright generate manifests --check -v
    """
    generate(check=check, verbose=verbose, output=output)


def generate(*, check: bool, verbose: bool, output: str) -> None:
    """Run the command."""
    project = Project.load()
    folder = project.root / "config" / "samples"
    written, obsolete = samples.planned(project.kinds, folder), samples.obsolete(project.kinds, folder)
    shown = {*samples.present(folder), *written}.difference(obsolete)
    crds = custom_resource_definitions(project.kinds)
    if project.program is None:
        files = kustomize.files_of_kinds(crds, shown)
    else:
        project.require_known_flags()
        files = kustomize.files(project.manifests(), shown)
    files |= {_sample(name): text for name, text in written.items()}
    todo = changes(project.root, files, folders=kustomize.FOLDERS, replaceable={_sample(name) for name in written})
    todo += [Change(folder / name, _sample(name), None) for name in obsolete]
    invalid = list(samples.invalid_samples(project.kinds, folder))
    warnings = [*map(str, lost_fields(crds)), *map(str, invalid)]
    write(todo, check=check, verbose=verbose, output=output, warnings=warnings)
    if check and invalid:
        raise click.ClickException(f"samples that break the rules of their types: {', '.join(_files_of(invalid))}")


def _sample(name: str) -> str:
    return f"config/samples/{name}"


def _files_of(invalid: list[samples.InvalidSample]) -> list[str]:
    return list(dict.fromkeys(_sample(each.file) for each in invalid))
