"""A bundle for OLM: the folder `bundle` and `bundle.Dockerfile`, in the layout of operator-sdk.

`bundle/manifests` has the ClusterServiceVersion, the CRDs, and the other objects that OLM applies. `bundle/metadata`
names the package and its channels. The objects have no namespace: OLM puts them into that of the operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.json import JSONObject
from kubewright.models._values import plain
from kubewright_cli.manifests import metrics, rbac, samples, workload
from kubewright_cli.manifests.generated import HEADER
from kubewright_cli.manifests.manifests import Manifests
from kubewright_cli.manifests.names import MANAGER
from kubewright_cli.manifests.settings import Settings
from kubewright_cli.manifests.webhooks import converted
from kubewright_cli.olm.parts import mapping
from kubewright_cli.olm.serviceversion import (
    complete_names,
    name_of,
    package_of,
    provider_of,
    service_version,
    webhook_deployment,
)
from kubewright_cli.project import Project

FOLDER: Final = "bundle"
DOCKERFILE: Final = "bundle.Dockerfile"
LABELS: Final = "operators.operatorframework.io.bundle."
"""The start of the annotations of a bundle."""
KINDS: Final = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "ClusterServiceVersion",
        "ConfigMap",
        "ConsoleCLIDownload",
        "ConsoleLink",
        "ConsolePlugin",
        "ConsoleQuickStart",
        "ConsoleYAMLSample",
        "CustomResourceDefinition",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "PodMonitor",
        "PriorityClass",
        "PrometheusRule",
        "Role",
        "RoleBinding",
        "Secret",
        "Service",
        "ServiceAccount",
        "ServiceMonitor",
        "VerticalPodAutoscaler",
    }
)
"""The kinds that a bundle of the type `registry+v1` may contain."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The files of a bundle by path, and what it lacks of the deployment."""

    name: str
    files: dict[str, str]
    warnings: tuple[str, ...]


def bundle_of(project: Project, image: str = "", capability: str = "") -> Bundle:
    """Return the bundle of a project with a capability level, or with none.

    Raises ConfigError for settings that no bundle can express.
    """
    manifests = project.manifests()
    if image:
        manifests = manifests.with_image(image)
    settings, root = manifests.settings, project.root
    found = [each for name in samples.present(root / "config/samples") for each in _samples(root, name)]
    owned = {kind_of(crd) for crd in _crds(manifests)}
    shown = [each for each in found if api_of(each) in owned]
    objects = [*_objects(manifests), *_further(settings, root)]
    names = [f"{each['kind']} {each['metadata']['name']}" for each in objects]
    if twice := next((each for each in names if names.count(each) > 1), ""):
        raise ConfigError(
            f"tool.kubewright.bundle.manifests: {twice} is already part of the bundle; rename one of them"
        )
    documents = {
        f"{package_of(settings)}.clusterserviceversion.yaml": service_version(manifests, root, shown, capability),
        **{f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml": crd for crd in _crds(manifests)},
        **{_file_name(each): each for each in objects},
    }
    files = {f"{FOLDER}/manifests/{name}": _text(each) for name, each in documents.items()}
    files |= {f"{FOLDER}/metadata/{name}": _text(each) for name, each in _metadata(settings).items()}
    files[DOCKERFILE] = _dockerfile(settings)
    return Bundle(name_of(settings), files, tuple(_warnings(manifests)))


def _text(document: Mapping[str, object]) -> str:
    return f"{HEADER}\n{yaml.dump(dict(document))}"


def _samples(root: Path, name: str) -> list[JSONObject]:
    try:
        return list(yaml.load_all((root / "config/samples" / name).read_text()))
    except (OSError, DecodeError) as error:
        raise ConfigError(f"config/samples/{name}: {error}") from error


def api_of(document: JSONObject) -> tuple[str, str]:
    """Return the group and kind of an object."""
    return str(document.get("apiVersion", "")).rpartition("/")[0], str(document.get("kind", ""))


def kind_of(crd: JSONObject) -> tuple[str, str]:
    """Return the group and kind that a CRD defines."""
    return crd["spec"]["group"], crd["spec"]["names"]["kind"]


def _crds(manifests: Manifests) -> list[JSONObject]:
    """Return the CRDs, whose webhooks are behind the Service that OLM creates."""
    if not manifests.program.webhooks:
        return manifests.crds
    conversions = webhook_deployment(manifests.program, manifests.settings).conversions()
    names = complete_names(manifests.settings)
    for each in conversions.values():
        each.pop("metadata", None)
        each["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["name"] = f"{names.of(MANAGER)}-service"
    return converted(manifests.crds, conversions)


def _objects(manifests: Manifests) -> Iterator[JSONObject]:
    """Yield what OLM applies in addition to the CRDs. It makes the manager's account, roles and webhooks itself."""
    program, settings = manifests.program, manifests.settings
    names = complete_names(settings)
    found: list[JSONObject] = []
    if settings.rbac_helpers:
        found += [each for _, each in rbac.helpers(program.kinds, names)]
    if settings.metrics != "off":
        found += [metrics.service(settings, names)]
        found += [metrics.monitor(settings, names)] if settings.prometheus else []
        found += [metrics.policy(settings, names)] if settings.network_policy else []
    if settings.metrics == "https":
        roles = rbac.documents(program, settings, names)["metrics_reader_role"]
        found += roles
    if settings.network_policy and program.webhooks:
        found.append(webhook_deployment(program, settings).policy())
    for each in found:
        metadata = each["metadata"]
        metadata.pop("namespace", None)
        metadata["labels"] = {**metadata.get("labels", {}), **settings.labels, **workload.own_labels(settings)}
        if settings.annotations:
            metadata["annotations"] = {**settings.annotations, **metadata.get("annotations", {})}
        yield each


def _further(settings: Settings, root: Path) -> Iterator[JSONObject]:
    for pattern in settings.bundle.manifests:
        paths = sorted(each for each in root.glob(pattern) if each.is_file())
        if not paths:
            raise ConfigError(f'tool.kubewright.bundle.manifests: there is no file "{pattern}"; write its path')
        for path in paths:
            yield from _read(path)


def _read(path: Path) -> list[JSONObject]:
    where = f"tool.kubewright.bundle.manifests: {path.name}"
    try:
        documents = list(yaml.load_all(path.read_text()))
    except (OSError, UnicodeDecodeError, DecodeError) as error:
        raise ConfigError(f"{where}: {error}") from error
    for each in documents:
        kind = each.get("kind")
        if kind not in KINDS:
            raise ConfigError(
                f"{where}: OLM does not install a {kind}; a bundle may contain: {', '.join(sorted(KINDS))}"
            )
        metadata = mapping(each.get("metadata"))
        if not metadata.get("name"):
            raise ConfigError(f"{where}: the {kind} has no metadata.name; add it")
        metadata.pop("namespace", None)
    return documents


def _file_name(document: JSONObject) -> str:
    api_version = document["apiVersion"].replace("/", "_")
    return f"{document['metadata']['name']}_{api_version}_{document['kind'].lower()}.yaml".replace(":", "-")


def annotations_of(settings: Settings) -> dict[str, str]:
    """Return the annotations of the bundle, which are also the labels of its image."""
    own = settings.bundle
    return {
        f"{LABELS}mediatype.v1": "registry+v1",
        f"{LABELS}manifests.v1": "manifests/",
        f"{LABELS}metadata.v1": "metadata/",
        f"{LABELS}package.v1": package_of(settings),
        f"{LABELS}channels.v1": ",".join(own.channels),
        f"{LABELS}channel.default.v1": own.default_channel or own.channels[0],
    }


def _metadata(settings: Settings) -> dict[str, JSONObject]:
    files: dict[str, JSONObject] = {"annotations.yaml": {"annotations": annotations_of(settings)}}
    if settings.bundle.dependencies:
        files["dependencies.yaml"] = {"dependencies": [plain(each) for each in settings.bundle.dependencies]}
    if settings.bundle.properties:
        files["properties.yaml"] = {"properties": [plain(each) for each in settings.bundle.properties]}
    return files


def _dockerfile(settings: Settings) -> str:
    labels = "".join(f"LABEL {name}={value}\n" for name, value in annotations_of(settings).items())
    copies = f"COPY {FOLDER}/manifests /manifests/\nCOPY {FOLDER}/metadata /metadata/\n"
    return f"{HEADER}\nFROM scratch\n\n{labels}\n{copies}"


def _warnings(manifests: Manifests) -> Iterator[str]:
    program, settings = manifests.program, manifests.settings
    if program.manager.policies:
        yield "OLM installs no admission policies, so the bundle has none; apply config/policy in addition"
    for each in webhook_deployment(program, settings).configurations() if program.webhooks else ():
        for webhook in each["webhooks"]:
            yield from (
                f"webhook {webhook['name']}: OLM ignores its {field}, so the webhook also gets other requests that "
                "match its rules; check the condition in its function, too"
                for field in ("matchConditions", "namespaceSelector")
                if field in webhook
            )
    if not provider_of(settings).name:
        yield "the bundle names no provider, which OperatorHub requires; set provider in [tool.kubewright.bundle]"
