"""Objects of templates, which KUDO gives labels, annotations and a hash."""

from __future__ import annotations

from typing import Any, Final

INSTANCE: Final[dict[str, Any]] = {
    "apiVersion": "kudo.dev/v1beta1",
    "kind": "Instance",
    "metadata": {"name": "zk", "namespace": "storage", "uid": "instance-uid"},
}
_POD: Final = """
    metadata:
      labels: {app: x}
    spec:
      imagePullSecrets: [{name: pull}]
      containers: [{name: a, image: b}]
      volumes:
        - {name: a, configMap: {name: settings}}
        - {name: b, secret: {secretName: key}}
        - {name: c, secret: {secretName: absent}}
"""
_SETTINGS: Final = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  labels: {a: b}
data: {a: "1", b: "yes"}
"""


def _workload(kind: str, version: str = "apps/v1") -> str:
    more = "  volumeClaimTemplates: [{metadata: {name: data}, spec: {}}]\n" if kind == "StatefulSet" else ""
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: web}}\nspec:\n{more}  template:{_POD}"


_KEY: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "key", "namespace": "storage", "labels": {"x": "y"}, "annotations": {"z": "1"}},
    "type": "Opaque",
    "data": {"key": "YQ=="},
}
_SKIPPED: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "pull", "namespace": "storage", "annotations": {"kudo.dev/skip-hash-calculation": "true"}},
}


def _question(text: str, *existing: dict[str, Any]) -> dict[str, Any]:
    return {"ask": "enhance", "text": text, "new": INSTANCE, "existing": list(existing)}


ENHANCEMENTS: Final[dict[str, dict[str, Any]]] = {
    "a config map": _question(_SETTINGS),
    "a cluster role": _question(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: web}\nrules: []\n"
    ),
    "a custom object": _question("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: web}\nspec: {size: 1}\n"),
    "a deployment": _question(_workload("Deployment"), _KEY, _SKIPPED),
    "a stateful set with its settings": _question(f"{_SETTINGS}---\n{_workload('StatefulSet')}", _KEY),
    "a daemon set": _question(_workload("DaemonSet")),
    "a replica set": _question(_workload("ReplicaSet")),
    "a job": _question(_workload("Job", "batch/v1"), _KEY),
    "a cron job": _question(
        "apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: web}\nspec:\n  schedule: '* * * * *'\n"
        "  jobTemplate:"
        f"\n    spec:\n      template:{_POD.replace('    ', '          ')}",
    ),
    "labels and annotations": _question(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  labels: {heritage: other}\n  annotations: {a: b}\n"
    ),
}
