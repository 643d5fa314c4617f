"""Bundles and catalogs, most of them with one mistake, and what Go's validators say about them.

`outcomes.json` has the answers of the program in `tests/clients/olm`. To record them again:

    PYTHONPATH=tests python -m unit.olm.cases <the built program>
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from kubewright.machinery import yaml
from kubewright.machinery.json import is_array
from kubewright_cli.olm.validation import SUITES, Finding, validate_bundle, validate_catalog

GOLDEN = Path(__file__).parents[2] / "golden" / "manifests"
OUTCOMES = Path(__file__).with_name("outcomes.json")
CSV = "manifests/fleet-operator.clusterserviceversion.yaml"
CRD = "manifests/fleet.example.com_ships.yaml"
HARBOURS = "manifests/fleet.example.com_harbours.yaml"
BUDGET = "manifests/fleet-controller-manager_policy_v1_poddisruptionbudget.yaml"
ROLE = "manifests/fleet-ship-viewer-role_rbac.authorization.k8s.io_v1_clusterrole.yaml"
SERVICE = "manifests/fleet-controller-manager-metrics-service_v1_service.yaml"
ANNOTATIONS = "metadata/annotations.yaml"
DEPENDENCIES = "metadata/dependencies.yaml"
LABELS = "operators.operatorframework.io.bundle."

Files = dict[str, Any]
"""Documents by path; text for other files."""


@dataclass
class Case:
    """A bundle or a catalog: a change of the golden one, and the rules that it breaks."""

    change: Callable[[Files], object]
    rules: set[str] = field(default_factory=set[str])
    kubernetes: str = ""


@cache
def _read(folder: Path) -> str:
    files = {str(path.relative_to(folder)): yaml.load(path.read_text()) for path in folder.rglob("*.yaml")}
    return json.dumps(files)


def golden() -> Files:
    """Return the files of a golden bundle, with few objects of each kind."""
    files: Files = json.loads(_read(GOLDEN / "full" / "bundle"))
    kept = (CSV, CRD, HARBOURS, BUDGET, ROLE, SERVICE)
    return {name: each for name, each in files.items() if name in kept or name.startswith("metadata/")}


def write(files: Files, folder: Path) -> None:
    """Write a bundle or a catalog."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_text(content))


def _text(content: object) -> str:
    """Return a file. JSON is YAML, and faster to write and to read."""
    documents: list[Any] = content if is_array(content) else [content]
    return "\n---\n".join(each if isinstance(each, str) else json.dumps(each) for each in documents)


def setting(file: str, path: str, value: object) -> Callable[[Files], object]:
    """Return a change of one field; `None` removes it. Numbers in the path are places in lists."""

    def change(files: Files) -> None:
        *way, last = [int(each) if each.isdigit() else each for each in path.split("/")]
        target: Any = files[file]
        for each in way:
            target = target[each]
        if value is None:
            del target[last]
        elif last == len(target) and last not in target:
            target.append(value)
        else:
            target[last] = value

    return change


def adding(name: str, content: object) -> Callable[[Files], object]:
    """Return a change that adds a file."""
    return lambda files: files.update({name: content})


def removing(name: str) -> Callable[[Files], object]:
    """Return a change that removes a file."""
    return lambda files: files.pop(name)


def both(*changes: Callable[[Files], object]) -> Callable[[Files], object]:
    """Return all changes as one."""
    return lambda files: [each(files) for each in changes]


def csv(path: str, value: object, *rules: str) -> Case:
    """Return a bundle whose ClusterServiceVersion has another field."""
    return Case(setting(CSV, path, value), set(rules))


def annotation(name: str, value: object, *rules: str) -> Case:
    """Return a bundle whose ClusterServiceVersion has another annotation. Names may have slashes."""

    def change(files: Files) -> None:
        annotations = files[CSV]["metadata"]["annotations"]
        annotations.pop(name, None)
        if value is not None:
            annotations[name] = value

    return Case(change, set(rules))


def crd(path: str, value: object, *rules: str) -> Case:
    """Return a bundle whose CRD has another field."""
    return Case(setting(CRD, path, value), set(rules))


def label(name: str, value: str | None, *rules: str) -> Case:
    """Return a bundle with another annotation of the bundle itself."""
    return Case(setting(ANNOTATIONS, f"annotations/{LABELS}{name}", value), set(rules))


def dependency(content: object, *rules: str) -> Case:
    """Return a bundle with one dependency."""
    return Case(adding(DEPENDENCIES, {"dependencies": [content]}), set(rules))


def object_(kind: str, api_version: str, *rules: str, kubernetes: str = "", **fields: object) -> Case:
    """Return a bundle with a further object."""
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "more"}, **fields}
    return Case(adding("manifests/more.yaml", document), set(rules), kubernetes)


def _examples(change: Callable[[list[Any]], object]) -> Callable[[Files], object]:
    def changed(files: Files) -> None:
        annotations = files[CSV]["metadata"]["annotations"]
        examples = json.loads(annotations["alm-examples"])
        change(examples)
        annotations["alm-examples"] = json.dumps(examples)

    return changed


def _old_crd(files: Files) -> None:
    """Make a CRD one of v1beta1."""
    document = files[HARBOURS]
    document["apiVersion"] = "apiextensions.k8s.io/v1beta1"
    spec = document["spec"]
    version = spec.pop("versions")[0]
    spec |= {"version": "v1", "validation": version["schema"], "preserveUnknownFields": False}


def _large(count: int) -> Callable[[Files], object]:
    """Add ConfigMaps of 40 KB each that hardly compress."""
    letters = [chr(each) for each in range(35, 125)]
    random = Random(7)

    def change(files: Files) -> None:
        for place in range(count):
            document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"large{place}"}}
            text = "".join(random.choices(letters, k=40_000))
            files[f"manifests/large{place}.yaml"] = json.dumps({**document, "data": {"text": text}})

    return change


_OWNED = "spec/customresourcedefinitions/owned"
_ACCOUNT = "fleet-controller-manager"
_ROLE_RULE = {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["update"]}
_SCC_RULE = {
    "apiGroups": ["security.openshift.io"],
    "resources": ["securitycontextconstraints"],
    "verbs": ["update"],
    "resourceNames": ["restricted"],
}
_CRD_RULE = {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["create"]}
_PSP_RULE = {"apiGroups": ["policy"], "resources": ["podsecuritypolicies"], "verbs": ["use"]}
_LONG = "fleet-operator." + "v" * 50 + "1.2.0"

BUNDLES: dict[str, Case] = {
    "good": Case(lambda files: None),
    # ---- reading
    "no csv": Case(removing(CSV), {"no-csv"}),
    "two csvs": Case(lambda files: files.update({"manifests/zz.yaml": files[CSV]}), {"several-csvs"}),
    "folder among the manifests": Case(adding("manifests/more/text.txt", "text"), {"nested-folder"}),
    "hidden file": Case(adding("manifests/.hidden.yaml", "kind: Secret\n"), {"hidden-file"}),
    "no yaml": Case(adding("manifests/notes.txt", "a: b: c"), {"unreadable"}),
    "no kind": Case(adding("manifests/notes.yaml", {"apiVersion": "v1"}), {"kind-missing"}),
    "crd of an unknown version": Case(setting(CRD, "apiVersion", "apiextensions.k8s.io/v2"), {"crd-version"}),
    "csv with a number for a text": csv("spec/displayName", 5, "csv-type"),
    "csv with a text for a list": csv("spec/keywords", "ships", "csv-type"),
    "csv with a text for a map": csv("spec/install", "deployment", "csv-type"),
    "csv with a text for a number": csv("spec/install/spec/deployments/0/spec/replicas", "two", "csv-type"),
    "csv with a text for a boolean": csv("spec/installModes/0/supported", "yes!", "csv-type"),
    "container without a name": csv(
        "spec/install/spec/deployments/0/spec/template/spec/initContainers", [{"image": "example.com/init"}]
    ),
    "variable with a number": csv(
        "spec/install/spec/deployments/0/spec/template/spec/containers/0/env/0/value", 5, "csv-type"
    ),
    "csv with a version that is wrong": csv("spec/version", "newest", "csv-version"),
    "annotations that are not yaml": Case(adding("metadata/annotations.yaml", "a: b: c"), {"annotations-unreadable"}),
    # ---- the csv
    "name with an underscore": csv("metadata/name", "fleet_operator.v1.2.0", "csv-name"),
    "name that is too long for a label": csv("metadata/name", _LONG, "csv-name"),
    "no name": csv("metadata/name", None, "csv-name", "name-form", "name-version"),
    "replaces with capitals": csv("spec/replaces", "Fleet.v1", "csv-replaces"),
    "no annotations": csv("metadata/annotations", None, "annotations-missing"),
    "no examples": annotation("alm-examples", None, "examples-missing"),
    "two annotations with examples": annotation("olm.examples", "[]", "examples-twice"),
    "examples that are not json": annotation("alm-examples", "[{,}]", "examples-json"),
    "examples that are empty": annotation("alm-examples", "", "example-missing"),
    "examples that are a map": annotation("alm-examples", "{}", "examples-objects"),
    "examples that are texts": annotation("alm-examples", '["ship"]', "examples-objects"),
    "example without a kind": annotation("alm-examples", '[{"apiVersion": "v1"}]', "examples-objects"),
    "example of another kind": Case(
        _examples(lambda found: found.append({"apiVersion": "v1", "kind": "Pod"})), {"example-not-owned"}
    ),
    "no example of a kind": Case(_examples(lambda found: found.pop()), {"example-missing"}),
    "owned kind without a group": csv(
        f"{_OWNED}/0/name",
        "harbours",
        "owned-name",
        "example-not-owned",
        "owned-crd-missing",
        "owned-crd-name",
        "crd-not-owned",
    ),
    "no install modes": csv("spec/installModes", None, "install-modes-missing"),
    "no install mode is supported": csv(
        "spec/installModes/3/supported", False, "install-modes-unsupported", "conversion-modes"
    ),
    "install mode twice": csv("spec/installModes/4", {"type": "AllNamespaces", "supported": True}),
    "conversion with other install modes": csv("spec/installModes/0/supported", True, "conversion-modes"),
    "no oldest version of kubernetes": csv("spec/minKubeVersion", None, "min-kube-version-missing"),
    "oldest version of kubernetes of two parts": csv("spec/minKubeVersion", "1.30", "min-kube-version"),
    "oldest version of kubernetes that is wrong": csv("spec/minKubeVersion", "new", "min-kube-version"),
    "no display name": csv("spec/displayName", None, "field-missing"),
    "no strategy": csv("spec/install/strategy", None, "field-missing"),
    "no deployments": csv("spec/install/spec/deployments", None, "field-missing", "no-deployment"),
    "empty deployments": csv("spec/install/spec/deployments", []),
    "no install": csv("spec/install", None, "field-missing", "no-deployment"),
    "no metadata": csv(
        "metadata", None, "field-missing", "csv-name", "annotations-missing", "name-form", "name-version"
    ),
    "skip range in lower case": annotation("olm.skiprange", ">=1.0.0 <1.2.0", "annotation-case"),
    "operator group in capitals": annotation("OLM.operatorGroup", "mine", "annotation-case"),
    "properties in an annotation": annotation("olm.properties", "[]", "properties-annotation"),
    "no apiVersion": csv("apiVersion", None, "csv-api-version"),
    # ---- crds
    "owned kind without its crd": Case(removing(HARBOURS), {"owned-crd-missing", "owned-crd-name"}),
    "crd that is not owned": csv(f"{_OWNED}/0", None, "crd-not-owned", "example-not-owned"),
    "one version that is not owned": csv(f"{_OWNED}/2", None, "example-not-owned"),
    "owned version that the crd lacks": csv(
        f"{_OWNED}/2/version", "v7", "owned-crd-missing", "owned-crd-name", "example-not-owned", "example-missing"
    ),
    "owned name with another plural": csv(f"{_OWNED}/0/name", "harbors.fleet.example.com", "owned-crd-name"),
    "owned entry with a group": csv(f"{_OWNED}/0/group", "fleet.example.com", "owned-crd-name"),
    "crd twice": Case(lambda files: files.update({"manifests/zz.yaml": files[CRD]}), {"crd-twice"}),
    "crd with another name": crd("metadata/name", "boats.fleet.example.com", "crd-invalid", "owned-crd-name"),
    "crd with two storage versions": crd("spec/versions/1/storage", True, "crd-invalid"),
    "crd with a scope that is wrong": crd("spec/scope", "Everywhere", "crd-invalid"),
    "crd with a kind in lower case": crd(
        "spec/names/kind", "sh ip", "crd-invalid", "owned-crd-missing", "owned-crd-name", "crd-not-owned"
    ),
    "crd with a version that is not name": crd(
        "spec/versions/1/name", "V_1", "crd-invalid", "owned-crd-missing", "owned-crd-name"
    ),
    "crd without a plural": crd("spec/names/plural", None, "crd-invalid"),
    "crd with an error in its schema": crd(
        "spec/versions/0/schema/openAPIV3Schema/properties/spec/type",
        "objekt",
    ),
    "crd of v1beta1": Case(_old_crd, {"removed-api"}),
    # ---- the bundle
    "service account of the deployment": Case(
        adding(
            "manifests/account.yaml", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _ACCOUNT}}
        ),
        {"service-account"},
    ),
    "another service account": object_("ServiceAccount", "v1"),
    "related image without an image": csv("spec/relatedImages/0", {"name": "x", "image": ""}, "related-image"),
    "related image in capitals": csv("spec/relatedImages/0/image", "Example/Fleet", "related-image"),
    "related image with a short digest": csv("spec/relatedImages/0/image", "fleet@sha256:12", "related-image"),
    "related image that is an identifier": csv("spec/relatedImages/0/image", "a" * 64, "related-image"),
    "related image with sha512": csv("spec/relatedImages/0/image", f"example.com/fleet@sha512:{'a' * 128}"),
    "large bundle": Case(_large(30), {"bundle-size"}),
    "bundle near the limit": Case(_large(22), {"bundle-size-near"}),
    "release that is not in the name": csv("spec/release", "2", "release-name"),
    "release and a substitute": Case(
        both(
            setting(CSV, "spec/release", "2"),
            setting(CSV, "spec/version", "1.2.0"),
            setting(CSV, "metadata/name", "fleet-operator-v1.2.0-2"),
            setting(CSV, "metadata/annotations/olm.substitutesFor", "fleet-operator.v1.1.0"),
        ),
        {"substitutes", "name-form"},
    ),
    # ---- the content of the image
    "no metadata folder": Case(
        lambda files: [files.pop(each) for each in list(files) if each.startswith("metadata/")], {"folder-missing"}
    ),
    "no annotations file": Case(removing(ANNOTATIONS), {"annotations-file"}),
    "no package": label("package.v1", None, "annotation-missing"),
    "no channels": label("channels.v1", None, "annotation-missing", "annotation-empty"),
    "no default channel": label("channel.default.v1", None),
    "empty channels": label("channels.v1", "", "annotation-empty"),
    "empty default channel": label("channel.default.v1", "", "annotation-empty"),
    "another media type": label("mediatype.v1", "plain", "media-type"),
    "no media type": label("mediatype.v1", None, "annotation-missing", "media-type"),
    "kind that olm does not install": object_("Job", "batch/v1", "kind-unsupported"),
    "object with a namespace": Case(setting(SERVICE, "metadata/namespace", "fleets"), {"object-metadata"}),
    "object without a name": Case(setting(SERVICE, "metadata/name", None), {"object-metadata"}),
    "object with a label that is wrong": Case(setting(SERVICE, "metadata/labels/team", "a b"), {"object-metadata"}),
    "object with an annotation that is wrong": Case(
        setting(SERVICE, "metadata/annotations", {"a b": "c"}), {"object-metadata"}
    ),
    "dependency on a package": dependency({"type": "olm.package", "value": {"packageName": "a", "version": ">1.0.0"}}),
    "dependency without a version": dependency(
        {"type": "olm.package", "value": {"packageName": "a"}}, "dependency-field"
    ),
    "dependency without a package": dependency(
        {"type": "olm.package", "value": {"version": "1.0.0"}}, "dependency-field"
    ),
    "dependency with a range that is wrong": dependency(
        {"type": "olm.package", "value": {"packageName": "a", "version": ">=one"}}, "dependency-range"
    ),
    "dependency with a range of two parts": dependency(
        {"type": "olm.package", "value": {"packageName": "a", "version": ">=1.0"}}, "dependency-range"
    ),
    "dependency with alternatives": dependency(
        {"type": "olm.package", "value": {"packageName": "a", "version": ">=1.0.0 <1.3.x || >= 2.0.0"}}
    ),
    "dependency on a kind": dependency({"type": "olm.gvk", "value": {"group": "a.b", "version": "v1", "kind": "C"}}),
    "dependency on a kind without fields": dependency({"type": "olm.gvk", "value": {}}, "dependency-field"),
    "dependency on a label": dependency({"type": "olm.label", "value": {"label": "x"}}),
    "dependency on no label": dependency({"type": "olm.label", "value": {}}, "dependency-field"),
    "dependency with a null": dependency({"type": "olm.label", "value": None}, "dependency-field"),
    "dependency without a value": dependency({"type": "olm.gvk"}, "dependency-value"),
    "dependency of an unknown type": dependency({"type": "olm.wish", "value": {}}, "dependency-type"),
    "dependency with a text": dependency({"type": "olm.gvk", "value": "a.b"}, "dependency-value"),
    "constraint in cel": dependency(
        {"type": "olm.constraint", "value": {"cel": {"rule": "properties.exists(p, p.type == 'certified')"}}}
    ),
    "constraint without cel": dependency({"type": "olm.constraint", "value": {"all": {}}}, "constraint-missing"),
    "constraint without a rule": dependency(
        {"type": "olm.constraint", "value": {"cel": {"rule": ""}}}, "constraint-rule"
    ),
    "constraint that is not cel": dependency(
        {"type": "olm.constraint", "value": {"cel": {"rule": "properties.exists("}}}, "constraint-syntax"
    ),
    # ---- operatorhub
    "no provider": csv("spec/provider", None, "provider"),
    "blank provider": csv("spec/provider/name", " ", "provider"),
    "maintainer without an address": csv("spec/maintainers/0", {"name": "a"}, "maintainer"),
    "maintainer without a name": csv("spec/maintainers/0", {"email": "a@b.c"}, "maintainer"),
    "maintainer with a wrong address": csv("spec/maintainers/0/email", "harbour at example.com", "maintainer-email"),
    "maintainer with name and address": csv("spec/maintainers/0/email", "Harbour <harbour@example.com>"),
    "link without a url": csv("spec/links/0", {"name": "a"}, "link"),
    "link without a name": csv("spec/links/0", {"url": "https://a.b"}, "link"),
    "link that is not url": csv("spec/links/0/url", "example.com", "link-url"),
    "link with a space": csv("spec/links/0/url", "https://example .com", "link-url"),
    "link that is a path": csv("spec/links/0/url", "/docs"),
    "link with a wrong port": csv("spec/links/0/url", "https://example.com:x/", "link-url"),
    "no version": csv("spec/version", None, "version-missing"),
    "version zero": csv("spec/version", "0.0.0", "version-missing"),
    "no icon": csv("spec/icon", None, "icon-missing"),
    "two icons": csv("spec/icon/1", {"base64data": "AA==", "mediatype": "image/png"}, "icons"),
    "icon without data": csv("spec/icon/0/base64data", "", "icon-incomplete"),
    "icon without a type": csv("spec/icon/0/mediatype", "", "icon-incomplete"),
    "icon of an unknown type": csv("spec/icon/0/mediatype", "image/webp", "icon-type"),
    "capability level that is wrong": annotation("capabilities", "Level V", "capabilities"),
    "no capability level": annotation("capabilities", None),
    "category that is wrong": annotation("categories", "Database, Ships", "categories"),
    # ---- good practices
    "no requests": csv(
        "spec/install/spec/deployments/0/spec/template/spec/containers/0/resources/requests", None, "requests"
    ),
    "no resources": csv("spec/install/spec/deployments/0/spec/template/spec/containers/0/resources", None, "requests"),
    "kind without a description": csv(f"{_OWNED}/0/description", None, "description-missing"),
    "required kind without a description": csv(
        "spec/customresourcedefinitions/required",
        [{"name": "a.b.c", "version": "v1", "kind": "A"}],
        "description-missing",
    ),
    "channel with an unusual name": label("channels.v1", "stable,alpha", "channel-names"),
    "permission to create crds": csv("spec/install/spec/clusterPermissions/0/rules/0", _CRD_RULE, "crd-permission"),
    "permission to create crds in a namespace": csv(
        "spec/install/spec/permissions/0/rules/0", _CRD_RULE, "crd-permission"
    ),
    "name without a version": csv("metadata/name", "fleet-operator", "name-version", "name-form"),
    "name with a short version": csv("metadata/name", "fleet-operator.v1.2", "name-version"),
    # ---- removed apis
    "priority class of v1beta1": object_("PriorityClass", "scheduling.k8s.io/v1beta1", "removed-api"),
    "priority class of v1beta1 without a version": Case(
        both(object_("PriorityClass", "scheduling.k8s.io/v1beta1").change, setting(CSV, "spec/minKubeVersion", None)),
        {"removed-api", "min-kube-version-missing"},
    ),
    "removed api for a named version": Case(
        both(
            object_("Role", "rbac.authorization.k8s.io/v1beta1").change, setting(CSV, "spec/minKubeVersion", "1.20.0")
        ),
        {"removed-api"},
        "1.22",
    ),
    "removed api for an older version": Case(
        both(
            object_("Role", "rbac.authorization.k8s.io/v1beta1").change, setting(CSV, "spec/minKubeVersion", "1.20.0")
        ),
        {"removed-api"},
        "1.21",
    ),
    "version of kubernetes that is wrong": Case(lambda files: None, {"kubernetes-version"}, "newest"),
    "budget of v1beta1": Case(setting(BUDGET, "apiVersion", "policy/v1beta1"), {"removed-api"}),
    "autoscaler of v2beta2": object_(
        "HorizontalPodAutoscaler", "autoscaling/v2beta2", "removed-api", "kind-unsupported"
    ),
    "resource of v1beta1": csv(
        f"{_OWNED}/0/resources/0", {"kind": "CronJob", "name": "", "version": "batch/v1beta1"}, "removed-resource"
    ),
    "permission for a removed resource": csv(
        "spec/install/spec/clusterPermissions/0/rules/0", _PSP_RULE, "removed-permission"
    ),
    # ---- other objects
    "budget without unavailable pods": Case(setting(BUDGET, "spec/maxUnavailable", 0), {"max-unavailable"}),
    "budget with a percentage": Case(setting(BUDGET, "spec/maxUnavailable", "50%"), {"max-unavailable"}),
    "budget with all pods available": Case(setting(BUDGET, "spec", {"minAvailable": "100%"}), {"min-available"}),
    "priority class as default": object_("PriorityClass", "scheduling.k8s.io/v1", "global-default", globalDefault=True),
    "role that changes budgets": Case(setting(ROLE, "rules/0", _ROLE_RULE), {"budget-permission"}),
    "role that changes constraints": Case(setting(ROLE, "rules/0", _SCC_RULE), {"constraint-permission"}),
}


def catalog() -> Files:
    """Return a small catalog, in one file."""
    documents: list[Any] = [
        {"schema": "olm.package", "name": "fleet", "defaultChannel": "stable"},
        {
            "schema": "olm.channel",
            "package": "fleet",
            "name": "stable",
            "entries": [
                {"name": "fleet.v1.0.0"},
                {"name": "fleet.v1.1.0", "replaces": "fleet.v1.0.0"},
                {"name": "fleet.v1.2.0", "replaces": "fleet.v1.1.0", "skipRange": ">=1.0.0 <1.2.0"},
            ],
        },
        *(
            {
                "schema": "olm.bundle",
                "package": "fleet",
                "name": f"fleet.v{version}",
                "image": f"example.com/fleet-bundle:v{version}",
                "properties": [{"type": "olm.package", "value": {"packageName": "fleet", "version": version}}],
            }
            for version in ("1.0.0", "1.1.0", "1.2.0")
        ),
        {
            "schema": "olm.deprecations",
            "package": "fleet",
            "entries": [{"reference": {"schema": "olm.bundle", "name": "fleet.v1.0.0"}, "message": "use 1.1.0"}],
        },
    ]
    return {"fleet/catalog.yaml": documents}


_FILE = "fleet/catalog.yaml"


def of(path: str, value: object, *rules: str) -> Case:
    """Return a catalog with another field."""
    return Case(setting(_FILE, path, value), set(rules))


def more(document: object, *rules: str) -> Case:
    """Return a catalog with another object."""
    return Case(lambda files: files[_FILE].append(document), set(rules))


def _again(place: int) -> Callable[[Files], object]:
    return lambda files: files[_FILE].append(files[_FILE][place])


_ENTRIES = "1/entries"
_VALUE = "4/properties/0/value"

CATALOGS: dict[str, Case] = {
    "good": Case(lambda files: None),
    "two files": Case(lambda files: files.update({"more.yaml": files[_FILE].pop()})),
    "text file": Case(adding("README.md", "a: b: c"), {"unreadable"}),
    "ignored file": Case(both(adding("README.md", "a: b: c"), adding(".indexignore", "*.md\n"))),
    "ignored folder": Case(both(adding("docs/a/b.md", "a: b: c"), adding(".indexignore", "docs/\n"))),
    "no schema": more({"name": "x"}, "schema-missing"),
    "another schema": more({"schema": "example.com/notes", "name": "x"}),
    "type of a name": of("0/defaultChannel", 5, "type"),
    "type of the entries": of(_ENTRIES, "all", "type"),
    "type of the skips": of(f"{_ENTRIES}/2/skips", "fleet.v1.0.0", "type"),
    "icon that is not base64": of("0/icon", {"base64data": "?", "mediatype": "image/png"}, "icon-data"),
    "package twice": Case(_again(0), {"package-twice"}),
    "package without a name": more(
        {"schema": "olm.package", "name": "", "defaultChannel": "x"}, "package-name", "no-channel", "default-channel"
    ),
    "package with a name that is wrong": more(
        {"schema": "olm.package", "name": "A.b", "defaultChannel": "x"}, "package-name", "no-channel", "default-channel"
    ),
    "package without a channel": more(
        {"schema": "olm.package", "name": "b", "defaultChannel": "x"}, "no-channel", "default-channel"
    ),
    "no default channel": of("0/defaultChannel", None, "default-channel-missing"),
    "default channel that does not exist": of("0/defaultChannel", "fast", "default-channel"),
    "channel of no package": more(
        {"schema": "olm.channel", "package": "x", "name": "a", "entries": []}, "channel-package"
    ),
    "channel without a name": more(
        {"schema": "olm.channel", "package": "fleet", "name": "", "entries": []}, "channel-name", "channel-empty"
    ),
    "channel twice": Case(_again(1), {"channel-twice"}),
    "channel without entries": more(
        {"schema": "olm.channel", "package": "fleet", "name": "a", "entries": []}, "channel-empty"
    ),
    "entry twice": of(f"{_ENTRIES}/3", {"name": "fleet.v1.0.0"}, "entry-twice"),
    "entry without a bundle": of(
        f"{_ENTRIES}/0/name", "fleet.v0.9.0", "entry-bundle", "bundle-channel", "channel-head"
    ),
    "tail that replaces an absent bundle": of(f"{_ENTRIES}/0/replaces", "fleet.v0.9.0"),
    "empty skip": of(f"{_ENTRIES}/2/skips", [""], "skip-empty"),
    "skip range that is wrong": of(f"{_ENTRIES}/2/skipRange", "all", "skip-range"),
    "two heads": of(f"{_ENTRIES}/2/replaces", None, "channel-head"),
    "no head": of(f"{_ENTRIES}/0/replaces", "fleet.v1.2.0", "channel-head"),
    "cycle below the head": of(f"{_ENTRIES}/0/replaces", "fleet.v1.1.0", "channel-cycle"),
    "stranded entry": Case(
        both(
            setting(_FILE, f"{_ENTRIES}/0/replaces", "fleet.v1.0.0"),
            setting(_FILE, f"{_ENTRIES}/1/replaces", None),
        ),
        {"channel-stranded"},
    ),
    "skipped entry": Case(
        both(
            setting(_FILE, f"{_ENTRIES}/2/skips", ["fleet.v1.1.0"]),
            setting(_FILE, f"{_ENTRIES}/2/replaces", "fleet.v1.0.0"),
        )
    ),
    "bundle of no package": of("4/package", "ships", "bundle-package", "entry-bundle"),
    "bundle without a package": of("4/package", None, "bundle-package", "entry-bundle"),
    "bundle twice": Case(_again(4), {"bundle-twice"}),
    "bundle in no channel": Case(
        lambda files: files[_FILE].append({**files[_FILE][4], "name": "fleet.v2.0.0"}),
        {"bundle-channel", "version-twice"},
    ),
    "bundle without an image": of("4/image", "", "bundle-image"),
    "bundle with an image that is wrong": of("4/image", "Example.com/A B", "bundle-image"),
    "related image that is wrong": of("4/relatedImages", [{"name": "x", "image": "A:B:C"}], "bundle-image"),
    "bundle without properties": of("4/properties", None, "package-property"),
    "two package properties": of(
        "4/properties/1",
        {"type": "olm.package", "value": {"packageName": "fleet", "version": "1.2.0"}},
        "package-property",
    ),
    "property of another package": of(f"{_VALUE}/packageName", "ships", "property-package"),
    "bundle with a short version": of(f"{_VALUE}/version", "1.2", "bundle-version"),
    "property with a wrong value": of("4/properties/1", {"type": "olm.gvk", "value": "a"}, "property-value"),
    "property with a wrong field": of("4/properties/1", {"type": "olm.gvk", "value": {"kind": 5}}, "type"),
    "property of another type": of("4/properties/1", {"type": "example.com/x", "value": [1]}),
    "two bundles of one version": of(f"{_VALUE}/version", "1.1.0", "version-twice"),
    "release that is wrong": of(f"{_VALUE}/release", "a_b", "bundle-release"),
    "release that is too long": of(f"{_VALUE}/release", "a" * 21, "bundle-release"),
    "release that is not in the name": of(f"{_VALUE}/release", "2", "release-name"),
    "deprecations of no package": of("5/package", "ships", "deprecations-package"),
    "deprecations without a package": of("5/package", None, "deprecations-package"),
    "deprecations twice": Case(_again(5), {"deprecations-twice"}),
    "deprecation twice": of(
        "5/entries/1",
        {"reference": {"schema": "olm.bundle", "name": "fleet.v1.0.0"}, "message": "x"},
        "deprecation-twice",
    ),
    "deprecated package": of("5/entries/0/reference", {"schema": "olm.package"}),
    "deprecated channel": of("5/entries/0/reference", {"schema": "olm.channel", "name": "stable"}),
    "deprecated package with a name": of(
        "5/entries/0/reference", {"schema": "olm.package", "name": "fleet"}, "deprecation-reference"
    ),
    "deprecated bundle that does not exist": of("5/entries/0/reference/name", "fleet.v9.0.0", "deprecation-reference"),
    "deprecated channel that does not exist": of(
        "5/entries/0/reference", {"schema": "olm.channel", "name": "x"}, "deprecation-reference"
    ),
    "deprecation without a schema": of("5/entries/0/reference", {"name": "x"}, "deprecation-reference"),
    "deprecation of another schema": of("5/entries/0/reference", {"schema": "x", "name": "x"}, "deprecation-reference"),
    "deprecation without a message": of("5/entries/0/message", "", "deprecation-message"),
}


# ---- what Go says

GO: dict[str, str] = {
    "no-csv": "unable to find a csv",
    "several-csvs": "multiple CSVs",
    "nested-folder": "contains directory",
    "hidden-file": "hidden file",
    "unreadable": "unable to decode object|yaml|json|YAML|JSON",
    "kind-missing": "Object 'Kind' is missing",
    "crd-version": "unsupported CRD version",
    "csv-type": "unable to parse CSV|cannot convert",
    "csv-version": "unable to parse CSV",
    "annotations-unreadable": "unable to load the annotations file",
    "csv-name": r"metadata\.name \"",
    "csv-replaces": r"spec\.replaces \"",
    "annotations-missing": "annotations not found",
    "examples-missing": "example annotations not found",
    "examples-twice": "both `alm-examples` and `olm.examples`",
    "examples-json": "invalid example",
    "examples-objects": "error decoding example",
    "example-not-owned": "example must have a provided API",
    "example-missing": "provided API should have an example",
    "owned-name": r"couldn't parse plural\.group",
    "install-modes-missing": "install modes not found",
    "install-modes-unsupported": "none of InstallModeTypes",
    "conversion-modes": "when conversionCRDs is present",
    "min-kube-version-missing": "minKubeVersion is not informed",
    "min-kube-version": "MinKubeVersion .*invalid value",
    "field-missing": "required field missing",
    "annotation-case": "uses wrong case",
    "properties-annotation": "olm.properties annotation",
    "csv-api-version": "'apiVersion' is missing",
    "owned-crd-missing": r"owned CRD \".*not found in bundle",
    "crd-not-owned": "but not defined in CSV",
    "owned-crd-name": r"owned CRD [^\"]*not found in bundle|error getting CSV CRDs",
    "crd-twice": "duplicate CRD",
    "crd-invalid": r"(spec|metadata)\.[\w.\[\]]+: ",
    "service-account": "invalid service account",
    "related-image": "relatedImages",
    "bundle-size": "maximum bundle compressed size",
    "bundle-size-near": "nearing maximum bundle",
    "release-name": "does not match (expected|normalized) name",
    "substitutes": "cannot have both a release version",
    "folder-missing": "Unable to locate",
    "annotations-file": "Could not find annotations file",
    "annotation-missing": "Missing annotation",
    "annotation-empty": "to have non-empty value",
    "media-type": "mediatype.v1. to have value",
    "kind-unsupported": "is not supported type",
    "object-metadata": "error validating object metadata",
    "dependency-field": "is empty|information is missing",
    "dependency-range": "Invalid semver format",
    "dependency-type": "couldn't parse dependency",
    "dependency-value": "couldn't parse dependency",
    "constraint-missing": "CEL field is missing",
    "constraint-rule": "CEL expression is missing",
    "constraint-syntax": "Invalid CEL expression",
    "provider": "Provider.Name not specified",
    "maintainer": "Maintainers elements",
    "maintainer-email": "Maintainers email",
    "link": "Links elements",
    "link-url": "Links url",
    "version-missing": "Spec.Version must be set",
    "icon-missing": "Icon not specified",
    "icons": "only have one element",
    "icon-incomplete": "both data and mediatype",
    "icon-type": "valid mediatype",
    "capabilities": "capabilities",
    "categories": "categories",
    "requests": "resource requests",
    "no-deployment": "unable to find a deployment",
    "description-missing": "empty description",
    "channel-names": r"channel\(s\)",
    "crd-permission": "permissions to create CRD",
    "name-version": "versioning convention",
    "name-form": "recommended naming convention: <operator",
    "removed-api": "deprecated and removed",
    "removed-resource": "deprecated and removed",
    "removed-permission": "deprecated and removed.*podsecuritypolicies",
    "kubernetes-version": "invalid value informed via the k8s key",
    "max-unavailable": "maxUnavailable field",
    "min-available": "minAvailable field",
    "global-default": "globalDefault field",
    "budget-permission": "create/update poddisruptionbudgets",
    "constraint-permission": "modify default securitycontextconstraints",
    "schema-missing": "missing root schema",
    "type": "parse|cannot unmarshal|expected value",
    "icon-data": "illegal base64",
    "package-twice": "duplicate package",
    "package-name": "package with no name|invalid package name",
    "no-channel": "at least one channel|default channel",
    "default-channel-missing": "default channel must be set",
    "default-channel": "channel must contain at least one bundle",
    "channel-package": "unknown package .* for channel",
    "channel-name": "channel with no name",
    "channel-twice": "duplicate channel",
    "channel-empty": "channel must contain at least one bundle",
    "entry-twice": "duplicate entry",
    "entry-bundle": "no olm.bundle blobs found|not found in any channel",
    "skip-empty": "is empty",
    "skip-range": "invalid skipRange",
    "channel-head": "channel head",
    "channel-cycle": "cycle in replaces chain",
    "channel-stranded": "stranded bundles",
    "bundle-package": "unknown package .* for bundle|package name must be set for bundle",
    "bundle-twice": "duplicate bundle",
    "bundle-channel": "not found in any channel",
    "bundle-image": "bundle image must be set|invalid image pull spec",
    "package-property": "must have exactly 1",
    "property-value": "parse property|parse properties",
    "property-package": 'does not match "olm.package" property',
    "bundle-version": "error parsing bundle",
    "version-twice": "duplicate versions",
    "bundle-release": "release version",
    "deprecations-package": "unknown package|package name must be set",
    "deprecations-twice": "maximum of one deprecation",
    "deprecation-twice": "duplicate deprecation entry",
    "deprecation-reference": "cannot deprecate|package name must be empty|schema must be set",
    "deprecation-message": "message must be set",
}
"""Which text of Go's validators stands for a rule."""

_START = 60
"""Characters of a text that tell it from others. Its end may have values that Go prints in another way each time."""
_SHOWN = 240
"""Characters of a text that are recorded."""

Outcome = list[list[str]]
"""Findings of Go: suite, level and text."""


def outcomes() -> dict[str, dict[str, Outcome]]:
    """Return the recorded answers, by what was validated and the name of the case."""
    recorded: dict[str, dict[str, Outcome]] = json.loads(OUTCOMES.read_text())
    return recorded


def differences(findings: Iterable[Finding], outcome: Outcome) -> list[str]:
    """Return the findings that only Kubewright or only Go has."""
    found = list(findings)
    unread = [each for each in outcome if each[0] == "load"]
    if unread:  # Go says nothing more about a bundle that it cannot read
        found, outcome = [each for each in found if each.suite == "load"], unread
    own = [each for each in found if not any(_same(each, other) for other in outcome)]
    others = [other for other in outcome if not any(_same(each, other) for each in found)]
    return [f"only Kubewright: {each.suite} {each.rule}: {each}" for each in own] + [
        f"only Go: {' '.join(each)}" for each in others
    ]


def catalog_differences(findings: Iterable[Finding], outcome: Outcome) -> list[str]:
    """Return how findings about a catalog differ from those of Go, which stops at the first one."""
    found = list(findings)
    if not outcome:
        return [f"only Kubewright: {each.rule}: {each}" for each in found]
    text = outcome[0][2]
    is_found = any(re.search(GO[each.rule], text, re.DOTALL) for each in found)
    return [] if is_found else [f"only Go: {text}"]


def _same(finding: Finding, outcome: list[str]) -> bool:
    suite, level, text = outcome
    return (finding.suite, finding.level) == (suite, level) and re.search(GO[finding.rule], text, re.DOTALL) is not None


def ask(program: Path, folder: Path) -> dict[str, dict[str, Outcome]]:
    """Ask the Go program about all cases. `folder` is empty."""
    requests: list[dict[str, object]] = []
    names: list[tuple[str, str]] = []
    for what, cases in (("bundle", BUNDLES), ("catalog", CATALOGS)):
        for place, (name, case) in enumerate(cases.items()):
            files = golden() if what == "bundle" else catalog()
            case.change(files)
            path = folder / what / str(place)
            write(files, path)
            for kind in ("bundle", "format") if what == "bundle" else ("catalog",):
                names.append((what, name))
                suites = ["default", *SUITES["all"]]
                request: dict[str, object] = {
                    "what": kind,
                    "path": str(path),
                    "suites": suites,
                    "kubernetes": case.kubernetes,
                }
                requests.append(request)
    asked = "".join(f"{json.dumps(each)}\n" for each in requests)
    done = subprocess.run([program], input=asked, stdout=subprocess.PIPE, text=True, check=True)
    answers: dict[str, dict[str, Outcome]] = {"bundle": {}, "catalog": {}}
    lines = [each for each in done.stdout.splitlines() if each.startswith("[")]  # one validator prints notes
    for (what, name), line in zip(names, lines, strict=True):
        answers[what].setdefault(name, []).extend(_outcome(json.loads(line), folder))
    return {what: {name: _normal(found) for name, found in cases.items()} for what, cases in answers.items()}


def _outcome(answer: list[dict[str, str]], folder: Path) -> Outcome:
    suites = {"content": "format"}
    return [
        [
            suites.get(each["suite"], each["suite"]),
            each["level"].lower(),
            " ".join(filter(None, (each["text"], each["field"], each["value"]))).replace(str(folder), "")[:_SHOWN],
        ]
        for each in answer
    ]


def _normal(found: Outcome) -> Outcome:
    """Leave out what the validation of the image repeats of the default rules, and sort."""
    default = {text[:_START] for suite, _, text in found if suite == "default"}
    kept = [each for each in found if not (each[0] == "format" and each[2][:_START] in default)]
    return sorted({tuple(each): each for each in kept}.values())


def validated(what: str, name: str, folder: Path) -> list[Finding]:
    """Return Kubewright's findings about a case. `folder` is empty."""
    case = BUNDLES[name] if what == "bundle" else CATALOGS[name]
    files = golden() if what == "bundle" else catalog()
    case.change(files)
    write(files, folder)
    if what == "bundle":
        return validate_bundle(folder, ["all"], kubernetes=case.kubernetes)
    return validate_catalog(folder)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = ask(Path(sys.argv[1]), Path(folder))
    OUTCOMES.write_text(f"{json.dumps(found, indent=1, ensure_ascii=False)}\n")


if __name__ == "__main__":
    main()
