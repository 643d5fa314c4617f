"""Templates of the admission policies and their bindings."""

from __future__ import annotations

from typing import Any, Final

from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright_cli.manifests import policies
from kubewright_cli.manifests.chart.documents import NAMES, document, escaped, when
from kubewright_cli.manifests.generated import HEADER
from kubewright_cli.manifests.manifests import Manifests
from kubewright_cli.manifests.names import Names

_PREFIX: Final = '{{ include "chart.fullname" $ }}-'
_MARK: Final = "PREFIX-"
_NAMES: Final = Names(f"{_MARK}%s", NAMES.namespace, NAMES.account)


def templates(manifests: Manifests) -> dict[str, str]:
    """Return the templates by path."""
    return {
        f"{policies.FOLDER}/{name}.yaml": f"{HEADER}\n{when('$.Values.policy.enabled', _text(found))}"
        for name, found in policies.documents(manifests.program, _NAMES).items()
    }


def _text(found: list[JSONObject]) -> str:
    return "\n---\n".join(document(_of_release(each)) for each in found)


def _of_release(value: Any) -> Any:
    """Return a document with the names of a release, and with escaped braces."""
    if is_object(value):
        return {key: _of_release(each) for key, each in value.items()}
    if is_array(value):
        return [_of_release(each) for each in value]
    if not isinstance(value, str):
        return value
    return f"{_PREFIX}{value.removeprefix(_MARK)}" if value.startswith(_MARK) else escaped(value)
