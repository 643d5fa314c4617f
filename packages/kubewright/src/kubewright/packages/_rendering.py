"""Templates of a package: what they render to, and the objects in it.

Follows KUDO 0.19: Go's templates with Sprig, without functions that read the environment; a missing key is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kubewright.machinery import yaml
from kubewright.machinery.errors import DecodeError, TemplateError
from kubewright.machinery.json import JSONObject, is_object
from kubewright.packages._api import OperatorVersionSpec
from kubewright.packages._finding import yaml_fault
from kubewright.templates import KUDO, Reference, Templates

VARIABLES: Final = (
    "OperatorName",
    "Name",
    "Namespace",
    "AppVersion",
    "OperatorVersion",
    "PlanName",
    "PhaseName",
    "StepName",
)
_SEPARATOR: Final = "\n---"
_NO_ALPHANUMERIC: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a template is rendered: the instance, and the step of its plan."""

    operator: str = "OperatorName"
    name: str = "Name"
    namespace: str = "Namespace"
    app_version: str = "AppVersion"
    operator_version: str = "OperatorVersion"
    plan: str = "PlanName"
    phase: str = "PhaseName"
    step: str = "StepName"
    task: str = ""

    def variables(self) -> dict[str, Any]:
        """Return the variables of templates, without parameters and pipes."""
        values = (self.operator, self.name, self.namespace, self.app_version, self.operator_version)
        return dict(zip(VARIABLES, (*values, self.plan, self.phase, self.step), strict=True))

    def pipe_name(self, suffix: str) -> str:
        """Return the name of the Pod or of an artifact of a Pipe task: `zk.deploy.main.certs.pipe.key`."""
        parts = (self.name, self.plan, self.phase, self.step, self.task, suffix)
        return ".".join(_NO_ALPHANUMERIC.sub("", each.lower()) for each in parts)


@dataclass(frozen=True, slots=True)
class Document:
    """An object in a rendered template."""

    content: JSONObject
    template: str
    line: int
    """The line of the rendered text on which the document begins, from 1."""


class TemplateFiles:
    """The templates of a package. Each is a set of its own: they do not call each other."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._parsed: dict[str, Templates] = {}

    def _template(self, name: str) -> Templates:
        """Return a template. Raises TemplateError."""
        if name not in self._texts:
            raise TemplateError(
                "there is no such template; add it to the folder templates, or change the task", file=name
            )
        if name not in self._parsed:
            parsed = Templates(KUDO, missing_key="error")
            parsed.parse(name, self._texts[name])
            self._parsed[name] = parsed
        return self._parsed[name]

    def references(self, name: str) -> list[Reference]:
        """Return the fields that a template reads. Raises TemplateError."""
        return self._template(name).references(name)

    def render(self, name: str, values: Mapping[str, Any]) -> str:
        """Return the text that a template makes. Raises TemplateError."""
        return self._template(name).render(name, values)

    def objects(self, name: str, values: Mapping[str, Any]) -> list[Document]:
        """Return the objects that a template makes. Raises TemplateError."""
        return list(documents_in(name, self.render(name, values)))


def documents_in(template: str, text: str) -> Iterator[Document]:
    """Yield the objects in a rendered template. Raises TemplateError with the line of the rendered text."""
    line = 1
    for part in text.split(_SEPARATOR):
        if part.strip():
            yield from _document(template, part, line)
        line += part.count("\n") + 1


def _document(template: str, text: str, line: int) -> Iterator[Document]:
    begin = line + len(text) - len(text.lstrip("\n"))
    try:
        content = yaml.load_value(text)
    except DecodeError as error:
        raise _not_yaml(template, str(error), line) from error
    if content is None or content == {}:
        return
    if not is_object(content) or not isinstance(content.get("kind"), str) or not content["kind"]:
        raise _not_yaml(template, "not an object: `kind` is missing", begin)
    if not isinstance(content.get("apiVersion"), str) or not content["apiVersion"]:
        raise _not_yaml(template, "not an object: `apiVersion` is missing", begin)
    yield Document(content, template, begin)


def _not_yaml(template: str, problem: str, begin: int) -> TemplateError:
    """Return the error of a rendered text. Lines that the YAML parser counts begin with that of the document."""
    found, what = yaml_fault(problem)
    line = begin + found - 1 if found else begin
    message = f"the rendered text is not the YAML of objects (line {line} of it): {what.removeprefix('not YAML: ')}"
    return TemplateError(message, file=template)


def pipes(spec: OperatorVersionSpec, plan: str, place: Place) -> dict[str, str]:
    """Return `.Pipes` of templates: the names of the artifacts of a plan's Pipe tasks, by their keys.

    Raises TemplateError if two artifacts have the same key.
    """
    found: dict[str, str] = {}
    for at, name in steps_of(spec, plan, place):
        task = spec.task(name)
        for each in (task.spec.pipe or []) if task is not None and task.kind == "Pipe" else ():
            if each.key in found:
                raise TemplateError(f"plan {plan}: two pipes have the key {each.key}; rename one", file="operator.yaml")
            found[each.key] = at.pipe_name(each.key)
    return found


def steps_of(spec: OperatorVersionSpec, plan: str, place: Place) -> Iterable[tuple[Place, str]]:
    """Yield the tasks of a plan, and where they are."""
    content = spec.plan(plan)
    for phase in (content.phases or []) if content else ():
        for step in phase.steps or []:
            for task in step.tasks or []:
                yield replace(place, plan=plan, phase=phase.name, step=step.name, task=task), task
