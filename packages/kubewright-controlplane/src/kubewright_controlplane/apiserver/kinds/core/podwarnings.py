"""Warnings about the spec of a Pod or of a template: what is accepted, but deprecated or probably not meant.

Follows k8s.io/kubernetes pkg/api/pod/warnings.go and pkg/api/node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.json import JSONObject, quoted
from kubewright.machinery.quantity import Quantity

_NODE_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_VOLUMES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_FILE_VOLUMES: Final = (
    ("configMap", "name", "ConfigMap"),
    ("secret", "secretName", "Secret"),
    ("downwardAPI", "", "DownwardAPI"),
)
_MOST_OVERLAPS: Final = 64
"""Overlapping paths of a volume that are reported. Nested ones are as many as their square."""
_AS_WRITTEN: Final = {"storageos": "storageOS"}
_DURING: Final = "DuringSchedulingIgnoredDuringExecution"
_BYTES: Final = ("memory", "ephemeral-storage")
_NO_POD: Final = "a null labelSelector results in matching no pod"


def template_warnings(path: str, template: JSONObject) -> list[str]:
    """Return the warnings about a Pod's template at `path`; about a Pod if `path` is empty."""
    at = f"{path}." if path else ""
    spec: JSONObject = template.get("spec") or {}
    found = [*_label_warnings(f"{at}spec", spec), *_spread_warnings(f"{at}spec", spec)]
    annotations: JSONObject = (template.get("metadata") or {}).get("annotations") or {}
    found += [f"{at}metadata.annotations[{key}]: {why}" for key, why in _ANNOTATIONS.items() if key in annotations]
    for index, volume in enumerate(spec.get("volumes") or ()):
        place = f"{at}spec.volumes[{index}]"
        found += [f"{place}.{_AS_WRITTEN.get(key, key)}: {why}" for key, why in _VOLUMES.items() if volume.get(key)]
    for volume in spec.get("volumes") or ():
        found += _overlaps(volume)
    found += _duplicates(f"{at}spec", spec)
    found += _fractions(f"{at}spec.overhead", spec.get("overhead") or {})
    containers = list(_containers(f"{at}spec", spec))
    for place, container in containers:
        resources: JSONObject = container.get("resources") or {}
        for kind in ("limits", "requests"):
            found += _fractions(f"{place}.resources.{kind}", resources.get(kind) or {})
        found += _hidden_variables(place, container)
    found += _port_warnings(containers)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        why = "must be >= 0; negative values are invalid and will be treated as 1"
        found.append(f"{at}spec.terminationGracePeriodSeconds: {why}")
    return [*found, *_affinity_warnings(f"{at}spec.affinity", spec.get("affinity") or {})]


def workload_warnings(obj: JSONObject, old: JSONObject | None, path: str = "spec") -> list[str]:
    """Return the warnings about the template below `path` of a new or changed workload, and about its name."""
    if not is_changed(obj, old):
        return []
    owner = obj
    for field in path.split("."):
        owner = owner[field]
    return [*(_name_warnings(obj) if old is None else ()), *template_warnings(f"{path}.template", owner["template"])]


def is_changed(obj: JSONObject, old: JSONObject | None) -> bool:
    """Return whether an object is new, or its spec differs from that of the old one."""
    return old is None or obj["metadata"].get("generation") != old["metadata"].get("generation")


def _name_warnings(obj: JSONObject) -> list[str]:
    """Return the warning about a name that is not a DNS label, although Pods are named after it."""
    wrong = names.dns1123_label(obj["metadata"]["name"])
    why = (
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
        "a DNS label is recommended: "
    )
    return [f"{why}[{' '.join(wrong)}]"] if wrong else []


def _label_warnings(path: str, spec: JSONObject) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if why := _NODE_LABELS.get(key):
            yield f"{path}.nodeSelector[{key}]: {why}"
    affinity: JSONObject = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    at = f"{path}.affinity.nodeAffinity"
    needed: JSONObject = affinity.get(f"required{_DURING}") or {}
    for index, term in enumerate(needed.get("nodeSelectorTerms") or ()):
        yield from _term_warnings(f"{at}.required{_DURING}.nodeSelectorTerms[{index}]", term, values=False)
    for index, term in enumerate(affinity.get(f"preferred{_DURING}") or ()):
        place = f"{at}.preferred{_DURING}[{index}].preference"
        yield from _term_warnings(place, term.get("preference") or {}, values=True)


def _term_warnings(path: str, term: JSONObject, *, values: bool) -> Iterator[str]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        at, key = f"{path}.matchExpressions[{index}]", expression.get("key") or ""
        if why := _NODE_LABELS.get(key):
            yield f"{at}.key: {key} is {why}"
        for place, value in enumerate(expression.get("values") or () if values else ()):
            yield from (f"{at}.values[{place}]: {value} is invalid, {why}" for why in names.label_value(value))


def _spread_warnings(path: str, spec: JSONObject) -> Iterator[str]:
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        at, key = f"{path}.topologySpreadConstraints[{index}]", constraint.get("topologyKey") or ""
        if why := _NODE_LABELS.get(key):
            yield f"{at}.topologyKey: {key} is {why}"
        if constraint.get("labelSelector") is None:
            yield f"{at}.labelSelector: {_NO_POD}"


def _overlaps(volume: JSONObject) -> Iterator[str]:
    """Yield the warnings about files of a volume that take each other's place."""
    name = quoted(volume.get("name") or "")
    for kind, of_name, title in _FILE_VOLUMES:
        source: JSONObject = volume.get(kind) or {}
        shown = f"{title} {quoted(source.get(of_name) or '')}" if of_name else title
        files = [(item.get("path") or "", "") for item in source.get("items") or ()]
        yield from (f"volume {name} ({shown}): overlapping paths: {each}" for each in _clashing_files(files))
    projected: list[tuple[str, str]] = []
    for each in (volume.get("projected") or {}).get("sources") or ():
        if not each:
            yield f"volume {name} (Projected) has no sources provided"
        projected += _projected_files(each)
    yield from (f"volume {name} (Projected): overlapping paths: {each}" for each in _clashing_files(projected))


def _projected_files(source: JSONObject) -> list[tuple[str, str]]:
    """Return the paths of a projected source, and its name in warnings."""
    for kind, _, title in _FILE_VOLUMES:
        files: JSONObject = source.get(kind) or {}
        if files.get("items"):
            shown = title if kind == "downwardAPI" else f"{title} {quoted(files.get('name') or '')}"
            return [(item.get("path") or "", shown) for item in files["items"]]
    token = source.get("serviceAccountToken")
    return [] if token is None else [(token.get("path") or "", "ServiceAccountToken")]


def _clashing_files(files: list[tuple[str, str]]) -> list[str]:
    """Return each file that has the path of an earlier one, or of a folder of it, or the reverse."""
    keys = [path.rstrip("/").replace("/", "\0") + "\0" for path, _ in files]
    above: list[int] = []
    pairs: list[tuple[int, int]] = []
    for index in sorted((index for index, key in enumerate(keys) if key != "\0"), key=keys.__getitem__):
        while above and not keys[index].startswith(keys[above[-1]]):
            above.pop()
        room = _MOST_OVERLAPS - len(pairs)
        if not room:
            break
        pairs += [(max(index, other), min(index, other)) for other in above[:room]]
        above.append(index)
    return [f"{_file(*files[later])} with {_file(*files[earlier])}" for later, earlier in sorted(pairs)]


def _file(path: str, source: str) -> str:
    shown = quoted(path.rstrip("/"))
    return f"{shown} ({source})" if source else shown


def _duplicates(path: str, spec: JSONObject) -> Iterator[str]:
    for field, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for index, each in enumerate(spec.get(field) or ()):
            value = each.get(key) or ""
            if value in seen:
                yield f"{path}.{field}[{index}].{key}: duplicate {key} {quoted(value)}"
            seen.add(value)
    for index, each in enumerate(spec.get("imagePullSecrets") or ()):
        if not each.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'


def _fractions(path: str, amounts: JSONObject) -> Iterator[str]:
    for name in _BYTES:
        if name in amounts and not (amount := Quantity.of(amounts[name])).is_integer():
            yield f'{path}[{name}]: fractional byte value "{amount}" is invalid, must be an integer'


def _containers(path: str, spec: JSONObject) -> Iterator[tuple[str, JSONObject]]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield f"{path}.{field}[{index}]", container


def _hidden_variables(path: str, container: JSONObject) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name") or "", variable.get("value") or ""
        reference = f"$({name})"
        extends = not variable.get("valueFrom") and value != reference and reference in value
        if name in seen and not extends:
            yield (
                f"{path}.env[{index}]: hides previous definition of {quoted(name)}, "
                "which may be dropped when using apply"
            )
        seen.add(name)


def _port_warnings(containers: list[tuple[str, JSONObject]]) -> list[str]:
    found: list[str] = []
    known: dict[tuple[int, str], list[tuple[str, JSONObject]]] = {}
    named: list[str] = []
    by_name: dict[str, str] = {}
    for path, container in containers:
        for index, port in enumerate(container.get("ports") or ()):
            at = f"{path}.ports[{index}]"
            if port.get("hostIP") and not port.get("hostPort"):
                found.append(f"{at}: hostIP set without hostPort: {_shown(port)}")
            others = known.setdefault((port.get("containerPort") or 0, port.get("protocol") or ""), [])
            found += [
                f"{at}: {how} port definition with {place}" for place, other in others if (how := _clash(port, other))
            ]
            others.append((at, port))
            name = port.get("name")
            if name and name in by_name:
                first = by_name[name]
                why = f"services and probes that select ports by name will use {first}"
                named.append(f"{at}: duplicate port name {quoted(name)} with {first}, {why}")
            elif name:
                by_name[name] = at
    return found + named


def _clash(port: JSONObject, other: JSONObject) -> str:
    """Return how two definitions of one container port collide; empty if they do not."""
    (ip, number), (other_ip, other_number) = (
        (each.get("hostIP") or "", each.get("hostPort") or 0) for each in (port, other)
    )
    if (ip, number) == (other_ip, other_number):
        return "duplicate"
    if not number or not other_number:
        return "overlapping"
    return "dangerously ambiguous" if number == other_number and bool(ip) != bool(other_ip) else ""


def _shown(port: JSONObject) -> str:
    ip, name = port.get("hostIP") or "", port.get("name") or ""
    numbers = f"HostPort:{port.get('hostPort') or 0} ContainerPort:{port.get('containerPort') or 0}"
    return f"{{Name:{name} {numbers} Protocol:{port.get('protocol') or ''} HostIP:{ip}}}"


def _affinity_warnings(path: str, affinity: JSONObject) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        rules: JSONObject = affinity.get(kind) or {}
        for index, term in enumerate(rules.get(f"required{_DURING}") or ()):
            if term.get("labelSelector") is None:
                yield f"{path}.{kind}.required{_DURING}[{index}].labelSelector: {_NO_POD}"
        for index, weighted in enumerate(rules.get(f"preferred{_DURING}") or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{path}.{kind}.preferred{_DURING}[{index}].podAffinityTerm.labelSelector: {_NO_POD}"
