"""What a program can't know of its deployment: the table `[tool.kubewright]` of a project's pyproject.toml.

Every key is checked, in the Kubernetes structures inside too: one that does not exist is refused, and the nearest that
does is named. `docs/manifests.md` has a table of all of them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import inspect

from kubewright.apis.core.v1 import (
    Affinity,
    EnvVarSource,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
)
from kubewright.machinery import names
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright_cli.manifests.reference import Reference

WatchNamespaces: TypeAlias = Literal["all", "own"] | tuple[str, ...]
"""Where a deployed operator works: everywhere, in its own namespace, or in those that are named."""

RESERVED_LABELS: Final = frozenset({"app.kubernetes.io/name", "app.kubernetes.io/managed-by", "control-plane"})
"""The labels that every deployment has, with values of its own."""

_TABLE: Final = "tool.kubewright"
NO_MANAGER: Final = (
    f"[{_TABLE}] names kinds and no manager: such a project has CRDs (kubewright generate, install, uninstall), and is "
    "run and deployed by means of its own"
)
_MODULE: Final = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
_OF_PROJECT: Final = ("name", "version", "description")
"""What `[project]` says, and not the table."""
_LONGEST_NAME: Final = "controller-manager-metrics-service"
"""Of the objects whose names are DNS labels; 63 characters with the prefix."""


def _resources() -> ResourceRequirements:
    return ResourceRequirements(limits={"cpu": "500m", "memory": "128Mi"}, requests={"cpu": "10m", "memory": "64Mi"})


class BuildSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """`[tool.kubewright.build]`: how the image is built."""

    base: str = "docker.io/library/python:3.13-slim"
    """What it is built upon: the name of an image, or `oci:` and the folder of a layout."""
    platforms: tuple[str, ...] = ("linux/amd64",)
    """What it is to run on: linux/amd64, linux/arm64."""
    python: str = ""
    """Version of the base's Python (3.13), where the base does not say it."""
    find_links: tuple[str, ...] = ()
    """Folders with wheels, looked into before any index."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """How an operator is deployed. Raises ConfigError for values that can't be."""

    name: str
    """Of the project, as `[project]` has it, made a DNS label."""
    version: str = "0.0.0"
    """Of the project."""
    description: str = ""
    """Of the project."""
    manager: str = ""
    """Where the program's Manager is: `package.module:variable`."""
    kinds: str = ""
    """Where the kinds of a project without a Manager are, a module or package: `package.api`. Its CRDs are all that is
    made for it."""
    image: str = ""
    """The manager's image; `<name>:latest` by default. It starts the manager with no arguments but its flags."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled; Kubernetes' own rule when not given."""
    image_pull_secrets: tuple[str, ...] = ()
    """Names of Secrets in the namespace, with credentials for registries."""
    namespace: str = ""
    """Where the manager runs; `<name>-system` when not given."""
    name_prefix: str = ""
    """Put before the names of all objects but CRDs and the Namespace; `<name>-` when not given."""
    watch_namespaces: WatchNamespaces = "all"
    """`"all"`; or `"own"`, the manager's; or a list of names. With the latter two there are Roles in them, and cluster
    roles only for what belongs to no namespace."""
    replicas: int = 1
    """Of the manager. Several take turns: one leads, the others stand by."""
    resources: ResourceRequirements = msgspec.field(default_factory=_resources)
    """Requests and limits of the manager's container."""
    args: tuple[str, ...] = ()
    """Flags of the manager beyond those that follow from these settings."""
    env: dict[str, str | EnvVarSource] = {}
    """Environment: a name and its value, or where that is from (`{secretKeyRef = {name = "db", key = "password"}}`)."""
    labels: dict[str, str] = {}
    """On every object but the CRDs, whose classes say theirs."""
    annotations: dict[str, str] = {}
    """On every object but the CRDs."""
    pod_labels: dict[str, str] = {}
    """On the manager's Pods, beside `labels`."""
    pod_annotations: dict[str, str] = {}
    """On the manager's Pods."""
    node_selector: dict[str, str] = {}
    """Labels of the nodes that the manager may run on."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints that the manager's Pods put up with."""
    affinity: Affinity | None = None
    """Which nodes and Pods the manager's Pods want to be near, or far from."""
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    """How replicas are spread; one without a `labelSelector` is about the manager's Pods."""
    priority_class: str = ""
    """Name of a PriorityClass."""
    pod_security: Literal["privileged", "baseline", "restricted"] | None = None
    """Pod security level that the Namespace enforces. When not given, `restricted`; `baseline` where `watch-namespaces`
    is `"own"`, since Pods that the operator makes run there too."""
    leader_election: bool = True
    """Whether the manager works only while it holds a Lease."""
    metrics: Literal["https", "http", "off"] = "https"
    """How metrics are served: for those who may `get` them, for everybody, or not at all."""
    metrics_certificate: str = ""
    """Name of a Secret with a certificate for the metrics' Service (`tls.crt`, `tls.key`, `ca.crt`, as cert-manager
    makes it). When not given, the manager makes one at each start, which nobody can check."""
    prometheus: bool = False
    """Whether a ServiceMonitor is deployed; its CRD is the Prometheus operator's."""
    network_policy: bool = False
    """Whether only namespaces with the label `metrics: enabled` reach the metrics."""
    rbac_helpers: bool = True
    """Whether there are cluster roles for those who administer, edit or view objects of each kind."""
    build: BuildSettings = BuildSettings()
    """How `kubewright image build` builds the image."""

    @classmethod
    def read(cls, pyproject: Path) -> Settings:
        """The settings of a project. Raises ConfigError, which names the file and the key."""
        try:
            document = tomllib.loads(pyproject.read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{pyproject}: {error}") from error
        try:
            return cls.from_document(document, default_name=pyproject.parent.name)
        except ConfigError as error:
            raise ConfigError(f"{pyproject}: {error}") from error

    @classmethod
    def from_document(cls, document: JSONObject, *, default_name: str = "") -> Settings:
        """The settings in what a pyproject.toml holds. Raises ConfigError, which names the key."""
        project: JSONObject = document.get("project", {})
        table = document.get("tool", {}).get("kubewright")
        if not is_object(table) or table.keys().isdisjoint(("manager", "kinds")):
            raise ConfigError(f'[{_TABLE}] names no manager; add manager = "package.module:variable"')
        _refuse_unknown(table)
        stated: JSONObject = {key: project[key] for key in _OF_PROJECT if key in project}
        stated["name"] = _label(str(project.get("name") or default_name))
        try:
            return msgspec.convert({**table, **stated}, cls)
        except msgspec.ValidationError as error:
            raise ConfigError(_explained(str(error))) from error

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "namespace", self.namespace or f"{self.name}-system")
        msgspec.structs.force_setattr(self, "image", self.image or f"{self.name}:latest")
        msgspec.structs.force_setattr(self, "name_prefix", self.name_prefix or f"{self.name}-")
        fault = next(_faults(self), None)
        if fault is not None:
            raise ConfigError(f"{_TABLE}.{fault}")

    @property
    def package(self) -> str:
        """The Python package of the program."""
        return self.manager.partition(":")[0].partition(".")[0]

    @property
    def enforced_pod_security(self) -> str:
        """The pod security level of the Namespace."""
        return self.pod_security or ("baseline" if self.watch_namespaces == "own" else "restricted")

    def full_name(self, name: str) -> str:
        """What an object that is called `name` in `config/` is called in a cluster."""
        return f"{self.name_prefix}{name}"


def _label(name: str) -> str:
    """A project's name as a DNS label: packaging treats `-`, `_` and `.` alike."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _faults(settings: Settings) -> Iterator[str]:
    if settings.kinds and settings.manager:
        yield "kinds: those of a program with a Manager are found beside it; leave it out"
    elif settings.kinds and not re.fullmatch(_MODULE, settings.kinds):
        yield f'kinds: "{settings.kinds}" is not like "package.module"'
    elif not settings.kinds and not re.fullmatch(rf"{_MODULE}(:[A-Za-z_]\w*)?", settings.manager):
        yield f'manager: "{settings.manager}" is not like "package.module:variable"'
    yield from _faulty_image(settings.image)
    if settings.replicas < 0:
        yield f"replicas: {settings.replicas} is fewer than none"
    if settings.replicas > 1 and not settings.leader_election:
        yield f"replicas: {settings.replicas} of them would all work at once; leave out leader-election = false"
    if settings.metrics == "off" and (settings.prometheus or settings.network_policy):
        extra = "prometheus" if settings.prometheus else "network-policy"
        yield f'{extra}: there are no metrics to reach; leave out metrics = "off", or {extra} = true'
    if settings.metrics_certificate and settings.metrics != "https":
        yield f'metrics-certificate: metrics = "{settings.metrics}" has no use for one; leave one of the two out'
    yield from _faulty_names(settings)
    yield from _faulty_labels(settings)


def _faulty_image(image: str) -> Iterator[str]:
    try:
        Reference.parse(image)
    except ConfigError as error:
        yield f"image: {error}"


def _faulty_names(settings: Settings) -> Iterator[str]:
    for fault in names.dns1123_label(settings.namespace):
        yield f'namespace: "{settings.namespace}": {fault}'
    for fault in names.dns1035_label(settings.full_name(_LONGEST_NAME)):
        yield f'name-prefix: "{settings.full_name(_LONGEST_NAME)}", as a Service is then called: {fault}'
    if settings.watch_namespaces not in ("all", "own"):
        if not settings.watch_namespaces:
            yield 'watch-namespaces: the list is empty; name some, or write "all" or "own"'
        for each in settings.watch_namespaces:
            yield from (f'watch-namespaces: "{each}": {fault}' for fault in names.dns1123_label(each))
    if settings.metrics_certificate:
        for fault in names.dns1123_subdomain(settings.metrics_certificate):
            yield f'metrics-certificate: "{settings.metrics_certificate}": {fault}'
    for each in settings.env:
        yield from (f'env."{each}": {fault}' for fault in names.environment_name(each))


def _faulty_labels(settings: Settings) -> Iterator[str]:
    for what in ("labels", "pod_labels", "annotations", "pod_annotations", "node_selector"):
        key = what.replace("_", "-")
        for name, value in getattr(settings, what).items():
            faults = names.qualified_name(name)
            if not what.endswith("annotations"):
                faults += names.label_value(value)
            yield from (f'{key}."{name}": {fault}' for fault in faults)
            if what.endswith("labels") and name in RESERVED_LABELS:
                yield f'{key}."{name}": it is how the manager is found, and has a value of its own; leave it out'


def _refuse_unknown(table: JSONObject) -> None:
    own = {field.encode_name for field in msgspec.structs.fields(Settings)} - set(_OF_PROJECT)
    for where, key, known in _unknown(table, inspect.type_info(Settings), _TABLE, own):
        nearest = get_close_matches(key, known, n=1)
        hint = f'did you mean "{nearest[0]}"?' if nearest else f"there are {', '.join(sorted(known))}"
        raise ConfigError(f'{where}: there is no setting "{key}"; {hint}')


def _unknown(
    value: object, kind: inspect.Type, where: str, known: set[str] | None = None
) -> Iterator[tuple[str, str, set[str]]]:
    """Where a key is that its type does not have, the key, and those that there are."""
    if isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from _unknown(value, each, where)
    elif isinstance(kind, inspect.StructType) and is_object(value):
        fields = {field.encode_name: field.type for field in kind.fields}
        known = known or set(fields)
        for key, each in value.items():
            if key not in known:
                yield where, key, known
            else:
                yield from _unknown(each, fields[key], f"{where}.{key}")
    elif isinstance(kind, inspect.DictType) and is_object(value):
        for key, each in value.items():
            yield from _unknown(each, kind.value_type, f"{where}.{key}")
    elif isinstance(kind, inspect.ListType | inspect.VarTupleType) and is_array(value):
        for place, each in enumerate(value):
            yield from _unknown(each, kind.item_type, f"{where}[{place}]")


def _explained(fault: str) -> str:
    """`Expected `int`, got `str` - at `$.replicas`` -> `tool.kubewright.replicas: expected int, got str`."""
    what, _, where = fault.partition(" - at `$")
    said = what.replace("`", "")
    return f"{_TABLE}{where.rstrip('`')}: {said[0].lower()}{said[1:]}"
