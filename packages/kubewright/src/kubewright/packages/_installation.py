"""Installs packages: writes their Operators, OperatorVersions and Instances, and changes Instances.

The operator (`package_manager`) does the rest. Follows `kubectl kudo install`, `upgrade`, `update` and `plan trigger`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kubewright.apis.core.v1 import Namespace
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client import Client, MergePatch, decode_object
from kubewright.machinery.errors import AlreadyExists, ConfigError, NotFound
from kubewright.machinery.json import compact
from kubewright.packages._admission import new_uid
from kubewright.packages._api import Instance, Operator, OperatorVersion, Task
from kubewright.packages._files import Package
from kubewright.packages._rendering import Place, TemplateFiles
from kubewright.packages._resources import Resources, resources


@dataclass(frozen=True, slots=True)
class Change:
    """An object that was written, or that needed no change."""

    kind: str
    name: str
    outcome: Literal["created", "unchanged", "changed", "deleted"]

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.outcome}"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a package is installed."""

    client: Client
    namespace: str

    async def instance(self, name: str) -> Instance:
        """Return an instance. Raises ConfigError if there is none."""
        found = await self.client.get_or_none(Instance, name, namespace=self.namespace)
        if found is None:
            where = f"in namespace {self.namespace}"
            raise ConfigError(f'there is no Instance "{name}" {where}; check --instance and --namespace')
        return found

    async def version(self, instance: Instance) -> OperatorVersion:
        """Return the version of an instance. Raises ConfigError if there is none."""
        name = instance.spec.operator_version.name or ""
        found = await self.client.get_or_none(OperatorVersion, name, namespace=self.namespace)
        if found is None:
            raise ConfigError(
                f'Instance "{instance.metadata.name}": its OperatorVersion "{name}" does not exist; install it again '
                "with `kubewright package install PACKAGE --skip-instance`"
            )
        return found


async def install(
    target: Target,
    path: Path,
    *,
    instance: str = "",
    parameters: Mapping[str, str] | None = None,
    skip_instance: bool = False,
    create_namespace: bool = False,
) -> AsyncIterator[Change]:
    """Install a package and those that it depends on, and make an instance. Yields each change.

    Raises ConfigError if an instance of the name exists, or a version with other content.
    """
    package = Package.load(path)
    made = resources(package)
    wanted = made.instance
    wanted.metadata.namespace = target.namespace
    wanted.metadata.name = instance or wanted.metadata.name
    wanted.spec.parameters = dict(parameters or {})
    if not skip_instance:
        _check_parameters(made.operator_version, wanted.spec.parameters)
        if await target.client.get_or_none(Instance, wanted.metadata.name, namespace=target.namespace) is not None:
            raise ConfigError(
                f'Instance "{wanted.metadata.name}" exists in namespace {target.namespace}; choose another name with '
                "--instance, or change it with upgrade or update"
            )
    if create_namespace:
        yield await _create_namespace(target, made, wanted)
    async for change in _write_versions(target, package, made):
        yield change
    if not skip_instance:
        await target.client.create(wanted)
        yield Change("Instance", wanted.metadata.name, "created")


async def upgrade(
    target: Target, path: Path, *, instance: str, parameters: Mapping[str, str] | None = None
) -> AsyncIterator[Change]:
    """Install a version of a package, and change an instance to it. Yields each change. Raises ConfigError."""
    package = Package.load(path)
    made = resources(package)
    live = await target.instance(instance)
    current = await target.version(live)
    if current.spec.operator.name != package.operator.name:
        raise ConfigError(
            f'Instance "{instance}" is of the package {current.spec.operator.name}, not {package.operator.name}'
        )
    if not _version_key(current.spec.version) < _version_key(package.operator.operator_version):
        raise ConfigError(
            f"operator.yaml: operatorVersion {package.operator.operator_version} is not newer than that of Instance "
            f'"{instance}", {current.spec.version}; raise it'
        )
    async for change in _write_versions(target, package, made):
        yield change
    version = {"name": made.operator_version.metadata.name}
    yield await _change(target, live, {"operatorVersion": version, "parameters": dict(parameters or {})})


async def update(target: Target, instance: str, parameters: Mapping[str, str]) -> Change:
    """Change parameters of an instance. Raises ConfigError if there is none."""
    return await _change(target, await target.instance(instance), {"parameters": dict(parameters)})


async def trigger(target: Target, instance: str, plan: str) -> Change:
    """Trigger a plan. Raises ConfigError if there is no such instance or plan."""
    live = await target.instance(instance)
    version = await target.version(live)
    if version.spec.plan(plan) is None:
        known = ", ".join(sorted(version.spec.plans or {}))
        raise ConfigError(f"{version.metadata.name} has no plan {plan}; its plans are {known}")
    return await _change(target, live, {"planExecution": {"planName": plan, "uid": new_uid()}})


async def uninstall(target: Target, instance: str) -> Change:
    """Delete an instance, after its plan `cleanup` if there is one. Raises ConfigError if there is none."""
    live = await target.instance(instance)
    await target.client.delete(live)
    return Change("Instance", instance, "deleted")


async def _change(target: Target, instance: Instance, spec: Mapping[str, object]) -> Change:
    written = await target.client.patch(instance, MergePatch({"spec": dict(spec)}))
    is_same = written.metadata.resource_version == instance.metadata.resource_version
    return Change("Instance", instance.metadata.name, "unchanged" if is_same else "changed")


def _check_parameters(version: OperatorVersion, values: Mapping[str, str]) -> None:
    """Raise ConfigError if a parameter without a default has no value, or a value no parameter."""
    known = [each.name for each in version.spec.parameters]
    for name in values:
        if name not in known:
            raise ConfigError(f"the package has no parameter {name}; its parameters are {', '.join(known)}")
    missing = [
        each.name
        for each in version.spec.parameters
        if each.required and each.default is None and each.name not in values
    ]
    if missing:
        raise ConfigError(f"required parameters have no value: {', '.join(missing)}; set them with -p NAME=VALUE")


# ---- versions


async def _write_versions(target: Target, package: Package, made: Resources) -> AsyncIterator[Change]:
    """Write the Operator and OperatorVersion of a package, after those that it depends on."""
    needed: dict[str, Resources] = {}
    await _resolve(target, package, made, (made.operator_version.metadata.name,), needed)
    for each in (*needed.values(), made):
        if await _create(target, each.operator):
            yield Change("Operator", each.operator.metadata.name, "created")
        name = each.operator_version.metadata.name
        if await _create(target, each.operator_version):
            yield Change("OperatorVersion", name, "created")
            continue
        live = await target.client.get(OperatorVersion, name, namespace=target.namespace)
        if live.spec != each.operator_version.spec:
            raise ConfigError(
                f'OperatorVersion "{name}" is installed in namespace {target.namespace} with other content; raise '
                "operatorVersion in operator.yaml, or delete the installed one"
            )
        yield Change("OperatorVersion", name, "unchanged")


async def _resolve(
    target: Target, package: Package, made: Resources, path: tuple[str, ...], found: dict[str, Resources]
) -> None:
    """Find the packages of the KudoOperator tasks, and write their names and versions into the tasks.

    Raises ConfigError if one is missing, or packages depend on each other.
    """
    for task in made.operator_version.spec.tasks:
        if task.kind != "KudoOperator":
            continue
        folder = package.folder.child(task.spec.package)
        if folder is None:
            await _resolve_installed(target, package, task)
            continue
        child = Package.load(folder)
        parts = resources(child)
        task.spec.package, task.spec.app_version = child.operator.name, child.operator.app_version
        task.spec.operator_version = child.operator.operator_version
        name = parts.operator_version.metadata.name
        if name in path:
            raise ConfigError(f"packages depend on each other: {' -> '.join((*path, name))}; remove one of the tasks")
        if name not in found:
            await _resolve(target, child, parts, (*path, name), found)
            found[name] = parts


async def _resolve_installed(target: Target, package: Package, task: Task) -> None:
    """Write the newest installed version that fits into a task. Raises ConfigError if there is none."""
    spec = task.spec
    listed = await target.client.list(OperatorVersion, namespace=target.namespace)
    fitting = [
        each.spec
        for each in listed
        if each.spec.operator.name == spec.package
        and spec.operator_version in ("", each.spec.version)
        and spec.app_version in ("", each.spec.app_version)
    ]
    if not fitting:
        raise ConfigError(
            f"{package.folder.name}: task {task.name}: there is no folder {spec.package}, and no such package is "
            f"installed in namespace {target.namespace}; install it first"
        )
    newest = max(fitting, key=lambda each: (_version_key(each.app_version), _version_key(each.version)))
    spec.operator_version, spec.app_version = newest.version, newest.app_version


def _version_key(text: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts versions: numbers by value, and a release after its prereleases."""
    main, _, prerelease = text.removeprefix("v").partition("-")
    numbers = [(2, int(each), "") for each in main.split("+")[0].split(".") if each.isdigit()]
    numbers += [(2, 0, "")] * (3 - len(numbers))
    if not prerelease:
        return [*numbers, (3, 0, "")]
    return [*numbers, *((0, int(each), "") if each.isdigit() else (1, 0, each) for each in prerelease.split("."))]


async def _create(target: Target, obj: Operator | OperatorVersion) -> bool:
    """Create an object. Returns False if one of its name exists."""
    obj.metadata.namespace = target.namespace
    try:
        await target.client.create(obj)
    except AlreadyExists:
        return False
    except NotFound as error:
        if error.kind_is_missing:
            raise
        raise ConfigError(
            f"namespace {target.namespace} does not exist; create it with --create-namespace, or name another one "
            "with --namespace"
        ) from error
    return True


async def _create_namespace(target: Target, made: Resources, instance: Instance) -> Change:
    """Create the namespace, from the manifest of the package if there is one."""
    manifest = made.operator.spec.namespace_manifest
    namespace = Namespace(metadata=ObjectMeta(name=target.namespace))
    if manifest:
        place = Place(operator=made.operator.metadata.name, name=instance.metadata.name, namespace=target.namespace)
        values = {**place.variables(), "Params": instance.spec.parameters, "Pipes": {}}
        (document,) = TemplateFiles(made.operator_version.spec.templates).objects(manifest, values)
        namespace = decode_object(Namespace, compact(document.content).encode())
        namespace.metadata.name = target.namespace
    try:
        await target.client.create(namespace)
    except AlreadyExists as error:
        raise ConfigError(f"namespace {target.namespace} exists; leave out --create-namespace") from error
    return Change("Namespace", target.namespace, "created")
