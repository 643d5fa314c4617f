"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from kubewright.client import Config
from kubewright.machinery.errors import ConfigError
from kubewright_cli.manifests.reference import Reference

F = TypeVar("F", bound=Callable[..., object])


def kubeconfig_options(function: F) -> F:
    """`--kubeconfig` and `--context`."""
    context = click.option("--context", help="Context of the kubeconfig.  [default: its current context]")
    kubeconfig = click.option(
        "--kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig file.  [default: $KUBECONFIG]"
    )
    return kubeconfig(context(function))


def config_of(kubeconfig: Path | None, context: str | None) -> Config:
    """Return the configuration that the options of `kubeconfig_options` name."""
    return Config.from_kubeconfig(kubeconfig, context=context) if kubeconfig else Config.load(context=context)


def image_option(function: F) -> F:
    """Add `--image`, which is empty if not given."""
    option = click.option(
        "--image",
        metavar="IMAGE",
        default="",
        callback=_valid_image,
        help="Image of the manager.  [default: from the settings]",
    )
    return option(function)


def _valid_image(_context: click.Context, _option: click.Parameter, image: str) -> str:
    if image:
        try:
            Reference.parse(image)
        except ConfigError as error:
            raise click.BadParameter(str(error)) from None
    return image
