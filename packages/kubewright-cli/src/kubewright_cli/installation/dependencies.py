"""What a bundle requires of a cluster: a version of Kubernetes, kinds, and other packages.

OLM installs what is missing. Here it is reported, with what to do. Packages count as installed if this command line
installed them, or OLM of either generation.

Follows github.com/operator-framework/api pkg/constraints, and operator-lifecycle-manager
pkg/controller/operators/olm (requirements).
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kubewright.cel.compiler import Program
from kubewright.cel.functions import library
from kubewright.cel.library import functions
from kubewright.cel.parser import parse
from kubewright.cel.syntax import CompileError
from kubewright.cel.values import CostExceeded, EvaluationError
from kubewright.client import Client, RESTMapper, Unstructured
from kubewright.machinery.errors import ConfigError, Forbidden, NotFound
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource
from kubewright_cli.deployment.doctor import server_version
from kubewright_cli.installation.inventory import inventories
from kubewright_cli.installation.source import InstallableBundle
from kubewright_cli.olm.parts import items, mapping, text
from kubewright_cli.olm.semver import Range, Version
from kubewright_cli.olm.validation.serviceversions import group_of

_CSV: Final = APIResource("operators.coreos.com", "v1alpha1", "ClusterServiceVersion", "clusterserviceversions")
_EXTENSION: Final = APIResource(
    "olm.operatorframework.io", "v1", "ClusterExtension", "clusterextensions", namespaced=False
)
_COPIED: Final = "olm.copiedFrom"
_PROPERTIES: Final = "operatorframework.io/properties"


@dataclass(frozen=True, slots=True)
class InstalledPackage:
    """A package in the cluster."""

    name: str
    version: Version
    properties: Sequence[JSONObject] = ()


async def missing_requirements(client: Client, bundle: InstallableBundle) -> list[str]:
    """Return what the cluster lacks, each with what to do."""
    found = [each async for each in _wrong_version(client, bundle)]
    checks = _Checks(client)
    for required in items(mapping(bundle.spec.get("customresourcedefinitions")).get("required")):
        found += await checks.gvk(_gvk_of(required), "spec.customresourcedefinitions.required")
    for native in items(bundle.spec.get("nativeAPIs")):
        found += await checks.gvk(native, "spec.nativeAPIs")
    for where, each in _stated(bundle):
        value = each.get("value")
        value = mapping(json.loads(value) if isinstance(value, str) else value)
        found += await checks.requirement(text(each.get("type")), value, where)
    return found


def _stated(bundle: InstallableBundle) -> Iterator[tuple[str, JSONObject]]:
    """Yield the dependencies and properties of a bundle, and where they are."""
    for place, each in enumerate(bundle.released.dependencies):
        yield f"dependencies[{place}]", each
    for place, each in enumerate(bundle.released.properties):
        yield f"properties[{place}]", each


async def _wrong_version(client: Client, bundle: InstallableBundle) -> AsyncGenerator[str]:
    wanted = text(bundle.spec.get("minKubeVersion"))
    if not wanted:
        return
    served = await server_version(client)
    # a provider's suffix, such as -gke.100, does not make it older
    numbers = Version.parse_tolerant(served.partition("-")[0].partition("+")[0])
    if numbers < Version.parse_tolerant(wanted):
        yield (
            f"minKubeVersion: needs Kubernetes {wanted} or newer, and the cluster has {served}; upgrade the cluster, "
            "or install an older version of the bundle"
        )


def _gvk_of(required: JSONObject) -> JSONObject:
    return {**required, "group": group_of(text(required.get("name")))}


class _Checks:
    """Checks of constraints against one cluster. Each returns what is missing."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._mapper = RESTMapper(client)
        self._packages: list[InstalledPackage] | None = None

    async def requirement(self, kind: str, value: JSONObject, where: str) -> list[str]:
        """Check a dependency, or a property that requires something."""
        match kind:
            case "olm.gvk" if where.startswith("dependencies"):  # as a property, what the bundle provides
                return await self.gvk(value, where)
            case "olm.gvk.required":
                return await self.gvk(value, where)
            case "olm.package" if where.startswith("dependencies"):
                return await self.package(text(value.get("packageName")), text(value.get("version")), where)
            case "olm.package.required":
                return await self.package(text(value.get("packageName")), text(value.get("versionRange")), where)
            case "olm.constraint":
                return await self.constraint(value, where)
            case _:
                return []

    async def gvk(self, value: JSONObject, where: str) -> list[str]:
        group, version, kind = (text(value.get(each)) for each in ("group", "version", "kind"))
        try:
            await self._mapper.resource(f"{group}/{version}" if group else version, kind)
        except ConfigError:
            shown = f"{kind} of {group}/{version}" if group else f"{kind} of {version}"
            return [f"{where}: needs the kind {shown}, which the cluster does not serve; install what provides it"]
        return []

    async def package(self, name: str, versions: str, where: str) -> list[str]:
        present = [each.version for each in await self.packages() if each.name == name]
        wanted = Range.parse(versions) if versions else None
        if any(wanted is None or each in wanted for each in present):
            return []
        has = f"it has {', '.join(map(str, present))}" if present else "the cluster does not have it"
        return [
            f'{where}: needs package {name} in a version "{versions}", and {has}; install it with `kubewright bundle '
            "run` or OLM"
        ]

    async def constraint(self, value: JSONObject, where: str) -> list[str]:
        """Check a constraint, which may consist of others."""
        problems = await self._constraint(value, where)
        message = text(value.get("failureMessage"))
        return [f"{where}: {message} ({'; '.join(problems)})"] if problems and message else problems

    async def _constraint(self, value: JSONObject, where: str) -> list[str]:
        if "gvk" in value:
            return await self.gvk(mapping(value["gvk"]), where)
        if "package" in value:
            of = mapping(value["package"])
            versions = text(of.get("versionRange")) or text(of.get("version"))
            return await self.package(text(of.get("packageName")), versions, where)
        if "cel" in value:
            return await self._rule(text(mapping(value["cel"]).get("rule")), where)
        for name in ("all", "any", "not", "none"):
            if name in value:
                return await self._compound(name, items(mapping(value[name]).get("constraints")), f"{where}.{name}")
        return []

    async def _compound(self, name: str, constraints: Sequence[JSONObject], where: str) -> list[str]:
        found = [await self.constraint(each, f"{where}[{place}]") for place, each in enumerate(constraints)]
        if name == "all":
            return [problem for each in found for problem in each]
        if name == "any":
            return [] if not found or not all(found) else [f"{where}: none is fulfilled: {_joined(found)}"]
        conflicting = [place for place, each in enumerate(found) if not each]
        listed = ", ".join(f"{where}[{place}]" for place in conflicting)
        return [f"{listed}: the cluster has what the bundle excludes; remove it first"] if conflicting else []

    async def _rule(self, rule: str, where: str) -> list[str]:
        """Check a rule in CEL, which holds if it does for the properties of one package."""
        program = _program(rule, where)
        for each in await self.packages():
            try:
                if program.evaluate([list(each.properties)], _BUDGET)[0] is True:
                    return []
            except (EvaluationError, CostExceeded):  # the package has other properties
                continue
        return [f"{where}: no installed package fulfills {rule}; install one with `kubewright bundle run` or OLM"]

    async def packages(self) -> list[InstalledPackage]:
        """Return all packages in the cluster."""
        if self._packages is None:
            self._packages = [each async for each in _packages(self._client)]
        return self._packages


def _joined(problems: Iterable[Sequence[str]]) -> str:
    return "; ".join(problem for each in problems for problem in each)


async def _packages(client: Client) -> AsyncGenerator[InstalledPackage]:
    for each in await inventories(client):
        if each.state == "installed":
            yield InstalledPackage(each.package, each.semver, each.properties)
    for csv in await _objects(client, _CSV):
        status = mapping(csv.content.get("status"))
        if status.get("phase") == "Succeeded" and _COPIED not in csv.metadata.labels:
            properties = _annotated_properties(csv.metadata.annotations)
            values = [mapping(one.get("value")) for one in properties if one.get("type") == "olm.package"]
            for value in values:
                yield InstalledPackage(text(value.get("packageName")), _version(value), properties)
    for extension in await _objects(client, _EXTENSION):
        catalog = mapping(mapping(mapping(extension.content.get("spec")).get("source")).get("catalog"))
        install = mapping(mapping(extension.content.get("status")).get("install"))
        if bundle := mapping(install.get("bundle")):
            yield InstalledPackage(text(catalog.get("packageName")), _version(bundle))


def _version(value: Mapping[str, object]) -> Version:
    return Version.parse_tolerant(text(value.get("version")) or "0.0.0")


def _annotated_properties(annotations: Mapping[str, str]) -> list[JSONObject]:
    """Return the properties that OLM writes to an annotation of a ClusterServiceVersion."""
    try:
        return items(mapping(json.loads(annotations.get(_PROPERTIES, "{}"))).get("properties"))
    except ValueError:
        return []


async def _objects(client: Client, api: APIResource) -> list[Unstructured]:
    """Return the objects of a kind of OLM; none if the cluster does not serve it, or this client may not read it."""
    try:
        return list(await client.list(Unstructured.of(api)))
    except (NotFound, Forbidden):
        return []


# ---- rules


def _compare(one: str, other: str) -> int:
    try:
        left, right = Version.parse(one), Version.parse(other)
    except ValueError as error:
        raise EvaluationError(str(error)) from None
    return (left > right) - (left < right)


_OWN: Final = {"semver_compare": library(("semver_compare(string, string) -> int", _compare))}
"""The function that OLM adds to CEL."""
_BUDGET: Final = 10_000_000


def _program(rule: str, where: str) -> Program:
    """Compile a rule over `properties`. Raises ConfigError."""
    known = {**functions(), **_OWN}
    try:
        return Program(parse(rule, known.keys()), ("properties",), known)
    except CompileError as error:
        raise ConfigError(f"{where}.cel.rule: {error}; correct the expression") from None
