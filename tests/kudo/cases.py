"""Packages, good and broken, and questions about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from kudo.admissions import ADMISSIONS
from kudo.objects import ENHANCEMENTS

SAMPLES: Final = Path(__file__).parent / "samples"
NAMES: Final = ("zookeeper", "kafka", "cassandra", "stack", "redis", "rabbitmq", "elastic", "everything")
Files = dict[str, str]


def sample(name: str) -> Files:
    """Return the files of a sample package."""
    folder = SAMPLES / name
    return {each.relative_to(folder).as_posix(): each.read_text() for each in folder.rglob("*.yaml")}


_ZOO: Final = sample("zookeeper")
_KAFKA: Final = sample("kafka")


def _changed(files: Files, file: str, old: str, new: str) -> Files:
    assert old in files[file], f"{file} has no {old!r}"
    return {**files, file: files[file].replace(old, new, 1)}


def _zoo(file: str, old: str, new: str) -> Files:
    return _changed(_ZOO, file, old, new)


def _kafka(file: str, old: str, new: str) -> Files:
    return _changed(_KAFKA, file, old, new)


def _parameter(text: str) -> Files:
    """Return a package with one more parameter, which a template uses."""
    files = {**_ZOO, "params.yaml": f"{_ZOO['params.yaml']}  - name: EXTRA\n    description: x\n{text}"}
    files["templates/scripts.yaml"] += "  extra: {{ .Params.EXTRA | quote }}\n"
    return files


_PORT: Final = "port: {{ .Params.CLIENT_PORT }}"
_NAMESPACE: Final = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: x\n"
BROKEN: Final[dict[str, Files]] = {
    # operator.yaml
    "no operator version": _zoo("operator.yaml", 'operatorVersion: "1.0.0"\n', ""),
    "bad operator version": _zoo("operator.yaml", '"1.0.0"', '"one"'),
    "short versions": _zoo("operator.yaml", '"1.0.0"', "1.0"),
    "version with leading zero": _zoo("operator.yaml", '"1.0.0"', '"1.02.0"'),
    "bad app version": _zoo("operator.yaml", "3.9.1", "latest"),
    "bad kudo version": _zoo("operator.yaml", "0.19.0", "0.19.0.1"),
    "prerelease": _zoo("operator.yaml", "0.19.0", "0.19.0-rc1+build"),
    "no kubernetes version": _zoo("operator.yaml", "kubernetesVersion: 1.16.0\n", ""),
    "unknown task kind": _zoo("operator.yaml", "kind: Dummy", "kind: Wait"),
    "apply without resources": _zoo("operator.yaml", "        - statefulset.yaml\n", ""),
    "delete without resources": _zoo("operator.yaml", "kind: Dummy", "kind: Delete"),
    "toggle without parameter": _kafka("operator.yaml", "      parameter: MONITOR\n", ""),
    "toggle of an unknown parameter": _kafka("operator.yaml", "parameter: MONITOR", "parameter: MONITR"),
    "undefined task": _zoo("operator.yaml", "              - app\n", "              - ap\n"),
    "unused task": _zoo("operator.yaml", "              - infra\n", ""),
    "no deploy plan": _zoo("operator.yaml", "  deploy:", "  install:"),
    "pipe without files": _kafka("operator.yaml", "      pipe:\n", "      pipes:\n"),
    "pipe with both files": _kafka("operator.yaml", "        - envFile: /tmp/settings\n",
                                   "        - envFile: /tmp/settings\n          file: /tmp/x\n"),
    "pipe of an unknown kind": _kafka("operator.yaml", "kind: ConfigMap", "kind: File"),
    "pipe with a bad key": _kafka("operator.yaml", "key: settings", "key: set.tings"),
    "two pipes of a key": _kafka("operator.yaml", "key: settings", "key: privatekey"),
    "undefined template": _zoo("operator.yaml", "- pdb.yaml", "- pdbs.yaml"),
    "undefined pipe pod": _kafka("operator.yaml", "pod: certificates.yaml", "pod: certificate.yaml"),
    "operator task without package": _changed(sample("stack"), "operator.yaml", "      package: ../zookeeper\n", ""),
    "undefined parameter file": _changed(sample("stack"), "operator.yaml", "zookeeper-params.yaml", "zk-params.yaml"),
    # params.yaml
    "undefined trigger": _zoo("params.yaml", "trigger: validation", "trigger: validate"),
    "undefined group": _zoo("params.yaml", "group: ports", "group: port"),
    "group with a slash": _parameter("    group: a/b\n"),
    "duplicate group": _zoo("params.yaml", "parameters:", "  - name: ports\nparameters:"),
    "defined group with a slash": _zoo("params.yaml", "- name: ports", "- name: po/rts"),
    "duplicate parameter": _parameter("  - name: extra\n    trigger: deploy\n"),
    "parameter with a semicolon": _parameter('  - name: "A;B"\n    trigger: deploy\n'),
    "unused parameter": _parameter("  - name: UNUSED\n"),
    "immutable without value": _parameter("    required: false\n    immutable: true\n"),
    "immutable and required": _parameter("    immutable: true\n"),
    "advanced without value": _parameter("    advanced: true\n"),
    "advanced and optional": _parameter("    advanced: true\n    required: false\n"),
    "empty enum": _parameter("    enum: []\n"),
    "enum of another type": _parameter("    type: integer\n    enum: ['1', 'two']\n"),
    "default outside of the enum": _parameter("    type: string\n    enum: ['a', 'b']\n    default: c\n"),
    "default in the enum": _parameter("    enum: ['a', 'b']\n    default: b\n"),
    "string that is a number": _parameter("    type: string\n    default: 5\n"),
    "integer that is text": _parameter("    type: integer\n    default: five\n"),
    "integer in quotes": _parameter("    type: integer\n    default: '5'\n"),
    "integer that is a fraction": _parameter("    type: integer\n    default: '5.5'\n"),
    "number": _parameter("    type: number\n    default: 5.5\n"),
    "number that is text": _parameter("    type: number\n    default: '5,5'\n"),
    "boolean": _parameter("    type: boolean\n    default: true\n"),
    "boolean in quotes": _parameter("    type: boolean\n    default: 'T'\n"),
    "boolean that is text": _parameter("    type: boolean\n    default: 'yes'\n"),
    "array that is text": _parameter("    type: array\n    default: 'a, b'\n"),
    "array in quotes": _parameter("    type: array\n    default: '[a, b]'\n"),
    "array that is a map": _parameter("    type: array\n    default: {a: b}\n"),
    "map that is an array": _parameter("    type: map\n    default: [a]\n"),
    "map in quotes": _parameter("    type: map\n    default: 'a: b'\n"),
    "map that is text": _parameter("    type: map\n    default: abc\n"),
    "no parameters": {**_ZOO, "params.yaml": "apiVersion: kudo.dev/v1beta1\n"},
    # templates
    "undefined parameter": _zoo("templates/services.yaml", _PORT, "port: {{ .Params.CLIENT_PRT }}"),
    "undefined parameter in a branch": _zoo(
        "templates/services.yaml", _PORT, "port: 1{{ if eq .Name \"zk\" }}{{ .Params.OTHER }}{{ end }}"
    ),
    "undefined variable": _zoo("templates/services.yaml", "name: {{ .Name }}-cs", "name: {{ .Nme }}-cs"),
    "undefined function": _zoo("templates/services.yaml", _PORT, "port: {{ .Params.CLIENT_PORT | env }}"),
    "unclosed action": _zoo("templates/services.yaml", _PORT, "port: {{ .Params.CLIENT_PORT "),
    "unclosed block": _zoo("templates/services.yaml", _PORT, "port: {{ if .Name }}1"),
    "function that fails": _zoo("templates/services.yaml", _PORT, "port: {{ .Params.CLIENT_PORT | fail }}"),
    "not YAML": _zoo("templates/services.yaml", "      port: {{ .Params.CLIENT_PORT }}", "     port: 1\n   x"),
    "no kind": _zoo("templates/services.yaml", "kind: Service", "kynd: Service"),
    "unused template": {**_ZOO, "templates/other.yaml": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\n"},
    "comments only": {**_ZOO, "templates/pdb.yaml": "# nothing\n---\n\n---\n# nothing\n"},
    "namespace": {**_ZOO, "templates/pdb.yaml": _NAMESPACE},
    "namespace manifest": {
        **_zoo("operator.yaml", "tasks:", "namespaceManifest: ns.yaml\ntasks:"), "templates/ns.yaml": _NAMESPACE,
    },
    "namespace manifest of another kind": {
        **_zoo("operator.yaml", "tasks:", "namespaceManifest: ns.yaml\ntasks:"),
        "templates/ns.yaml": _NAMESPACE.replace("Namespace", "Secret"),
    },
    "two namespace manifests": {
        **_zoo("operator.yaml", "tasks:", "namespaceManifest: ns.yaml\ntasks:"),
        "templates/ns.yaml": f"{_NAMESPACE}---\n{_NAMESPACE}",
    },
    "no namespace manifest": _zoo("operator.yaml", "tasks:", "namespaceManifest: ns.yaml\ntasks:"),
    # files that cannot be read
    "another API version": _zoo("operator.yaml", "kudo.dev/v1beta1", "kudo.dev/v1"),
    "another API version of parameters": _zoo("params.yaml", "kudo.dev/v1beta1", "kudo.dev/v1"),
    "tasks that are a map": _zoo("operator.yaml", "tasks:", "tasks: {}\nother:"),
    "text in place of a boolean": _parameter("    required: perhaps\n"),
    "no params.yaml": {name: text for name, text in _ZOO.items() if name != "params.yaml"},
    "no operator.yaml": {name: text for name, text in _ZOO.items() if name != "operator.yaml"},
    "operator.yaml is not YAML": _zoo("operator.yaml", "tasks:", "tasks: ["),
}  # fmt: skip

_DEFAULTS: Final = (
    "short versions", "number", "boolean", "default in the enum", "array in quotes", "map in quotes", "no parameters",
    "immutable and required", "advanced and optional", "pipe with both files",
)  # fmt: skip
"""Packages whose objects are compared, too."""


def packages() -> dict[str, Files]:
    """Return all packages, by name."""
    return {**{name: sample(name) for name in NAMES}, **BROKEN}


def questions() -> dict[str, dict[str, Any]]:
    """Return the questions to KUDO, by name."""
    asked: dict[str, dict[str, Any]] = {}
    for name, files in packages().items():
        asked[f"verify {name}"] = {"ask": "verify", "files": files}
        if name in (*NAMES, *_DEFAULTS):
            asked[f"resources {name}"] = {"ask": "resources", "files": files}
    asked["verify texts"] = {"ask": "verify", "files": sample("zookeeper"), "checks": ["all"]}
    asked |= {f"admission {name}": question for name, question in ADMISSIONS.items()}
    asked |= {f"enhance {name}": question for name, question in ENHANCEMENTS.items()}
    return asked
