"""The rules for a file-based catalog.

Every rule is checked, also those behind the first that is broken. Follows
github.com/operator-framework/operator-registry alpha/declcfg and alpha/model.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from kubewright.machinery import names, yaml
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright_cli.olm.parts import items, mapping, text
from kubewright_cli.olm.semver import Range, Version
from kubewright_cli.olm.validation.bundles import image_problem
from kubewright_cli.olm.validation.finding import Finding, shown

PACKAGE: Final = "olm.package"
CHANNEL: Final = "olm.channel"
BUNDLE: Final = "olm.bundle"
DEPRECATIONS: Final = "olm.deprecations"
_IGNORED: Final = ".indexignore"
_LONGEST_RELEASE: Final = 20
_TYPES: Final[Mapping[str, Mapping[str, type]]] = {
    PACKAGE: {"name": str, "defaultChannel": str, "description": str, "icon": dict, "properties": list},
    CHANNEL: {"name": str, "package": str, "entries": list, "properties": list},
    BUNDLE: {"name": str, "package": str, "image": str, "properties": list, "relatedImages": list},
    DEPRECATIONS: {"package": str, "entries": list},
}
_ENTRY: Final[Mapping[str, type]] = {"name": str, "replaces": str, "skips": list, "skipRange": str}
_VALUES: Final[Mapping[str, Mapping[str, type]]] = {
    "olm.package": {"packageName": str, "version": str, "release": str},
    "olm.package.required": {"packageName": str, "versionRange": str},
    "olm.gvk": {"group": str, "kind": str, "version": str},
    "olm.gvk.required": {"group": str, "kind": str, "version": str},
    "olm.bundle.object": {"data": str},
    "olm.csv.metadata": {},
    "olm.channel": {"channelName": str, "priority": int},
}
"""The types of the values of properties."""
_WORDS: Final = {str: "a text", int: "a number", list: "a list", dict: "a map"}


@dataclass(frozen=True, slots=True)
class Blob:
    """An object of a catalog, and its file."""

    file: str
    data: JSONObject

    def text(self, name: str) -> str:
        return text(self.data.get(name))

    @property
    def schema(self) -> str:
        return self.text("schema")

    @property
    def name(self) -> str:
        return self.text("name")

    @property
    def package(self) -> str:
        return self.text("package")

    @property
    def entries(self) -> list[JSONObject]:
        return items(self.data.get("entries"))

    def finding(self, rule: str, field: str, value: str, problem: str, remedy: str) -> Finding:
        """Return a finding about a field of this object."""
        called = f"{self.schema} {self.package or self.name}{f'/{self.name}' if self.package else ''}"
        return Finding("error", rule, self.file, f"{called}: {field}", value, problem, remedy, suite="catalog")


@dataclass(slots=True)
class Catalog:
    """The objects of a catalog, by schema."""

    packages: list[Blob] = field(default_factory=list[Blob])
    channels: list[Blob] = field(default_factory=list[Blob])
    bundles: list[Blob] = field(default_factory=list[Blob])
    deprecations: list[Blob] = field(default_factory=list[Blob])

    def add(self, blob: Blob) -> None:
        """Add an object. Objects with other schemas are not checked."""
        known = {PACKAGE: self.packages, CHANNEL: self.channels, BUNDLE: self.bundles, DEPRECATIONS: self.deprecations}
        if blob.schema in known:
            known[blob.schema].append(blob)


def check_catalog(folder: Path) -> list[Finding]:
    """Return the findings about a catalog. Raises ConfigError if there is no such folder."""
    catalog, findings = _read(folder)
    return findings or check_objects(catalog)


def load_catalog(folder: Path) -> Catalog:
    """Return the catalog in a folder. Raises ConfigError if there is none, or if it is not valid."""
    catalog, findings = _read(folder)
    if findings := findings or check_objects(catalog):
        raise ConfigError(
            f"{folder} is not a valid catalog: {findings[0]}; `kubewright catalog validate {folder}` lists all findings"
        )
    return catalog


def _read(folder: Path) -> tuple[Catalog, list[Finding]]:
    """Return the objects of a catalog, and what makes some of them unreadable."""
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}; name the folder of a catalog")
    catalog = Catalog()
    findings: list[Finding] = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != _IGNORED and not _is_ignored(folder, path):
            findings += _load(catalog, path, str(path.relative_to(folder)))
    return catalog, findings


def check_documents(documents: Sequence[JSONObject], file: str) -> list[Finding]:
    """Return the findings about the objects of a catalog in one file."""
    catalog = Catalog()
    findings: list[Finding] = []
    for each in documents:
        findings += _check_types(blob := Blob(file, each))
        catalog.add(blob)
    return findings or check_objects(catalog)


def check_objects(catalog: Catalog) -> list[Finding]:
    """Return the findings about objects whose fields have the right types."""
    return [
        *_check_packages(catalog),
        *_check_channels(catalog),
        *_check_bundles(catalog),
        *_check_versions(catalog),
        *_check_deprecations(catalog),
    ]


def _is_ignored(folder: Path, path: Path) -> bool:
    """Return whether a file `.indexignore` in one of the folders above names the file."""
    for above in path.relative_to(folder).parents:
        patterns = folder / above / _IGNORED
        if not patterns.is_file():
            continue
        name = str(path.relative_to(folder / above))
        for line in patterns.read_text().splitlines():
            pattern = line.strip()
            if pattern and not pattern.startswith("#") and _matches(name, pattern):
                return True
    return False


def _matches(name: str, pattern: str) -> bool:
    anchored = "/" in pattern.rstrip("/")
    pattern = pattern.strip("/")
    starts = [name] if anchored else [name, *(name.split("/", each)[-1] for each in range(1, name.count("/") + 1))]
    return any(fnmatch(each, pattern) or fnmatch(each, f"{pattern}/*") for each in starts)


def _load(catalog: Catalog, path: Path, file: str) -> Iterator[Finding]:
    def finding(rule: str, problem: str, remedy: str) -> Finding:
        return Finding("error", rule, file, "", "", problem, remedy, suite="catalog")

    try:
        documents = list(yaml.load_all(path.read_bytes()))
    except DecodeError as error:
        yield finding("unreadable", str(error), f"write objects in YAML or JSON, or name the file in {_IGNORED}")
        return
    for each in documents:
        if not text(each.get("schema")):
            yield finding("schema-missing", "an object has no schema", f"write one of: {', '.join(_TYPES)}")
            continue
        yield from _check_types(blob := Blob(file, each))
        catalog.add(blob)


def _check_types(blob: Blob) -> Iterator[Finding]:
    yield from _type_errors(blob, blob.data, _TYPES.get(blob.schema, {}), "")
    if blob.schema == CHANNEL:
        for place, each in enumerate(blob.entries):
            yield from _type_errors(blob, each, _ENTRY, f"entries[{place}].")
    if blob.schema == PACKAGE and is_object(icon := blob.data.get("icon")):
        try:
            b64decode(text(icon.get("base64data")), validate=True)
        except binascii.Error as error:
            yield blob.finding(
                "icon-data", "icon.base64data", "", f"not base64: {error}", "encode the file of the icon"
            )


def _type_errors(blob: Blob, data: JSONObject, types: Mapping[str, type], prefix: str) -> Iterator[Finding]:
    for name, kind in types.items():
        value = data.get(name)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            word = _WORDS[kind]
            yield blob.finding("type", f"{prefix}{name}", shown(value), f"not {word}", f"write {word}")


# ---- packages and channels


def _check_packages(catalog: Catalog) -> Iterator[Finding]:
    seen: set[str] = set()
    for each in catalog.packages:
        if each.name in seen:
            yield each.finding("package-twice", "name", each.name, "two packages with one name", "remove one of them")
            continue
        seen.add(each.name)
        if wrong := names.dns1123_label(each.name):
            yield each.finding("package-name", "name", each.name, ", ".join(wrong), 'write one like "my-operator"')
        own = [channel.name for channel in catalog.channels if channel.package == each.name]
        default = each.text("defaultChannel")
        if not own:
            yield each.finding("no-channel", "name", each.name, "the package has no channel", "add an olm.channel")
        if not default:
            yield each.finding("default-channel-missing", "defaultChannel", "", "missing", "name one of the channels")
        elif default not in own:
            why = "the package has no such channel"
            yield each.finding("default-channel", "defaultChannel", default, why, f"write one of: {', '.join(own)}")


def _check_channels(catalog: Catalog) -> Iterator[Finding]:
    packages, seen = {each.name for each in catalog.packages}, set[tuple[str, str]]()
    bundles = {(each.package, each.name) for each in catalog.bundles}
    for each in catalog.channels:
        if each.package not in packages:
            yield each.finding(
                "channel-package", "package", each.package, "there is no such package", "add the olm.package"
            )
            continue
        if not each.name:
            yield each.finding("channel-name", "name", "", "missing", "name the channel")
        if (each.package, each.name) in seen:
            yield each.finding("channel-twice", "name", each.name, "two channels with one name", "remove one of them")
        seen.add((each.package, each.name))
        if not each.entries:
            yield each.finding("channel-empty", "entries", "", "no entries", "add an entry for each bundle")
            continue
        yield from _check_entries(each, bundles)
        yield from _check_graph(each)


def _check_entries(channel: Blob, bundles: set[tuple[str, str]]) -> Iterator[Finding]:
    seen: set[str] = set()
    for place, each in enumerate(channel.entries):
        name, path = text(each.get("name")), f"entries[{place}]"
        if name in seen:
            yield channel.finding(
                "entry-twice", f"{path}.name", name, "two entries with one name", "remove one of them"
            )
        seen.add(name)
        if (channel.package, name) not in bundles:
            yield channel.finding("entry-bundle", f"{path}.name", name, "there is no such bundle", "add the olm.bundle")
        if "" in _skips(each):
            yield channel.finding("skip-empty", f"{path}.skips", shown(each["skips"]), "an empty name", "remove it")
        versions = text(each.get("skipRange"))
        if versions and not _is_range(versions):
            why, remedy = "not a range of versions", 'write one like ">=1.0.0 <1.2.0"'
            yield channel.finding("skip-range", f"{path}.skipRange", versions, why, remedy)


def _skips(entry: JSONObject) -> list[str]:
    skips = entry.get("skips")
    return [text(each) for each in skips] if is_array(skips) else []


def _is_range(versions: str) -> bool:
    try:
        Range.parse(versions)
    except ValueError:
        return False
    return True


def _check_graph(channel: Blob) -> Iterator[Finding]:
    """Yield what is wrong with the upgrades: one head, whose chain of replacements reaches every entry."""
    entries = {text(each.get("name")): each for each in channel.entries}
    skipped = {name for each in entries.values() for name in _skips(each)}
    replaced = {text(each.get("replaces")) for each in entries.values()} - {""}
    heads = sorted(entries.keys() - replaced - skipped)
    if len(heads) != 1:
        listed = ", ".join(heads)
        why = "no entry is the newest: each is replaced or skipped" if not heads else "several entries are the newest"
        remedy = "let each entry but one be replaced or skipped by another"
        yield channel.finding("channel-head", "entries", listed, why, remedy)
        return
    chain, current = [heads[0]], heads[0]
    while current in entries:
        before = text(entries[current].get("replaces"))
        if before in skipped:
            break
        if before in chain:
            cycle = " -> ".join([*chain[chain.index(before) :], before])
            yield channel.finding(
                "channel-cycle", "entries", cycle, "the replacements form a cycle", "remove one of them"
            )
            return
        chain.append(before)
        current = before
    if stranded := sorted(entries.keys() - set(chain) - skipped):
        why = f"no upgrade leads from these entries to the newest, {heads[0]}"
        remedy = "let an entry replace or skip them"
        yield channel.finding("channel-stranded", "entries", ", ".join(stranded), why, remedy)


# ---- bundles


def _check_bundles(catalog: Catalog) -> Iterator[Finding]:
    packages, seen = {each.name for each in catalog.packages}, set[tuple[str, str]]()
    for each in catalog.bundles:
        if each.package not in packages:
            why = "there is no such package" if each.package else "missing"
            yield each.finding("bundle-package", "package", each.package, why, "add the olm.package")
            continue
        if (each.package, each.name) in seen:
            yield each.finding("bundle-twice", "name", each.name, "two bundles with one name", "remove one of them")
        seen.add((each.package, each.name))
        channels = [channel for channel in catalog.channels if channel.package == each.package]
        if not any(entry.get("name") == each.name for channel in channels for entry in channel.entries):
            yield each.finding("bundle-channel", "name", each.name, "no channel has the bundle", "add it to a channel")
        yield from _check_images(each)
        yield from _check_properties(each)


def _check_images(bundle: Blob) -> Iterator[Finding]:
    image, remedy = bundle.text("image"), "write registry/name:tag or @sha256:..."
    objects = [each for each in items(bundle.data.get("properties")) if each.get("type") == "olm.bundle.object"]
    if not image and not objects:
        yield bundle.finding("bundle-image", "image", "", "missing", remedy)
    named = {"image": image}
    for place, each in enumerate(items(bundle.data.get("relatedImages"))):
        named[f"relatedImages[{place}].image"] = text(each.get("image"))
    for path, name in named.items():
        if name and (problem := image_problem(name)):
            yield bundle.finding("bundle-image", path, name, problem, remedy)


def _check_properties(bundle: Blob) -> Iterator[Finding]:
    properties = items(bundle.data.get("properties"))
    for place, each in enumerate(properties):
        path, kind, value = f"properties[{place}]", text(each.get("type")), each.get("value")
        if kind in _VALUES and not is_object(value):
            yield bundle.finding(
                "property-value", f"{path}.value", shown(value), "not an object", "write a map of fields"
            )
        elif is_object(value):
            yield from _type_errors(bundle, value, _VALUES.get(kind, {}), f"{path}.value.")
        elif value is None:
            yield bundle.finding("property-value", f"{path}.value", "", "missing", "add the value")
    own = [mapping(each.get("value")) for each in properties if each.get("type") == PACKAGE]
    if len(own) != 1:
        why = f"{len(own)} properties of type {PACKAGE}"
        yield bundle.finding("package-property", "properties", "", why, "write one, with packageName and version")
        return
    yield from _check_package_property(bundle, own[0])


def _check_package_property(bundle: Blob, value: JSONObject) -> Iterator[Finding]:
    path, name, version = f"properties[{PACKAGE}]", text(value.get("packageName")), text(value.get("version"))
    if name != bundle.package:
        why = "not the package of the bundle"
        yield bundle.finding("property-package", f"{path}.packageName", name, why, f'write "{bundle.package}"')
    try:
        parsed = Version.parse(version)
    except ValueError:
        yield bundle.finding(
            "bundle-version", f"{path}.version", version, "not a semantic version", 'write one like "1.2.0"'
        )
        return
    if release := text(value.get("release")):
        yield from _check_release(bundle, f"{path}.release", parsed, release)


def _check_release(bundle: Blob, path: str, version: Version, release: str) -> Iterator[Finding]:
    try:
        Version.parse(f"0.0.0-{release}")
        is_valid = len(release) <= _LONGEST_RELEASE and "+" not in release
    except ValueError:
        is_valid = False
    if not is_valid:
        remedy = f"write identifiers with dots between them, at most {_LONGEST_RELEASE} characters"
        yield bundle.finding("bundle-release", path, release, "not a release", remedy)
        return
    if version.build:
        why = "a version with build metadata can have no release"
        yield bundle.finding("release-build", path, release, why, "remove one of the two")
    right = f"{bundle.package}-v{version}-{release}"
    if bundle.name != right:
        why = "a bundle with a release has the release in its name"
        yield bundle.finding("release-name", "name", bundle.name, why, f'write "{right}"')


def _check_versions(catalog: Catalog) -> Iterator[Finding]:
    seen: dict[tuple[str, str], str] = {}
    for each in catalog.bundles:
        values = (p.get("value") for p in items(each.data.get("properties")) if p.get("type") == PACKAGE)
        value = mapping(next(values, None))
        version = "-".join(filter(None, (text(value.get("version")), text(value.get("release")))))
        other = seen.setdefault((each.package, version), each.name)
        if other != each.name:
            why = f"{other} has the same version"
            yield each.finding(
                "version-twice", f"properties[{PACKAGE}].version", version, why, "remove one of the bundles"
            )


# ---- deprecations


def _check_deprecations(catalog: Catalog) -> Iterator[Finding]:
    packages, seen = {each.name for each in catalog.packages}, set[str]()
    for each in catalog.deprecations:
        if each.package not in packages:
            why = "there is no such package" if each.package else "missing"
            yield each.finding("deprecations-package", "package", each.package, why, "name a package of the catalog")
            continue
        if each.package in seen:
            why = "two objects with deprecations for one package"
            yield each.finding("deprecations-twice", "package", each.package, why, "put all entries into one")
        seen.add(each.package)
        yield from _check_deprecated(catalog, each)


def _check_deprecated(catalog: Catalog, blob: Blob) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for place, each in enumerate(blob.entries):
        reference = mapping(each.get("reference"))
        schema, name, path = text(reference.get("schema")), text(reference.get("name")), f"entries[{place}]"
        if (schema, name) in seen:
            yield blob.finding(
                "deprecation-twice", f"{path}.reference", name, "two entries for one object", "remove one"
            )
        seen.add((schema, name))
        if problem := _reference_problem(catalog, blob.package, schema, name):
            remedy = "name the schema and the object: olm.package (without a name), olm.channel or olm.bundle"
            yield blob.finding("deprecation-reference", f"{path}.reference", name or schema, problem, remedy)
        elif not each.get("message"):
            yield blob.finding("deprecation-message", f"{path}.message", "", "missing", "say what to use instead")


def _reference_problem(catalog: Catalog, package: str, schema: str, name: str) -> str:
    if schema == PACKAGE:
        return "the reference to the package has a name" if name else ""
    known = {CHANNEL: catalog.channels, BUNDLE: catalog.bundles}
    if schema not in known:
        return "missing" if not schema else "not a schema that can be deprecated"
    found = any((each.package, each.name) == (package, name) for each in known[schema])
    return "" if found else f"the package has no such {schema.partition('.')[2]}"
