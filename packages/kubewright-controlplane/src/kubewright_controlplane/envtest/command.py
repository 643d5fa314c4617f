"""`kubewright-controlplane envtest`: where the programs are that envtest starts."""

from __future__ import annotations

from pathlib import Path

import click

from kubewright_controlplane.envtest.assets import assets_folder

_FORMATS = {"path": "{}", "env": "export KUBEBUILDER_ASSETS='{}'"}


@click.command("envtest", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-p",
    "--print",
    "form",
    type=click.Choice(list(_FORMATS)),
    default="path",
    show_default=True,
    help="Print the folder alone, or a line for a shell.",
)
@click.option(
    "--bin-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder to write the programs to, as setup-envtest does: in k8s/VERSION-OS-ARCH.  [default: the user's cache]",
)
def command(form: str, bin_dir: Path | None) -> None:
    """Print the folder for KUBEBUILDER_ASSETS, with kube-apiserver and etcd for suites that use envtest.

    \b
    KUBEBUILDER_ASSETS="$(kubewright-controlplane envtest)" go test ./...

    The programs are the embedded API server, with the flags of the real ones. They start in less than a second, and
    end with the suite.
    """
    click.echo(_FORMATS[form].format(assets_folder(bin_dir)))
