"""`kubewright create webhook`: add webhooks for an existing kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from kubewright.models import Object
from kubewright.webhooks._names import path_error
from kubewright_cli import console
from kubewright_cli.asking import Name, not_here, required
from kubewright_cli.commands.create.writing import say_next, write
from kubewright_cli.project import Project, load_class
from kubewright_cli.scaffold import webhooks
from kubewright_cli.scaffold.kinds import refuse_existing, reviewed_version, spokes_of, third_party_kind
from kubewright_cli.scaffold.names import kind_errors, version_errors
from kubewright_cli.scaffold.record import Record, Resource, Webhooks, built_in, project_root


def _path_errors(path: str) -> list[str]:
    return [error] if (error := path_error(path)) else []


@click.command("webhook")
@click.option(
    "--group",
    default="",
    help="API group. For kinds of this project, without the domain.  [default: that of the kind]",
)
@click.option(
    "--version",
    type=Name(version_errors),
    help="Version of the kind: that of the reviewed objects, and the hub of a conversion.  [default: the version "
    "that has webhooks, or the stored one; for a conversion, the stored one]",
)
@click.option("--kind", type=Name(kind_errors), help="The kind.")
@click.option("--defaulting", is_flag=True, help="Write a defaulter, which changes objects before they are stored.")
@click.option("--programmatic-validation", is_flag=True, help="Write a validator, which refuses objects.")
@click.option("--conversion", is_flag=True, help="Write a conversion between the versions of the kind.")
@click.option(
    "--spoke",
    "spokes",
    metavar="VERSION,...",
    multiple=True,
    help="With --conversion: a version to convert to and from. May be repeated.  [default: all other versions]",
)
@click.option("--defaulting-path", metavar="PATH", type=Name(_path_errors), help="URL path of the defaulter.")
@click.option("--validation-path", metavar="PATH", type=Name(_path_errors), help="URL path of the validator.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@not_here("--make", "`make manifests` generates files; omit the option")
@not_here("--plural", "the plural is that of the kind; omit the option")
@click.option(
    "--external-api-path",
    "module",
    metavar="MODULE",
    default="",
    help="For a third-party kind: the module of its class, as `kubewright generate models` writes it.",
)
@not_here("--external-api-domain", "the class says which group it has; omit the option")
def command(
    group: str,
    version: str | None,
    kind: str | None,
    defaulting: bool,
    programmatic_validation: bool,
    conversion: bool,
    spokes: tuple[str, ...],
    defaulting_path: str | None,
    validation_path: str | None,
    module: str,
    force: bool,
) -> None:
    """Add webhooks for an existing kind of this project, of Kubernetes or of another project.

    Writes functions to edit and their tests, and adds them to the Manager, with a certificate. Run it again to add
    others: your edits stay.

    \b
    Examples:
      kubewright create webhook --kind WebServer --defaulting --programmatic-validation
      kubewright create webhook --version v1 --kind WebServer --conversion --spoke v1alpha1
      kubewright create webhook --group core --version v1 --kind Pod --programmatic-validation
      kubewright create webhook --kind Certificate --defaulting --external-api-path my_operator.apis.cert_manager_io_v1
    """
    root = project_root()
    record = Record.load(root)
    kind = required("--kind", kind, "What kind", kind_errors)
    if not (defaulting or programmatic_validation or conversion):
        raise click.UsageError("nothing to write; pass --defaulting, --programmatic-validation or --conversion")
    _refuse_alone("--spoke", spokes, "--conversion", conversion)
    _refuse_alone("--defaulting-path", defaulting_path, "--defaulting", defaulting)
    _refuse_alone("--validation-path", validation_path, "--programmatic-validation", programmatic_validation)
    if module:
        resource = third_party_kind(record, group, version, load_class(root, module, kind), module)
    else:
        resource = reviewed_version(root, record, group, version, kind, conversion=conversion)
    others = [each for each in record.versions_of(resource.group, kind) if each.api and each != resource]
    asked = Webhooks(
        defaulting,
        programmatic_validation,
        spokes_of(resource, others, spokes) if conversion else (),
        defaulting_path or "",
        validation_path or "",
    )
    if not force:
        refuse_existing(record, [resource, *others], resource, asked)
    _create_webhooks(root, record, resource, asked, force=force)


def _refuse_alone(option: str, given: object, needed: str, has_needed: bool) -> None:
    """Raise UsageError for an option that means nothing without another one."""
    if given and not has_needed:
        raise click.UsageError(f"{option} needs {needed}")


def _create_webhooks(root: Path, record: Record, resource: Resource, asked: Webhooks, *, force: bool) -> None:
    kinds = Project.load(root).kinds if asked.spokes else _declared_elsewhere(root, resource)
    addition = webhooks.webhook(root, record, resource, asked, kinds, force=force)
    write(addition.changes, addition.by_hand, force=force)
    if addition.missing:
        place = webhooks.module_file(record, resource, "conversion")
        console.warn(
            f"write the conversion of these fields in {place}, which the other version lacks or has with another "
            f"type: {'; '.join(addition.missing)}. Until then, type checkers report the calls that lack them"
        )
    say_next("the functions and their tests")


def _declared_elsewhere(root: Path, resource: Resource) -> Sequence[type[Object]]:
    """Return the class of a kind of Kubernetes or of another project."""
    if resource.external:
        return [load_class(root, resource.path, resource.kind)]
    found = None if resource.api else built_in(resource.group, resource.version, resource.kind)
    return [] if found is None else [found]
