"""How an operator is deployed: the table `[tool.kubewright]` of a project's pyproject.toml.

Every key is checked, also in the Kubernetes structures inside: an unknown key is an error that names the nearest known
key. `docs/manifests.md` lists all keys.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
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
from kubewright.machinery._suggestions import nearest
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright_cli.manifests.olmsettings import BundleSettings, CatalogSettings, Person
from kubewright_cli.manifests.reference import Reference

WatchNamespaces: TypeAlias = Literal["all", "own"] | tuple[str, ...]
"""The namespaces that a deployed operator watches: all, its own, or a list."""

RESERVED_LABELS: Final = frozenset({"app.kubernetes.io/name", "app.kubernetes.io/managed-by", "control-plane"})
"""Labels of every deployment. Settings cannot change them."""

CERT_MANAGER: Final = "cert-manager"
"""The value of `webhook-certificate` for certificates from cert-manager."""

_TABLE: Final = "tool.kubewright"
NO_MANAGER: Final = (
    f"[{_TABLE}] names kinds and no manager; such a project can generate, install and uninstall CRDs, but needs its "
    "own way to run and deploy"
)
_PEM: Final = "-----BEGIN CERTIFICATE-----"
_MODULE: Final = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
OF_PROJECT: Final = ("name", "version", "description", "keywords", "urls", "authors", "maintainers")
"""Fields that come from `[project]`, not from the table."""
_LONGEST_NAME: Final = "controller-manager-metrics-service"
"""The longest name of an object whose name is a DNS label: at most 63 characters with the prefix."""


def _resources() -> ResourceRequirements:
    return ResourceRequirements(limits={"cpu": "500m", "memory": "128Mi"}, requests={"cpu": "10m", "memory": "64Mi"})


class BuildSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """`[tool.kubewright.build]`: how the image is built."""

    base: str = "docker.io/library/python:3.14-slim"
    """The base: the name of an image, or `oci:` and the folder of a layout."""
    platforms: tuple[str, ...] = ("linux/amd64",)
    """The platforms: linux/amd64, linux/arm64."""
    python: str = ""
    """The Python version of the base (3.14), if the base does not declare it."""
    find_links: tuple[str, ...] = ()
    """Folders of wheels to use before any index."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """How an operator is deployed. Raises ConfigError for invalid values."""

    name: str
    """The name of the project, from `[project]`, as a DNS label."""
    version: str = "0.0.0"
    """The version of the project."""
    description: str = ""
    """The description of the project."""
    keywords: tuple[str, ...] = ()
    """The keywords of the project."""
    urls: dict[str, str] = {}
    """The URLs of the project, by label."""
    authors: tuple[Person, ...] = ()
    """The authors of the project."""
    maintainers: tuple[Person, ...] = ()
    """The maintainers of the project."""
    manager: str = ""
    """The program's Manager: `package.module:variable`."""
    kinds: str = ""
    """The module or package with the kinds of a project without a Manager: `package.api`. Only CRDs and samples are
    generated for such a project."""
    released: str = ""
    """The last released CRDs, which `kubewright generate --check` compares with the current ones: a revision of git, or
    a file or folder in the project."""
    image: str = ""
    """The manager's image; `<name>:latest` by default. It starts the manager with no arguments but its flags."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled; by default Kubernetes decides."""
    image_pull_secrets: tuple[str, ...] = ()
    """Names of Secrets in the namespace with registry credentials."""
    namespace: str = ""
    """The namespace of the manager; `<name>-system` by default."""
    name_prefix: str = ""
    """The prefix of all object names except CRDs and the Namespace; `<name>-` by default."""
    watch_namespaces: WatchNamespaces = "all"
    """`"all"`; or `"own"` for the manager's namespace; or a list of names. The latter two get a Role in each namespace,
    and a ClusterRole for cluster-scoped resources only."""
    replicas: int = 1
    """Replicas of the manager. One leads, the others stand by."""
    resources: ResourceRequirements = msgspec.field(default_factory=_resources)
    """Requests and limits of the manager's container."""
    args: tuple[str, ...] = ()
    """Additional flags of the manager."""
    env: dict[str, str | EnvVarSource] = {}
    """Environment variables: a value, or its source (`{secretKeyRef = {name = "db", key = "password"}}`)."""
    labels: dict[str, str] = {}
    """Labels of every object except CRDs, whose classes declare their own."""
    annotations: dict[str, str] = {}
    """Annotations of every object except CRDs."""
    pod_labels: dict[str, str] = {}
    """Labels of the manager's Pods, in addition to `labels`."""
    pod_annotations: dict[str, str] = {}
    """Annotations of the manager's Pods."""
    node_selector: dict[str, str] = {}
    """Labels of the nodes that the manager may run on."""
    tolerations: tuple[Toleration, ...] = ()
    """Tolerations of the manager's Pods."""
    affinity: Affinity | None = None
    """Affinity of the manager's Pods to nodes and other Pods."""
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    """How replicas are spread. The default `labelSelector` selects the manager's Pods."""
    priority_class: str = ""
    """The name of a PriorityClass."""
    pod_security: Literal["privileged", "baseline", "restricted"] | None = None
    """The pod security level that the Namespace enforces. By default `restricted`, or `baseline` if `watch-namespaces`
    is `"own"`, because Pods that the operator creates run there, too."""
    leader_election: bool = True
    """Whether the manager reconciles only while it holds a Lease."""
    metrics: Literal["https", "http", "off"] = "https"
    """How metrics are served: to clients with permission to `get` them, to every client, or not at all."""
    metrics_certificate: str = ""
    """The name of a Secret with a certificate for the metrics' Service (`tls.crt`, `tls.key`, `ca.crt`, as cert-manager
    creates it). By default the manager signs one itself at each start, which clients cannot verify."""
    webhook_certificate: str = ""
    """Where the certificate of the webhooks comes from: `"cert-manager"`, or the name of a Secret with `tls.crt` and
    `tls.key`. By default the program provides it, for example with `ManagedCertificate`."""
    webhook_ca_bundle: str = ""
    """The CA of a certificate in a Secret, in PEM, for the API server. By default another program writes it into the
    webhook configurations and CRDs."""
    prometheus: bool = False
    """Whether a ServiceMonitor is deployed. It needs the CRD of the Prometheus operator."""
    network_policy: bool = False
    """Whether only namespaces with the label `metrics: enabled` reach the metrics."""
    rbac_helpers: bool = True
    """Whether there are ClusterRoles for people who administer, edit or view objects of each kind."""
    build: BuildSettings = BuildSettings()
    """How `kubewright image build` builds the image."""
    levels: str = "tests/levels.py"
    """The Python file with the Declaration for `kubewright levels`."""
    bundle: BundleSettings = BundleSettings()
    """The bundle for OLM."""
    catalog: CatalogSettings = CatalogSettings()
    """The catalog for OLM."""

    @classmethod
    def read(cls, pyproject: Path) -> Settings:
        """Read the settings of a project. Raises ConfigError, which names the file and the key."""
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
        """Return the settings in the document of a pyproject.toml. Raises ConfigError, which names the key."""
        project, tools = document.get("project", {}), document.get("tool", {})
        if not is_object(project):
            raise ConfigError("project: must be a table")
        table = tools.get("kubewright") if is_object(tools) else None
        if not is_object(table) or table.keys().isdisjoint(("manager", "kinds")):
            raise ConfigError(f'[{_TABLE}] names no manager; add manager = "package.module:variable"')
        _refuse_unknown(table)
        stated: JSONObject = {key: project[key] for key in OF_PROJECT if key in project}
        stated["name"] = _label(str(project.get("name") or default_name))
        try:
            return msgspec.convert({**table, **stated}, cls)
        except msgspec.ValidationError as error:
            raise ConfigError(_error_text(str(error))) from error

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "namespace", self.namespace or f"{self.name}-system")
        msgspec.structs.force_setattr(self, "image", self.image or f"{self.name}:latest")
        msgspec.structs.force_setattr(self, "name_prefix", self.name_prefix or f"{self.name}-")
        error = next(_errors(self), None)
        if error is not None:
            raise ConfigError(f"{_TABLE}.{error}")

    @property
    def package(self) -> str:
        """The Python package of the program."""
        return self.manager.partition(":")[0].partition(".")[0]

    @property
    def enforced_pod_security(self) -> str:
        """The pod security level of the Namespace."""
        return self.pod_security or ("baseline" if self.watch_namespaces == "own" else "restricted")

    def full_name(self, name: str) -> str:
        """Return the name in a cluster of an object with the short name `name`."""
        return f"{self.name_prefix}{name}"


def _label(name: str) -> str:
    """Return the name of a project as a DNS label. Packaging treats `-`, `_` and `.` alike."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _errors(settings: Settings) -> Iterator[str]:
    if settings.kinds and settings.manager:
        yield "kinds: the kinds of a program with a Manager are found in its package api; remove the setting"
    elif settings.kinds and not re.fullmatch(_MODULE, settings.kinds):
        yield f'kinds: "{settings.kinds}" must be like "package.module"'
    elif not settings.kinds and not re.fullmatch(rf"{_MODULE}(:[A-Za-z_]\w*)?", settings.manager):
        yield f'manager: "{settings.manager}" must be like "package.module:variable"'
    yield from _image_errors(settings.image)
    if settings.replicas < 0:
        yield f"replicas: must not be negative, got {settings.replicas}"
    if settings.replicas > 1 and not settings.leader_election:
        yield f"replicas: {settings.replicas} replicas need leader election; remove leader-election = false"
    if settings.metrics == "off" and (settings.prometheus or settings.network_policy):
        extra = "prometheus" if settings.prometheus else "network-policy"
        yield f'{extra}: metrics are off; remove metrics = "off", or {extra} = true'
    if settings.metrics_certificate and settings.metrics != "https":
        yield f'metrics-certificate: metrics = "{settings.metrics}" does not use a certificate; remove one of the two'
    if settings.webhook_ca_bundle:
        yield from _ca_bundle_errors(settings)
    yield from _name_errors(settings)
    yield from _label_errors(settings)


def _ca_bundle_errors(settings: Settings) -> Iterator[str]:
    if settings.webhook_certificate in ("", CERT_MANAGER):
        who = "cert-manager" if settings.webhook_certificate else "the program"
        yield f"webhook-ca-bundle: {who} provides the certificate and its CA; remove the setting"
    elif not settings.webhook_ca_bundle.lstrip().startswith(_PEM):
        yield f"webhook-ca-bundle: must be certificates in PEM, which begin with {_PEM}"


def _image_errors(image: str) -> Iterator[str]:
    try:
        Reference.parse(image)
    except ConfigError as error:
        yield f"image: {error}"


def _name_errors(settings: Settings) -> Iterator[str]:
    for error in names.dns1123_label(settings.namespace):
        yield f'namespace: "{settings.namespace}": {error}'
    for error in names.dns1035_label(settings.full_name(_LONGEST_NAME)):
        yield f'name-prefix: "{settings.full_name(_LONGEST_NAME)}", the name of a Service: {error}'
    if settings.watch_namespaces not in ("all", "own"):
        if not settings.watch_namespaces:
            yield 'watch-namespaces: the list is empty; name namespaces, or write "all" or "own"'
        for each in settings.watch_namespaces:
            yield from (f'watch-namespaces: "{each}": {error}' for error in names.dns1123_label(each))
    secrets = {
        "metrics-certificate": settings.metrics_certificate,
        "webhook-certificate": settings.webhook_certificate,
    }
    for key, secret in secrets.items():
        if secret:
            yield from (f'{key}: "{secret}": {error}' for error in names.dns1123_subdomain(secret))
    for each in settings.env:
        yield from (f'env."{each}": {error}' for error in names.environment_name(each))


def _label_errors(settings: Settings) -> Iterator[str]:
    for what in ("labels", "pod_labels", "annotations", "pod_annotations", "node_selector"):
        key = what.replace("_", "-")
        for name, value in getattr(settings, what).items():
            errors = names.qualified_name(name)
            if not what.endswith("annotations"):
                errors += names.label_value(value)
            yield from (f'{key}."{name}": {error}' for error in errors)
            if what.endswith("labels") and name in RESERVED_LABELS:
                yield f'{key}."{name}": the label is reserved, because it selects the manager; remove it'


def _refuse_unknown(table: JSONObject) -> None:
    own = {field.encode_name for field in msgspec.structs.fields(Settings)} - set(OF_PROJECT)
    for where, key, known in _unknown(table, inspect.type_info(Settings), _TABLE, own):
        if (where, key) == (f"{_TABLE}.bundle", "capabilities"):
            raise ConfigError(
                f"{where}.capabilities: the capability level is measured and not declared; remove the setting, and run "
                "`kubewright levels`"
            )
        similar = nearest(key, known)
        hint = f'did you mean "{similar}"?' if similar else f"known settings: {', '.join(sorted(known))}"
        raise ConfigError(f'{where}: unknown setting "{key}"; {hint}')


def _unknown(
    value: object, kind: inspect.Type, where: str, known: set[str] | None = None
) -> Iterator[tuple[str, str, set[str]]]:
    """Unknown keys: the path of the table, the key, and the known keys."""
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


def _error_text(error: str) -> str:
    """Return `tool.kubewright.replicas: expected int, got str` for "Expected `int`, got `str` - at `$.replicas`"."""
    what, _, where = error.partition(" - at `$")
    text, place = what.replace("`", ""), where.rstrip("`")
    choices = _choices(place) if text.startswith("Invalid enum value") else []
    known = f"; known values: {', '.join(choices)}" if choices else ""
    return f"{_TABLE}{place}: {text[0].lower()}{text[1:]}{known}"


def _choices(place: str) -> list[str]:
    """Return the values that a setting may have; none if they are not known."""
    found: list[inspect.Type] = [inspect.type_info(Settings)]
    for name in re.findall(r"\.([^.\[]+)|\[", place):
        found = [each for one in found for each in _below(one, name)]
    return [str(each) for one in found if isinstance(one, inspect.LiteralType) for each in one.values]


def _below(kind: inspect.Type, name: str) -> Iterator[inspect.Type]:
    """Yield the possible types of a field, or of the items of a list if the name is empty."""
    types: Iterable[inspect.Type] = ()
    if not name and isinstance(kind, inspect.VarTupleType):
        types = (kind.item_type,)
    elif isinstance(kind, inspect.StructType):
        types = (each.type for each in kind.fields if each.encode_name == name)
    for each in types:
        yield from each.types if isinstance(each, inspect.UnionType) else (each,)
