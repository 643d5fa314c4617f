"""`kubewright image`: build and push an OCI image of the project, without a container engine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import click

from kubewright.machinery.errors import ConfigError
from kubewright_cli import console
from kubewright_cli.image.bases import find_base
from kubewright_cli.image.build import Base, Built, Plan, build
from kubewright_cli.image.content import Descriptor, Platform
from kubewright_cli.image.credentials import credentials_for
from kubewright_cli.image.imports import missing_requirements
from kubewright_cli.image.layout import Layout
from kubewright_cli.image.project import ImageProject
from kubewright_cli.image.registry import Registry, megabytes
from kubewright_cli.manifests.reference import Reference
from kubewright_cli.manifests.settings import Settings
from kubewright_cli.project import find_root

_LAYOUT: Final = Path("dist", "image")


@click.group("image", no_args_is_help=True)
def command() -> None:
    """Build and push an OCI image of this project, without a container engine.

    \b
    Examples:
      kubewright image build --image registry.example.com/team/web-operator:v1
      kubewright image push --image registry.example.com/team/web-operator:v1
    """


_image = click.option("--image", metavar="NAME", help="Name of the image.  [default: tool.kubewright.image]")
_plain_http = click.option("--plain-http", is_flag=True, help="Connect to registries without TLS.")


@command.command("build")
@_image
@click.option("--base", metavar="NAME", help="Base image, or oci:FOLDER.  [default: python:3.14-slim]")
@click.option("--platform", "platforms", multiple=True, metavar="OS/ARCH", help="linux/amd64, linux/arm64, or both.")
@click.option("--python", metavar="VERSION", help="Python of the base (3.14), if the base does not declare it.")
@click.option(
    "--find-links",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of wheels to use before any index.",
)
@click.option("--archive", type=click.Path(path_type=Path, dir_okay=False), help="Also write the image as a tar file.")
@_plain_http
@console.output_option
def build_command(
    image: str | None,
    base: str | None,
    platforms: tuple[str, ...],
    python: str | None,
    find_links: tuple[Path, ...],
    archive: Path | None,
    plain_http: bool,
    output: str,
) -> None:
    """Build the image of this project into dist/image, an OCI image layout.

    The requirements are a separate layer. They come from pylock.toml, requirements.lock, requirements.txt or uv.lock,
    else from pyproject.toml. Wheels that are on no index come from the folders of --find-links, or of find-links in
    the settings. The same base, requirements and sources produce the same image, byte for byte.

    \b
    Examples:
      kubewright image build
      kubewright image build --base gcr.io/distroless/python3-debian12 --python 3.11
      kubewright image build --platform linux/amd64 --platform linux/arm64 --archive image.tar
    """
    project = ImageProject.read(find_root())
    settings = project.settings.build
    name = Reference.parse(image or project.settings.image)
    wanted = tuple(Platform.parse(each) for each in platforms or settings.platforms)
    for missing in missing_requirements(project):
        console.warn(str(missing))
    with console.progress("Finding the base") as step:
        found = asyncio.run(find_base(base or settings.base, wanted, step, plain_http=plain_http))
        plan = Plan(
            project=project,
            base=found,
            name=name,
            platforms=wanted,
            python=python or settings.python,
            find_links=find_links or tuple(project.root / each for each in settings.find_links),
        )
        layout = Layout(project.root / _LAYOUT)
        built_image, built = build(plan, layout, step)
        if archive is not None:
            step(f"Writing {archive}")
            layout.archive(archive)
    if output == "json":
        console.document(_document(name, built_image, found, built))
    else:
        _report(name, built_image, found, built, archive)


@command.command("push")
@_image
@_plain_http
@console.output_option
def push_command(image: str | None, plain_http: bool, output: str) -> None:
    """Push the built image to its registry.

    Uses the credentials of `docker login` and `podman login`. Skips blobs that the registry already has.

    \b
    Examples:
      kubewright image push
      kubewright image push --image localhost:5000/web-operator:v1
    """
    root = find_root()
    name = Reference.parse(image or Settings.read(root / "pyproject.toml").image)
    layout = Layout(root / _LAYOUT)
    if not layout.root.is_dir():
        raise ConfigError(f"{layout.root} does not exist; build the image first: kubewright image build")
    built = layout.images[0]
    with console.progress(f"Pushing to {name}") as step:
        asyncio.run(_push(built, name, layout, step, plain_http=plain_http))
    if output == "json":
        console.document({"image": str(name), "digest": built.digest})
    else:
        console.say(f"Pushed {console.strong(str(name))} ({built.digest})")


async def _push(
    built: Descriptor, name: Reference, layout: Layout, step: console.Progress, *, plain_http: bool
) -> None:
    async with Registry(name.registry, credentials_for(name.registry), plain_http=plain_http) as registry:
        await registry.push(built, name, layout, step)


def _report(name: Reference, image: Descriptor, base: Base, built: list[Built], archive: Path | None) -> None:
    console.say(f"Base   {base.name}")
    console.table(
        ["PLATFORM", "PYTHON", "BASE", "REQUIREMENTS", "PROGRAM"],
        [
            [str(one.platform), one.python, *map(megabytes, (one.base_size, one.packages_size, one.source_size))]
            for one in built
        ],
    )
    for one in built:
        if not one.has_bytecode:
            console.warn(f"Python {one.python} is not installed, so the program is not compiled and starts slowly")
    console.say(f"Image  {console.strong(str(name))} ({image.digest})")
    console.say(f"       in {_LAYOUT}" + (f" and {archive}" if archive else "") + "; `kubewright image push` pushes it")


def _document(name: Reference, image: Descriptor, base: Base, built: list[Built]) -> dict[str, object]:
    return {
        "image": str(name),
        "digest": image.digest,
        "base": base.name,
        "platforms": [
            {
                "platform": str(one.platform),
                "python": one.python,
                "digest": one.image.digest,
                "bytes": {"base": one.base_size, "requirements": one.packages_size, "program": one.source_size},
                "bytecode": one.has_bytecode,
            }
            for one in built
        ],
    }
