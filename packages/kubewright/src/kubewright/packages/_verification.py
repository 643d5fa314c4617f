"""The rules for packages: what `kubewright package verify` checks.

Follows the verification of KUDO 0.19, and adds the file, line and field to each finding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from kubewright.machinery._suggestions import did_you_mean
from kubewright.machinery.errors import DecodeError, TemplateError
from kubewright.machinery.json import JSONObject
from kubewright.packages._api import DEPLOY, PipeFile, Plan, Task
from kubewright.packages._files import OPERATOR, PARAMS, TEMPLATES, Package, ParameterEntry
from kubewright.packages._finding import Finding, Path
from kubewright.packages._rendering import VARIABLES, Place, TemplateFiles, documents_in, pipes
from kubewright.packages._resources import version_spec
from kubewright.packages._texts import CHECKS
from kubewright.packages._values import listed, printed, shown, template_parameters, type_error
from kubewright.templates._strconv import parse_float

_SEMVER: Final = re.compile(
    r"v?\d+(\.\d+)?(\.\d+)?(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
)
_LEADING_ZERO: Final = re.compile(r"v?(0\d+|\d+\.0\d+|\d+\.\d+\.0\d+)([^\d].*)?")
_NAMESPACE: Final = re.compile(r"kind:\s*Namespace")
_PIPE_KEY: Final = re.compile(r"[a-zA-Z0-9_-]+")
_INVALID_CHARACTERS: Final = ";,"
TASK_KINDS: Final = ("Apply", "Delete", "Toggle", "Pipe", "KudoOperator", "Dummy")
_WITH_RESOURCES: Final = ("Apply", "Delete", "Toggle")


def verify(package: Package, checks: Sequence[str] = ()) -> list[Finding]:
    """Return what is wrong with a package, errors first.

    checks: optional checks of the texts for people, by the keys of `PARAMETER_CHECKS`.
    """
    rules = _Rules(package)
    found = [*package.notes, *(each for rule in rules.all() for each in rule())]
    found += [each for name in checks for each in CHECKS[name](package)]
    return sorted(set(found), key=lambda each: (each.level, each.file, each.line, each.message))


class _Rules:
    def __init__(self, package: Package) -> None:
        self._package = package
        self._operator = package.operator
        self._parameters = package.params.parameters
        self._templates = TemplateFiles(package.templates)

    def all(self) -> Iterable[Callable[[], Iterator[Finding]]]:
        """Return the rules."""
        return (
            self._names,
            self._versions,
            self._tasks,
            self._task_references,
            self._plans,
            self._values,
            self._groups,
            self._references,
            self._unused_parameters,
            self._template_references,
            self._rendered,
            self._namespaces,
            self._namespace_manifest,
        )

    def _of_parameter(self, rule: str, index: int, message: str, *path: str | int, level: Any = "error") -> Finding:
        name = self._parameters[index].name
        at = ("parameters", index, *path)
        return self._package.finding(rule, f'parameter "{name}" {message}', PARAMS, *at, level=level)

    # ---- operator.yaml

    def _versions(self) -> Iterator[Finding]:
        file = self._operator
        if not file.name:
            yield self._package.finding("name", "is required: the name of the operator", OPERATOR, "name")
        for field, value, required in (
            ("operatorVersion", file.operator_version, True),
            ("appVersion", file.app_version, False),
            ("kubernetesVersion", file.kubernetes_version, True),
            ("kudoVersion", file.kudo_version, False),
        ):
            if not value.strip():
                if required:
                    yield self._package.finding("version", "is required: a version such as 1.2.3", OPERATOR, field)
            elif not is_version(value):
                message = f'must be a version such as 1.2.3, got "{value}"'
                yield self._package.finding("version", message, OPERATOR, field)

    def _tasks(self) -> Iterator[Finding]:
        for index, task in enumerate(self._operator.tasks):
            for path, message in task_faults(task):
                yield self._package.finding("task", f"task {task.name}: {message}", OPERATOR, "tasks", index, *path)

    def _task_references(self) -> Iterator[Finding]:
        defined = [each.name for each in self._operator.tasks]
        used: set[str] = set()
        for path, name in _used_tasks(self._operator.plans):
            used.add(name)
            if name not in defined:
                message = f'task "{name}" is not defined{did_you_mean(name, defined)}'
                yield self._package.finding("undefined-task", message, OPERATOR, *path)
        for index, name in enumerate(defined):
            if name not in used:
                message = f'task "{name}" is in no plan; remove it, or add it to a step'
                yield self._package.finding("unused-task", message, OPERATOR, "tasks", index, level="warning")

    def _plans(self) -> Iterator[Finding]:
        if DEPLOY not in self._operator.plans:
            yield self._package.finding("deploy-plan", f"there is no plan {DEPLOY}; add it", OPERATOR, "plans")
        for index, each in enumerate(self._parameters):
            if each.trigger and each.trigger not in self._operator.plans:
                known = did_you_mean(each.trigger, self._operator.plans)
                message = f'triggers the plan "{each.trigger}", which is not defined{known}'
                yield self._of_parameter("undefined-trigger", index, message, "trigger")

    # ---- params.yaml

    def _names(self) -> Iterator[Finding]:
        seen: set[str] = set()
        for index, each in enumerate(self._parameters):
            if each.name.lower() in seen:
                yield self._of_parameter("duplicate-parameter", index, "is there twice, in some case", "name")
            seen.add(each.name.lower())
            for character in _INVALID_CHARACTERS:
                if character in each.name:
                    message = f'must not contain "{character}"; rename it'
                    yield self._of_parameter("parameter-name", index, message, "name")

    def _values(self) -> Iterator[Finding]:
        for index, each in enumerate(self._parameters):
            has_value = each.default is not None or each.required
            if each.immutable and not has_value:
                message = "is immutable, and therefore must be required or have a default"
                yield self._of_parameter("immutable", index, message, "immutable")
            if each.advanced and each.required and each.default is None:
                message = "is advanced, and therefore must have a default or `required: false`"
                yield self._of_parameter("advanced", index, message, "advanced")
            yield from self._enum(index, each)
            yield from self._default(index, each)

    def _enum(self, index: int, entry: ParameterEntry) -> Iterator[Finding]:
        if entry.enum is not None and not entry.enum:
            yield self._of_parameter("enum", index, "has an enum without values; add some, or remove it", "enum")
        for place, value in enumerate(entry.enum or []):
            if wrong := type_error(value, entry.type):
                yield self._of_parameter("enum", index, f"has an enum value that {wrong}", "enum", place)

    def _default(self, index: int, entry: ParameterEntry) -> Iterator[Finding]:
        if entry.default is None:
            return
        if wrong := type_error(entry.default, entry.type):
            yield self._of_parameter("default", index, f"has a default that {wrong}", "default")
        elif entry.enum is not None and not any(_same(entry.default, each) for each in entry.enum):
            message = f"has the default {shown(entry.default)}, which is not in the enum: {listed(entry.enum)}"
            yield self._of_parameter("default", index, message, "default")
        elif _is_reformatted(entry):
            text = printed(entry.default)
            message = f"has the default {shown(entry.default)}, which templates see as {text}; write it in quotes"
            yield self._of_parameter("number", index, message, "default", level="warning")

    def _groups(self) -> Iterator[Finding]:
        groups = [each.name for each in self._package.params.groups]
        for index, group in enumerate(self._package.params.groups):
            where = (PARAMS, "groups", index, "name")
            if "/" in group.name:
                yield self._package.finding("group", f'group "{group.name}" must not contain "/"', *where)
            if group.name in groups[:index]:
                yield self._package.finding("group", f'group "{group.name}" is there twice; rename one', *where)
        for index, each in enumerate(self._parameters):
            if "/" in each.group:
                yield self._of_parameter("group", index, 'has a group with the invalid character "/"', "group")
            if each.group and each.group not in groups:
                message = f'has the group "{each.group}", which is not defined{did_you_mean(each.group, groups)}'
                yield self._of_parameter("undefined-group", index, message, "group")

    # ---- templates

    def _references(self) -> Iterator[Finding]:
        """Check the fields that templates read, and the parameters of Toggle tasks."""
        known = [each.name for each in self._parameters]
        for name in self._package.templates:
            try:
                for each in self._templates.references(name):
                    yield from self._reference(name, each.path, each.line, known)
            except TemplateError as error:
                message = f"is not a Go template: {error.reason} (column {error.column})"
                yield self._package.finding("template", message, TEMPLATES + name, line=error.line)
        for index, task in enumerate(self._operator.tasks):
            if task.kind == "Toggle" and task.spec.parameter and task.spec.parameter not in known:
                message = f'parameter "{task.spec.parameter}" is not defined{did_you_mean(task.spec.parameter, known)}'
                path = ("tasks", index, "spec", "parameter")
                yield self._package.finding("undefined-parameter", message, OPERATOR, *path)

    def _reference(self, name: str, path: tuple[str, ...], line: int, known: Sequence[str]) -> Iterator[Finding]:
        file = TEMPLATES + name
        if len(path) == 1 and path[0] not in (*VARIABLES, "Params", "Pipes"):
            message = f"there is no variable .{path[0]}{did_you_mean(path[0], VARIABLES)}"
            yield self._package.finding("undefined-variable", message, file, line=line)
        elif path[0] == "Params" and len(path) > 1 and path[1] not in known:
            message = f'parameter "{path[1]}" is not defined{did_you_mean(path[1], known)}'
            yield self._package.finding("undefined-parameter", message, file, line=line)

    def _unused_parameters(self) -> Iterator[Finding]:
        used = {each.spec.parameter for each in self._operator.tasks if each.kind == "Toggle"}
        for name in self._package.templates:
            paths = [each.path for each in self._templates.references(name)] if self._is_template(name) else []
            used.update(path[1] for path in paths if path[0] == "Params" and len(path) > 1)
            if ("Params",) in paths:
                return  # the template may use any of them
        for index, each in enumerate(self._parameters):
            if each.name not in used and not each.trigger:
                message = "is not used; remove it, or use it in a template"
                yield self._of_parameter("unused-parameter", index, message, level="warning")

    def _template_references(self) -> Iterator[Finding]:
        used = {self._operator.namespace_manifest}
        for index, task in enumerate(self._operator.tasks):
            for path, name in _templates_of(task):
                used.add(name)
                if name not in self._package.templates:
                    known = did_you_mean(name, self._package.templates)
                    message = f'task {task.name} needs the template "{name}", which does not exist{known}'
                    yield self._package.finding("undefined-template", message, OPERATOR, "tasks", index, *path)
        for name in self._package.templates:
            if name not in used:
                message = "no task uses the template; remove it, or add it to a task"
                yield self._package.finding("unused-template", message, TEMPLATES + name, level="warning")

    def _rendered(self) -> Iterator[Finding]:
        """Render all templates with the defaults."""
        spec = version_spec(self._package)
        files = {each.spec.parameter_file for each in self._operator.tasks if each.kind == "KudoOperator"}
        values = Place().variables()
        artifacts: dict[str, str] = {}
        try:
            values |= {"Params": template_parameters(spec, {}), "Pipes": artifacts}
            for plan in self._operator.plans:
                artifacts |= pipes(spec, plan, Place(name=""))
        except DecodeError as error:
            yield self._package.finding("render", str(error), PARAMS)
            return
        except TemplateError as error:
            yield self._package.finding("render", error.reason, OPERATOR, "plans")
            return
        for name in self._package.templates:
            if self._is_template(name):
                yield from self._rendering(name, values, is_parameters=name in files)

    def _is_template(self, name: str) -> bool:
        try:
            self._templates.references(name)
        except TemplateError:
            return False  # another rule reports it
        return True

    def _rendering(self, name: str, values: JSONObject, *, is_parameters: bool) -> Iterator[Finding]:
        try:
            text = self._templates.render(name, values)
        except TemplateError as error:
            message = f"cannot be rendered with the defaults: {error.reason} (column {error.column})"
            yield self._package.finding("render", message, TEMPLATES + name, line=error.line)
            return
        try:
            if not is_parameters:
                for _ in documents_in(name, text):
                    pass
        except TemplateError as error:
            yield self._package.finding("yaml", error.reason, TEMPLATES + name)

    def _namespaces(self) -> Iterator[Finding]:
        for name, text in self._package.templates.items():
            if name != self._operator.namespace_manifest and (found := _NAMESPACE.search(text)):
                message = "a Namespace is allowed in the namespaceManifest only; remove it"
                line = text.count("\n", 0, found.start()) + 1
                yield self._package.finding("namespace", message, TEMPLATES + name, line=line)

    def _namespace_manifest(self) -> Iterator[Finding]:
        name = self._operator.namespace_manifest
        if not name:
            return
        where = (OPERATOR, "namespaceManifest")
        if name not in self._package.templates:
            yield self._package.finding("namespace", f'there is no template "{name}"', *where)
            return
        try:
            found = [each.content for each in documents_in(name, self._package.templates[name])]
        except TemplateError as error:
            message = f'"{name}" must be YAML before it is rendered; write actions in quotes: {error.reason}'
            yield self._package.finding("namespace", message, *where)
            return
        if len(found) != 1 or found[0]["kind"] != "Namespace":
            kinds = ", ".join(each["kind"] for each in found) or "nothing"
            yield self._package.finding("namespace", f'"{name}" must have one Namespace, and has {kinds}', *where)


def is_version(text: str) -> bool:
    """Return whether a text is a version: one to three numbers, with an optional prerelease and metadata."""
    return _SEMVER.fullmatch(text) is not None


def task_faults(task: Task) -> Iterator[tuple[Path, str]]:
    """Yield what is wrong with a task, and in which field."""
    spec = task.spec
    if task.kind not in TASK_KINDS:
        yield ("kind",), f'must be one of {", ".join(TASK_KINDS)}, got "{task.kind}"'
    if task.kind in _WITH_RESOURCES and not spec.resources:
        yield ("spec",), "needs resources; a task that does nothing has the kind Dummy"
    if task.kind == "Toggle" and not spec.parameter:
        yield ("spec",), "needs a parameter, which decides between apply and delete"
    if task.kind == "KudoOperator" and not spec.package:
        yield ("spec",), "needs a package"
    if task.kind == "Pipe":
        if not spec.pipe:
            yield ("spec",), "needs files in `pipe`"
        for index, each in enumerate(spec.pipe or []):
            for message in _pipe_faults(each):
                yield ("spec", "pipe", index), message


def _pipe_faults(file: PipeFile) -> Iterator[str]:
    if bool(file.file) == bool(file.env_file):
        yield "must have either `file` or `envFile`"
    elif file.kind not in ("Secret", "ConfigMap"):
        yield f'`kind` must be Secret or ConfigMap, got "{file.kind}"'
    elif not _PIPE_KEY.fullmatch(file.key):
        yield f'`key` must consist of letters, digits, "_" and "-", got "{file.key}"'


def _used_tasks(plans: dict[str, Plan]) -> Iterator[tuple[Path, str]]:
    for name, plan in plans.items():
        for phase_index, phase in enumerate(plan.phases or []):
            for step_index, step in enumerate(phase.steps or []):
                path = ("plans", name, "phases", phase_index, "steps", step_index, "tasks")
                yield from (((*path, index), task) for index, task in enumerate(step.tasks or []))


def _templates_of(task: Task) -> Iterator[tuple[Path, str]]:
    if task.kind in _WITH_RESOURCES:
        for index, name in enumerate(task.spec.resources or []):
            yield ("spec", "resources", index), name
    elif task.kind == "Pipe":
        yield ("spec", "pod"), task.spec.pod
    elif task.kind == "KudoOperator" and task.spec.parameter_file:
        yield ("spec", "parameterFile"), task.spec.parameter_file


def _same(left: Any, right: Any) -> bool:
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _is_reformatted(entry: ParameterEntry) -> bool:
    """Return whether templates see a number in another form than the file has it."""
    value = entry.default
    if isinstance(value, bool) or not isinstance(value, int | float) or entry.type in ("array", "map"):
        return False
    return "e" in printed(value) and parse_float(printed(value)) is not None
