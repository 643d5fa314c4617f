"""Templates as their users see them: errors with a place, limits, sets of functions, functions of one's own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kubewright.machinery import yaml
from kubewright.templates import (
    KUDO,
    SPRIG,
    FunctionError,
    Rendering,
    TemplateError,
    TemplateLimits,
    Templates,
    json_numbers,
    to_yaml,
)


def rendered(text: str, values: object = None, **options: object) -> str:
    templates = Templates(SPRIG, **options)  # type: ignore[arg-type]
    templates.parse("file.yaml", text)
    return templates.render("file.yaml", values)


def error(text: str, values: object = None, **options: object) -> TemplateError:
    with pytest.raises(TemplateError) as caught:
        rendered(text, values, **options)
    return caught.value


# ---- errors


def test_a_missing_key_is_named_with_its_place() -> None:
    found = error("a: 1\nb: {{ .Params.REPLICAS }}", {"Params": {}}, missing_key="error")
    assert (found.file, found.line, found.column, found.key) == ("file.yaml", 2, 7, "Params.REPLICAS")
    assert str(found).startswith("file.yaml:2:7: Params.REPLICAS: the map has no key 'REPLICAS'; set it")


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("{{ .x", (1, 1), "the action is not closed"),
        ("x\n  {{ foo 1 }}", (2, 6), "function 'foo' is not defined"),
        ("{{ if .x }}\n", (1, 4), "the block has no {{end}}"),
        ("{{ $x }}", (1, 4), "undefined variable '$x'"),
        ('{{ template "other" }}', (1, 4), "template 'other' is not defined"),
        ("{{ .a.b.c }}", (1, 4), "a.b.c: a value of type string has no field 'b'"),
        ("{{ upper 5 }}", (1, 10), "expected a string, not 5"),
        ("{{ until .f }}", (1, 10), "expected a int, not a value of type float64"),
        ('{{ fail "no storage class" }}', (1, 4), "fail: no storage class"),
        ('{{ regexFind "(" "x" }}', (1, 4), "bad regular expression '('"),
        ("{{ index .l 5 }}", (1, 4), "index 5 is out of range: there are 2 items"),
        ("{{ eq 1 1.0 }}", (1, 4), "int and float64 cannot be compared"),
    ],
)
def test_an_error_names_its_place_and_says_what_is_wrong(text: str, place: tuple[int, int], words: str) -> None:
    found = error(text, {"a": "text", "f": 1.5, "l": [1, 2]})
    assert words in found.reason
    assert (found.line, found.column) == place


def test_an_error_in_another_file_names_that_file() -> None:
    templates = Templates(SPRIG)
    templates.parse("helpers.tpl", '{{ define "name" }}\n{{ .name | upper }}{{ end }}')
    templates.parse("main.yaml", 'name: {{ template "name" . }}')
    with pytest.raises(TemplateError, match=r"^helpers.tpl:2:\d+: .* no value"):
        templates.render("main.yaml", {})


def test_values_that_are_not_json_are_rejected() -> None:
    with pytest.raises(TypeError, match="a template takes strings, numbers"):
        rendered("{{ . }}", {"a": object()})
    with pytest.raises(TypeError, match="keys of a template's values are strings"):
        rendered("{{ . }}", {1: "a"})


# ---- limits


@pytest.mark.parametrize(
    "text",
    [
        '{{ define "a" }}{{ template "a" }}{{ end }}{{ template "a" }}',
        '{{ define "a" }}{{ template "b" }}{{ end }}{{ define "b" }}{{ template "a" }}{{ end }}{{ template "a" }}',
        "{{ range 1000000000 }}{{ end }}",
        "{{ until 1000000000 }}",
        "{{ seq 1 1000000000 }}",
        '{{ repeat 1000000000 "x" }}',
        '{{ indent 1000000000 "x" }}',
        '{{ printf "%9000000d%9000000d" 1 1 }}',
        '{{ $s := "xxxxxxxx" }}{{ range 40 }}{{ $s = print $s $s }}{{ end }}',
        "{{ $l := list 1 }}{{ range 60 }}{{ $l = list $l $l }}{{ end }}{{ $l }}",
        "{{ $l := list 1 }}{{ range 60 }}{{ $l = list $l $l }}{{ end }}{{ toJson $l }}",
        '{{ $d := dict }}{{ $_ := set $d "self" $d }}{{ $d }}',
        '{{ $d := dict }}{{ $_ := set $d "self" $d }}{{ deepCopy $d }}',
        '{{ replace "" (repeat 10000 "x") (repeat 10000 "y") }}',
        '{{ regexReplaceAll "" (repeat 10000 "x") (repeat 10000 "y") }}',
        "{{ randAlphaNum 1000000000 }}",
        '{{ snakecase (repeat 1000000 "aB1") }}',
        "{{ range 500 }}{{ range 500 }}{{ range 500 }}{{ end }}{{ end }}{{ end }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ if true }}" * 5000 + "{{ end }}" * 5000,
        '{{ fromJson (repeat 100000 "[") | toJson }}{{ until 10000000 }}',
        "{{ 0x" + "f" * 100_000 + " }}",
    ],
)
def test_a_hostile_template_ends_with_an_error(text: str) -> None:
    error(text, limits=TemplateLimits(steps=50_000))


def test_a_regular_expression_takes_linear_time() -> None:
    assert rendered('{{ regexMatch "(a*)*(a*)*b" (repeat 10000 "a") }}') == "false"


def test_limits_can_be_changed() -> None:
    text = "{{ range 1000 }}x{{ end }}"
    assert rendered(text) == 1000 * "x"
    assert "too many steps" in error(text, limits=TemplateLimits(steps=500)).reason
    assert "too much text" in error(text, limits=TemplateLimits(size=500)).reason


@pytest.mark.parametrize("text", ["{{ .a.__class__ }}", "{{ .l.append }}", "{{ (now).seconds }}", "{{ $.a.upper }}"])
def test_a_template_does_not_reach_attributes_of_python(text: str) -> None:
    error(text, {"a": "text", "l": []})


# ---- sets of templates and functions


def test_files_share_their_templates() -> None:
    templates = Templates()
    templates.parse("one", '{{ define "name" }}<{{ . }}>{{ end }}text')
    templates.parse("two", '{{ range . }}{{ template "name" . }}{{ end }}')
    assert templates.names == {"one", "two", "name"}
    assert [templates.render("two", ["a", "b"]) for _ in range(2)] == ["<a><b>", "<a><b>"]
    templates.parse("three", '{{ define "name" }}[{{ . }}]{{ end }}')
    assert templates.render("two", ["a"]) == "[a]"


def test_functions_of_sprig_are_added_on_request() -> None:
    with pytest.raises(TemplateError, match="function 'upper' is not defined"):
        Templates().parse("file", '{{ upper "a" }}')


def test_kudo_has_no_environment_and_no_paths() -> None:
    assert set(SPRIG) - set(KUDO) == {"env", "expandenv", "base", "dir", "clean", "ext", "isAbs"}
    assert set(KUDO) - set(SPRIG) == {"toYaml"}


def test_to_yaml_reads_back() -> None:
    values = {"b": [1, "yes", {"c": None}], "a": "1e3", "t": "line\nline\n", "f": 2.5, "n": 3.0}
    templates = Templates(KUDO)
    templates.parse("file", "{{ toYaml . }}|{{ toYaml .f }}|{{ toYaml .a }}")
    document, number, text = templates.render("file", values).rsplit("|", 2)
    assert yaml.load(document) == values
    assert (number, text) == ("2.5\n", '"1e3"\n')


def test_numbers_are_those_of_gos_json_decoder_on_request() -> None:
    values = {"n": 1000000}
    assert rendered("{{ .n }}", values) == "1000000"
    assert rendered("{{ .n }}", json_numbers(values)) == "1e+06"


def shout(text: str, *others: str) -> str:
    if not text:
        raise ValueError("nothing to shout")
    return f"{text}{''.join(others)}!"


def test_a_python_function_is_a_function_of_templates() -> None:
    templates = Templates({"shout": shout})
    templates.parse("good", '{{ "b" | shout .a }}')
    templates.parse("wrong type", "{{ shout 5 }}")
    templates.parse("too few", "{{ shout }}")
    templates.parse("raises", '{{ shout "" }}')
    assert templates.render("good", {"a": "a"}) == "ab!"
    for name, words in (
        ("wrong type", "expected a string, not 5"),
        ("too few", "shout takes at least 1 arguments, not 0"),
        ("raises", "shout: nothing to shout"),
    ):
        with pytest.raises(TemplateError, match=words):
            templates.render(name, {})


def include(rendering: Rendering, name: str, value: object) -> str:
    return rendering.include(name, value)


def tpl(rendering: Rendering, text: str, value: object) -> str:
    return rendering.evaluate(text, value)


def required(message: str, value: object) -> object:
    if value is None or value == "":
        raise FunctionError(message)
    return value


def test_functions_of_helm_can_be_added() -> None:
    templates = Templates({**SPRIG, "include": include, "tpl": tpl, "required": required, "toYaml": to_yaml})
    templates.parse("helpers", '{{ define "labels" }}app: {{ .name }}\nteam: a{{ end }}')
    templates.parse("main", '{{ include "labels" . | indent 2 }}\n{{ tpl .text . }}{{ required "set x" .x }}')
    values = {"name": "web", "text": '{{ include "labels" . | len }}{{ .name }}', "x": 5}
    assert templates.render("main", values) == "  app: web\n  team: a\n16web5"
    with pytest.raises(TemplateError, match="required: set x"):
        templates.render("main", {**values, "x": ""})
    with pytest.raises(TemplateError, match="include: template 'none' is not defined"):
        templates.render("main", {**values, "text": '{{ include "none" . }}'})
    with pytest.raises(TemplateError, match="deep"):
        templates.render("main", {**values, "text": "{{ tpl .text . }}"})


def test_an_operator_without_templates_does_not_load_them() -> None:
    code = (
        "import sys, kubewright; assert not any('templates' in each for each in sys.modules)\n"
        "from kubewright.templates import Templates; assert 'kubewright.templates._sprig' not in sys.modules\n"
        "from kubewright.templates import SPRIG; assert not {'cryptography', 're2', 'bcrypt'} & set(sys.modules)\n"
    )
    subprocess.run((sys.executable, "-c", code), check=True)


def test_the_fields_that_a_template_reads_are_found_without_rendering_it() -> None:
    templates = Templates(SPRIG)
    text = """{{ define "part" }}{{ .Size }}{{ $.Other }}{{ end -}}
{{ if eq .Name (upper $.Kind) }}{{ .A.B }}{{ else }}{{ .C }}{{ end }}
{{ range .Items }}{{ .NotAField }}{{ $.D }}{{ else }}{{ .E }}{{ end }}
{{ with .F }}{{ .G }}{{ end }}{{ with $x := lower .H }}{{ .NotAField }}{{ $x.I }}{{ end }}
{{ template "part" .Spec }}{{ template "part" (dict "a" .J) }}{{ (index .K 0).L }}"""
    templates.parse("file.yaml", text)
    found = [(".".join(each.path), each.line) for each in templates.references("file.yaml")]
    assert found == [
        ("Name", 2), ("Kind", 2), ("A.B", 2), ("C", 2), ("Items", 3), ("D", 3), ("E", 3), ("F", 4), ("F.G", 4),
        ("H", 4), ("Spec", 5), ("Spec.Size", 1), ("Spec.Other", 1), ("J", 5), ("K", 5),
    ]  # fmt: skip
    assert templates.references("absent") == []
