"""Settings of the bundle and the catalog for OLM: `[tool.kubewright.bundle]` and `[tool.kubewright.catalog]`."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from kubewright.machinery.json import JSONObject

InstallMode: TypeAlias = Literal["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
"""Which namespaces OLM may give to the operator."""

INSTALL_MODES: Final[tuple[InstallMode, ...]] = ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
"""In the order of a ClusterServiceVersion."""


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A person or a team."""

    name: str = ""
    email: str = ""


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A name and an address on the web."""

    name: str = ""
    url: str = ""


class Typed(msgspec.Struct, frozen=True, kw_only=True):
    """A dependency or a property: a type that OLM knows, such as `olm.package`, and its value."""

    type: str
    value: JSONObject | str


class BundleSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """`[tool.kubewright.bundle]`: what a bundle says beyond the program and the deployment."""

    package: str = ""
    """The name of the package; the name of the project by default."""
    channels: tuple[str, ...] = ("stable",)
    """The channels that have this version."""
    default_channel: str = ""
    """The channel that users get if they name none; the first of `channels` by default."""
    display_name: str = ""
    """The name for people; by default made from the name of the project."""
    description_file: str = ""
    """A Markdown file with the long description; the description of the project by default."""
    icon: str = ""
    """A file with the icon: GIF, JPEG, PNG or SVG."""
    maintainers: tuple[Person, ...] = ()
    """By default the maintainers or authors of the project that have a name and an email address."""
    provider: Link | None = None
    """Who publishes the operator; by default the first maintainer."""
    links: tuple[Link, ...] = ()
    """By default the URLs of the project."""
    keywords: tuple[str, ...] = ()
    """By default the keywords of the project."""
    categories: tuple[str, ...] = ()
    """The categories of OperatorHub, such as `"Database"`."""
    maturity: str = ""
    """For example `"alpha"` or `"stable"`."""
    repository: str = ""
    """The address of the source code."""
    support: str = ""
    """Who supports the operator."""
    min_kube_version: str = "1.30.0"
    """The oldest version of Kubernetes; by default the oldest that Kubewright supports."""
    install_modes: tuple[InstallMode, ...] = ()
    """The supported install modes; by default those that the program can work in."""
    replaces: str = ""
    """The name of the bundle that this one replaces: `<package>.v<version>`."""
    skips: tuple[str, ...] = ()
    """The names of bundles that upgrades skip."""
    skip_range: str = ""
    """The versions that upgrade to this one directly, such as `">=1.0.0 <1.2.0"`."""
    related_images: dict[str, str] = {}
    """Images by name, in addition to those of the Deployment and of its variables `RELATED_IMAGE_*`."""
    optional_kinds: tuple[str, ...] = ()
    """Third-party CRDs that the operator works without: OLM does not require them."""
    manifests: tuple[str, ...] = ()
    """Files with further objects, such as a PrometheusRule or a PodDisruptionBudget; patterns like
    `config/olm/*.yaml`."""
    dependencies: tuple[Typed, ...] = ()
    """What OLM installs or finds before: `metadata/dependencies.yaml`."""
    properties: tuple[Typed, ...] = ()
    """`metadata/properties.yaml`."""
    annotations: dict[str, str] = {}
    """Further annotations of the ClusterServiceVersion."""
    labels: dict[str, str] = {}
    """Labels of the ClusterServiceVersion."""


class CatalogSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """`[tool.kubewright.catalog]`: the file-based catalog of the released bundles."""

    bundles: tuple[str, ...] = ("bundles/*",)
    """Folders with released bundles; patterns. The current `bundle` is always part of the catalog."""
    image: str = ""
    """The image of a bundle, with `{version}` in it; `<image of the manager>-bundle:v{version}` by default."""
