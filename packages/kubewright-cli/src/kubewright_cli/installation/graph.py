"""Upgrade paths: which bundle may follow which, and the steps from one to another in a catalog.

A bundle follows another one if it replaces or skips it, or if its skipRange contains the other's version. Follows
operator-controller internal/operator-controller/catalogmetadata/filter (SuccessorsOf).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject, is_array
from kubewright_cli.installation.source import InstallableBundle
from kubewright_cli.olm.parts import items, mapping, text
from kubewright_cli.olm.semver import Range, Version
from kubewright_cli.olm.validation.catalogs import PACKAGE, Blob, Catalog


@dataclass(frozen=True, slots=True)
class Release:
    """A bundle in the upgrade graph."""

    name: str
    version: Version
    replaces: str = ""
    skips: Sequence[str] = ()
    skip_range: str = ""
    image: str = ""

    def follows(self, name: str, version: Version) -> bool:
        """Return whether the bundle `name` can be upgraded to this one directly."""
        if name in (self.replaces, *self.skips):
            return True
        return bool(self.skip_range) and version in Range.parse(self.skip_range)


def release_of(bundle: InstallableBundle) -> Release:
    """Return what a bundle itself says about its upgrades."""
    spec = bundle.spec
    return Release(
        bundle.name, bundle.version, text(spec.get("replaces")), _texts(spec.get("skips")), bundle.released.skip_range
    )


def require_edge(bundle: InstallableBundle, name: str, version: Version) -> None:
    """Raise ConfigError if the bundle `name` cannot be upgraded to `bundle` directly."""
    release = release_of(bundle)
    try:
        if release.follows(name, version):
            return
    except ValueError as error:
        raise ConfigError(
            f'{bundle.name}: olm.skipRange: {error}; correct it in the bundle, for example ">=1.0.0 <1.2.0"'
        ) from error
    if release.version < version:
        raise ConfigError(
            f"{name} is installed, and {bundle.name} is older; an upgrade goes forward only. To go back, remove the "
            "installed one with `kubewright bundle cleanup`, and install the older one with `kubewright bundle run`"
        )
    states = [f"replaces {release.replaces}" if release.replaces else "replaces nothing"]
    states += [f"skips {', '.join(release.skips)}"] if release.skips else []
    states += [f'has olm.skipRange "{release.skip_range}"'] if release.skip_range else []
    raise ConfigError(
        f"{name} is installed, and {bundle.name} does not follow it directly: it {', '.join(states)}. Upgrade step by "
        "step: `kubewright bundle upgrade --catalog FOLDER` finds the steps; or let the new bundle replace the "
        "installed one (replaces, skips or skip-range in [tool.kubewright.bundle])"
    )


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel of a catalog."""

    package: str
    name: str
    releases: Mapping[str, Release]

    @classmethod
    def of(cls, catalog: Catalog, package: str, channel: str = "") -> Channel:
        """Return a channel of a package; by default its default channel. Raises ConfigError if there is none."""
        head = next((each for each in catalog.packages if each.name == package), None)
        if head is None:
            known = ", ".join(each.name for each in catalog.packages)
            raise ConfigError(f"the catalog has no package {package}, only {known}")
        channels = {each.name: each for each in catalog.channels if each.package == package}
        wanted = channel or head.text("defaultChannel")
        if wanted not in channels:
            raise ConfigError(f"package {package} has no channel {wanted}, only {', '.join(sorted(channels))}")
        bundles = {each.name: each for each in catalog.bundles if each.package == package}
        return cls(package, wanted, dict(_releases(channels[wanted], bundles)))

    @property
    def head(self) -> Release:
        """The newest release: the one that no other replaces or skips."""
        older = {name for each in self.releases.values() for name in (each.replaces, *each.skips)}
        return next(each for name, each in self.releases.items() if name not in older)

    def find(self, wanted: str) -> Release:
        """Return a release by its name or version; the newest for an empty text. Raises ConfigError."""
        if not wanted:
            return self.head
        found = next((each for each in self.releases.values() if wanted in (each.name, str(each.version))), None)
        if found is None:
            versions = ", ".join(str(each) for each in sorted(one.version for one in self.releases.values()))
            raise ConfigError(f"channel {self.name} of {self.package} has no version {wanted}, only {versions}")
        return found

    def path(self, name: str, version: Version, target: Release) -> list[Release]:
        """Return the steps from an installed bundle to the target: each the newest release that leads there.

        Raises ConfigError if there is no way.
        """
        found: list[Release] = []
        while name != target.name:
            step = self._step(name, version, target, {each.name for each in found})
            if step is None:
                raise ConfigError(
                    f"no upgrade leads from {name} to {target.name} in channel {self.name} of {self.package}; choose "
                    "another channel with --channel, or an intermediate version with --to"
                )
            found.append(step)
            name, version = step.name, step.version
        return found

    def _step(self, name: str, version: Version, target: Release, seen: set[str]) -> Release | None:
        leading = self._leading_to(target)
        able = [
            each
            for each in self.releases.values()
            if each.name in leading and each.name not in seen and each.name != name and each.follows(name, version)
        ]
        return max(able, key=lambda each: each.version, default=None)

    def _leading_to(self, target: Release) -> set[str]:
        """Return the names of the releases from which the target can be reached, itself included."""
        found, new = {target.name}, [target]
        while new:
            upgrade = new.pop()
            for each in self.releases.values():
                if each.name not in found and upgrade.follows(each.name, each.version):
                    found.add(each.name)
                    new.append(each)
        return found


def _releases(channel: Blob, bundles: Mapping[str, Blob]) -> Iterator[tuple[str, Release]]:
    for each in channel.entries:
        name = text(each.get("name"))
        bundle = bundles[name]
        yield (
            name,
            Release(
                name,
                _version(bundle),
                text(each.get("replaces")),
                _texts(each.get("skips")),
                text(each.get("skipRange")),
                bundle.text("image"),
            ),
        )


def _version(bundle: Blob) -> Version:
    properties = items(bundle.data.get("properties"))
    value: JSONObject = next(mapping(each.get("value")) for each in properties if each.get("type") == PACKAGE)
    return Version.parse(text(value.get("version")))


def _texts(value: object) -> list[str]:
    return [text(each) for each in value] if is_array(value) else []
