"""A file-based catalog for OLM: the package, its channels with their upgrade graph, and its bundles.

The bundles are the released ones, in folders, and the current one. A channel has each bundle whose annotations name
it. Upgrades are those that the ClusterServiceVersions state; a bundle that states none replaces the one with the next
lower version in the channel.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright_cli.manifests.generated import HEADER
from kubewright_cli.manifests.settings import Settings
from kubewright_cli.manifests.workload import image_parts
from kubewright_cli.olm.bundle import FOLDER as BUNDLE
from kubewright_cli.olm.bundle import LABELS
from kubewright_cli.olm.parts import items, mapping, text
from kubewright_cli.olm.semver import Version
from kubewright_cli.olm.serviceversion import KIND, package_of
from kubewright_cli.olm.validation.catalogs import check_documents

FOLDER: Final = "catalog"
DOCKERFILE: Final = "catalog.Dockerfile"
_METADATA: Final = {
    "apiServiceDefinitions": "apiservicedefinitions",
    "crdDescriptions": "customresourcedefinitions",
    "description": "description",
    "displayName": "displayName",
    "installModes": "installModes",
    "keywords": "keywords",
    "links": "links",
    "maintainers": "maintainers",
    "maturity": "maturity",
    "minKubeVersion": "minKubeVersion",
    "nativeAPIs": "nativeAPIs",
    "provider": "provider",
}
"""The fields of the property `olm.csv.metadata`, and where a ClusterServiceVersion has them."""


@dataclass(frozen=True, slots=True)
class ReleasedBundle:
    """A bundle in a folder."""

    folder: str
    csv: JSONObject
    annotations: Mapping[str, str]
    dependencies: Sequence[JSONObject]
    properties: Sequence[JSONObject]

    @classmethod
    def read(cls, folder: Path, shown: str) -> ReleasedBundle:
        """Read a bundle. Raises ConfigError if the folder has none."""
        paths = [each for each in sorted((folder / "manifests").glob("*.y*ml")) if each.is_file()]
        versions = [each for each in map(_read, paths) if each.get("kind") == KIND]
        if len(versions) != 1:
            raise ConfigError(
                f"{shown}: a bundle has one ClusterServiceVersion in manifests, and this has {len(versions)}"
            )
        metadata = folder / "metadata"
        annotations = _optional(metadata / "annotations.yaml").get("annotations")
        if not is_object(annotations):
            raise ConfigError(f"{shown}: metadata/annotations.yaml has no annotations; it names package and channels")
        dependencies = items(_optional(metadata / "dependencies.yaml").get("dependencies"))
        properties = items(_optional(metadata / "properties.yaml").get("properties"))
        return cls(
            shown, versions[0], {key: str(value) for key, value in annotations.items()}, dependencies, properties
        )

    @property
    def name(self) -> str:
        """The name of the ClusterServiceVersion."""
        return str(self.csv["metadata"]["name"])

    @property
    def spec(self) -> JSONObject:
        spec: JSONObject = self.csv.get("spec") or {}
        return spec

    @property
    def version(self) -> Version:
        """Raises ConfigError if it is not a semantic version."""
        try:
            return Version.parse(str(self.spec.get("version")))
        except ValueError as error:
            raise ConfigError(f"{self.folder}: spec.version of {self.name}: {error}") from error

    @property
    def package(self) -> str:
        return self.annotations.get(f"{LABELS}package.v1", "")

    @property
    def channels(self) -> list[str]:
        return [each.strip() for each in self.annotations.get(f"{LABELS}channels.v1", "").split(",") if each.strip()]

    @property
    def default_channel(self) -> str:
        return self.annotations.get(f"{LABELS}channel.default.v1", "")

    @property
    def skip_range(self) -> str:
        return text(mapping(self.csv["metadata"].get("annotations")).get("olm.skipRange"))


def files(settings: Settings, root: Path) -> dict[str, str]:
    """Return the files of the catalog by path. Raises ConfigError for bundles that make no valid catalog."""
    bundles = sorted(_bundles(settings, root), key=lambda each: each.version)
    package = package_of(settings)
    _require_one_package(bundles, package)
    current = bundles[-1]
    channels = {name: [each for each in bundles if name in each.channels] for each in bundles for name in each.channels}
    default = current.default_channel or next(iter(current.channels), "")
    if default not in channels:
        raise ConfigError(
            f'{current.folder}: the default channel "{default}" has no bundles; its channels: {[*channels]}'
        )
    head: JSONObject = {"schema": "olm.package", "name": package, "defaultChannel": default}
    if icon := next(iter(current.spec.get("icon") or ()), None):
        head["icon"] = {"base64data": icon["base64data"], "mediatype": icon["mediatype"]}
    if description := current.spec.get("description"):
        head["description"] = description
    documents = [head, *(_channel(package, name, channels[name]) for name in sorted(channels))]
    documents += [_bundle(each, settings) for each in bundles]
    path = f"{FOLDER}/{package}/catalog.yaml"
    if findings := check_documents(documents, path):
        raise ConfigError(f"the bundles make no valid catalog: {'; '.join(map(str, findings))}")
    # OLM reads a comment before the first separator as an empty document.
    body = yaml.dump(*documents).removeprefix("---\n")
    return {path: f"{HEADER}\n{body}", DOCKERFILE: _dockerfile()}


def _bundles(settings: Settings, root: Path) -> Iterator[ReleasedBundle]:
    folders = {
        path for pattern in settings.catalog.bundles for path in root.glob(pattern) if (path / "manifests").is_dir()
    }
    for path in [*sorted(folders - {root / BUNDLE}), root / BUNDLE]:
        if not (path / "manifests").is_dir():
            raise ConfigError(f"there is no folder {BUNDLE}; `kubewright generate bundle` writes it")
        yield ReleasedBundle.read(path, str(path.relative_to(root)))


def _require_one_package(bundles: Sequence[ReleasedBundle], package: str) -> None:
    seen: dict[str, str] = {}
    for each in bundles:
        if each.package != package:
            raise ConfigError(f'{each.folder}: the package of the bundle is "{each.package}", and not "{package}"')
        version = str(each.version)
        if version in seen:
            raise ConfigError(
                f"{each.folder}: {seen[version]} has version {version}, too; raise the version of the project, or "
                "remove one of the bundles"
            )
        seen[version] = each.folder


def _channel(package: str, name: str, bundles: Sequence[ReleasedBundle]) -> JSONObject:
    entries = [_entry(each, bundles[:place]) for place, each in enumerate(bundles)]
    return {"schema": "olm.channel", "name": name, "package": package, "entries": entries}


def _entry(bundle: ReleasedBundle, before: Sequence[ReleasedBundle]) -> JSONObject:
    entry: JSONObject = {"name": bundle.name}
    stated = {
        "replaces": bundle.spec.get("replaces"),
        "skips": bundle.spec.get("skips"),
        "skipRange": bundle.skip_range,
    }
    entry |= {key: value for key, value in stated.items() if value}
    kept = [each.name for each in before if each.name not in entry.get("skips", ())]
    if "replaces" not in entry and kept:
        entry["replaces"] = kept[-1]
    return entry


def _bundle(bundle: ReleasedBundle, settings: Settings) -> JSONObject:
    image = _image(bundle, settings)
    return {
        "schema": "olm.bundle",
        "name": bundle.name,
        "package": bundle.package,
        "image": image,
        "properties": [*properties_of(bundle), {"type": "olm.csv.metadata", "value": _csv_metadata(bundle)}],
        "relatedImages": _related_images(bundle, image),
    }


def _image(bundle: ReleasedBundle, settings: Settings) -> str:
    name, _, _ = image_parts(settings.image)
    pattern = settings.catalog.image or f"{name}-bundle:v{{version}}"
    return pattern.replace("{version}", str(bundle.version).replace("+", "-"))


def properties_of(bundle: ReleasedBundle) -> list[JSONObject]:
    """Return the properties of a bundle, without `olm.csv.metadata`."""
    kinds: JSONObject = bundle.spec.get("customresourcedefinitions") or {}
    found = [{"type": "olm.package", "value": {"packageName": bundle.package, "version": str(bundle.spec["version"])}}]
    found += [{"type": "olm.gvk", "value": each} for each in _kinds(kinds.get("owned"))]
    found += [{"type": "olm.gvk.required", "value": each} for each in _kinds(kinds.get("required"))]
    found += [_requirement(each) for each in bundle.dependencies]
    found += [{"type": each["type"], "value": each["value"]} for each in bundle.properties]
    unique = {json.dumps(each, sort_keys=True): each for each in found}
    return sorted(unique.values(), key=lambda each: (each["type"], json.dumps(each["value"], sort_keys=True)))


def _kinds(described: object) -> Iterator[JSONObject]:
    for each in described if is_array(described) else ():
        group = each["name"].partition(".")[2]
        yield {"group": group, "kind": each["kind"], "version": each["version"]}


def _requirement(dependency: JSONObject) -> JSONObject:
    kind, value = dependency["type"], dependency["value"]
    value = json.loads(value) if isinstance(value, str) else value
    if kind == "olm.package":
        value = {"packageName": value["packageName"], "versionRange": value["version"]}
        return {"type": "olm.package.required", "value": value}
    if kind == "olm.gvk":
        return {"type": "olm.gvk.required", "value": {key: value[key] for key in ("group", "kind", "version")}}
    return {"type": kind, "value": value}


def _csv_metadata(bundle: ReleasedBundle) -> JSONObject:
    found = {key: bundle.spec[field] for key, field in _METADATA.items() if bundle.spec.get(field)}
    metadata = bundle.csv["metadata"]
    found |= {key: metadata[key] for key in ("annotations", "labels") if metadata.get(key)}
    return {key: found[key] for key in sorted(found)}


def _related_images(bundle: ReleasedBundle, image: str) -> list[JSONObject]:
    found = {text(each.get("image")): text(each.get("name")) for each in items(bundle.spec.get("relatedImages"))}
    found.setdefault(image, "")
    strategy = mapping(mapping(bundle.spec.get("install")).get("spec"))
    for deployment in items(strategy.get("deployments")):
        pod = mapping(mapping(mapping(deployment.get("spec")).get("template")).get("spec"))
        for container in (*items(pod.get("initContainers")), *items(pod.get("containers"))):
            found.setdefault(text(container.get("image")), "")
    return [{"name": name, "image": each} for each, name in sorted(found.items())]


def _dockerfile() -> str:
    label = "LABEL operators.operatorframework.io.index.configs.v1=/configs"
    return f"{HEADER}\nFROM scratch\n\n{label}\n\nCOPY {FOLDER} /configs\n"


def _read(path: Path) -> JSONObject:
    try:
        return yaml.load(path.read_text())
    except (OSError, UnicodeDecodeError, DecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _optional(path: Path) -> JSONObject:
    return _read(path) if path.is_file() else {}
