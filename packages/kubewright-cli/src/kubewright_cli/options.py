"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from kubewright.client._config import Config

F = TypeVar("F", bound=Callable[..., object])


def kubeconfig_options(function: F) -> F:
    """`--kubeconfig` and `--context`."""
    context = click.option("--context", help="Context of the kubeconfig to use, instead of its current one.")
    kubeconfig = click.option(
        "--kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig to use, instead of $KUBECONFIG."
    )
    return kubeconfig(context(function))


def config_of(kubeconfig: Path | None, context: str | None) -> Config:
    """What the options of `kubeconfig_options` mean."""
    return Config.from_kubeconfig(kubeconfig, context=context) if kubeconfig else Config.load(context=context)


def image_option(function: F) -> F:
    """`--image`: empty where none is named."""
    option = click.option("--image", metavar="IMAGE", default="", help="Of the manager, instead of the settings' own.")
    return option(function)
