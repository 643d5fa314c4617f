"""The Widget operator on Kopf: `kopf run widgets.py`.

As in Kopf's tutorial, handlers are plain functions, children are created with the official client and adopted, and the
status is written to `patch`. Kopf cannot watch the objects that an object owns.
"""

from datetime import UTC, datetime

import kopf
import kubernetes

GROUP = "bench.kubewright.dev"


@kopf.on.resume(GROUP, "v1", "widgets")
@kopf.on.create(GROUP, "v1", "widgets")
@kopf.on.update(GROUP, "v1", "widgets")
def reconcile(spec, status, meta, name, namespace, patch, **_):
    """Maintain the ConfigMap of a Widget, and report it in the status."""
    config_map = {"metadata": {"name": name}, "data": {"message": spec["message"], "size": str(spec["size"])}}
    kopf.adopt(config_map)
    api = kubernetes.client.CoreV1Api()
    try:
        api.create_namespaced_config_map(namespace, config_map)
    except kubernetes.client.ApiException as error:
        if error.status != 409:
            raise
        api.patch_namespaced_config_map(name, namespace, config_map)

    generation = meta["generation"]
    patch.status["observedGeneration"] = generation
    patch.status["configMap"] = name
    patch.status["conditions"] = [ready(status, generation)]


def ready(status, generation):
    known = next((each for each in status.get("conditions", []) if each["type"] == "Ready"), {})
    return {
        "type": "Ready",
        "status": "True",
        "reason": "ConfigMapUpToDate",
        "message": "the ConfigMap matches the spec",
        "observedGeneration": generation,
        "lastTransitionTime": known.get("lastTransitionTime") or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
