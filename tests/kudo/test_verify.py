"""Packages are read and verified as by KUDO, with the file, line and field of each finding."""

from __future__ import annotations

import gzip
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from clients.goprograms import BUILD_SECONDS, go_program
from kubewright.machinery.errors import ConfigError
from kubewright.models import Object, codec
from kubewright.packages import Package, PackageError, resources, verify
from kudo.cases import packages, questions, sample
from kudo.files import write_archive, write_package
from kudo.oracle import PROGRAM, Answer, kudo_answers, recorded

RULES = (
    (r'".*" is required and must be semver|unable to parse ".*Version"', "version"),
    (r"task validation error|unknown task kind", "task"),
    (r"task .* in plan .* is not defined", "undefined-task"),
    (r"task .* defined but not used", "unused-task"),
    (r"an operator is required to have 'deploy' plan", "deploy-plan"),
    (r"plan .* used in parameter .* is not defined", "undefined-trigger"),
    (r"template .* required by .* but is not defined", "undefined-template"),
    (r"template .* is not referenced from any task", "unused-template"),
    (r"NamespaceManifest|contains 'kind: Namespace'", "namespace"),
    (r"parameter .* has a duplicate", "duplicate-parameter"),
    (r"parameter .* defined but not used", "unused-parameter"),
    (r"parameter .* is immutable but", "immutable"),
    (r"parameter .* is marked as advanced", "advanced"),
    (r"parameter .* (is an enum but|has an invalid enum value)", "enum"),
    (r"parameter .* has an invalid default value", "default"),
    (r"parameter .* has a group .* not defined", "undefined-group"),
    (r"^parameter group|has a group with invalid character", "group"),
    (r"parameter .* contains invalid character", "parameter-name"),
    (r"parameter .* in (template|ToggleTask) .* is not defined", "undefined-parameter"),
    (r"invalid implicit parameter", "undefined-variable"),
    (r"reports the following error|error parsing template", "template"),
    (r"error rendering template|duplicated pipe key|cannot unmarshal .* into Go value", "render"),
    (r"parsing rendered YAML", "yaml"),
    (r"parameter .* has (no|a) |parameter .* has no explicit type", "text"),
)
"""The rules of KUDO's messages."""
OURS = {("warning", "unknown-field"), ("warning", "duplicate-key"), ("warning", "number")}
"""Rules that KUDO does not have."""


def rule_of(message: str) -> str:
    return next(rule for pattern, rule in RULES if re.search(pattern, message))


def expected(answer: Answer) -> set[tuple[str, str]]:
    found = {("error", rule_of(each)) for each in answer["errors"]}
    return found | {("warning", rule_of(each)) for each in answer["warnings"]}


def without_empty(value: Any) -> Any:
    """Return a document without empty fields, which KUDO writes and we do not."""
    if isinstance(value, dict):
        kept = {key: without_empty(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in (None, "", [], {})}
    return [without_empty(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", packages())
def test_a_package_is_verified_as_by_kudo(name: str, tmp_path: Path) -> None:
    answer = recorded()[f"verify {name}"]
    folder = write_package(tmp_path, packages()[name])
    if "error" in answer:
        with pytest.raises(PackageError):
            Package.load(folder)
        return
    found = verify(Package.load(folder))
    assert {(each.level, each.rule) for each in found} - OURS == expected(answer)
    assert all(each.line or not each.key for each in found if each.rule not in ("version", "name"))


def test_the_texts_of_parameters_are_checked_as_by_kudo(tmp_path: Path) -> None:
    answer = recorded()["verify texts"]
    found = verify(Package.load(write_package(tmp_path, sample("zookeeper"))), ["all"])
    assert [each.level for each in found] == ["warning"] * len(answer["warnings"])


@pytest.mark.parametrize(
    "name", [each.removeprefix("resources ") for each in questions() if each.startswith("resources")]
)
def test_the_objects_of_a_package_are_those_of_kudo(name: str, tmp_path: Path) -> None:
    answer = recorded()[f"resources {name}"]
    made = resources(Package.load(write_package(tmp_path, packages()[name])))
    ours: dict[str, Object] = {
        "operator": made.operator, "operatorVersion": made.operator_version, "instance": made.instance,
    }  # fmt: skip
    for key, obj in ours.items():
        assert without_empty(codec.to_dict(obj)) == without_empty(answer[key])


@pytest.mark.long
@pytest.mark.timeout(2 * BUILD_SECONDS + 600)
def test_the_recorded_answers_are_those_of_kudo(tmp_path_factory: pytest.TempPathFactory) -> None:
    if shutil.which("go") is None:
        pytest.skip("Go was not found")
    asked = questions()
    answers = kudo_answers((go_program(tmp_path_factory, PROGRAM),), list(asked.values()))
    found = dict(zip(asked, answers, strict=True))
    assert {name: without_order(each) for name, each in found.items()} == {
        name: without_order(each) for name, each in recorded().items()
    }


def without_order(answer: Answer) -> Answer:
    """Return an answer without the text of an error, in which names are in a random order."""
    return {**answer, "error": True} if "error" in answer else answer


def test_an_archive_is_read_like_a_folder(tmp_path: Path) -> None:
    files = sample("kafka")
    folder = Package.load(write_package(tmp_path / "folder", files))
    archive = Package.load(write_archive(tmp_path / "kafka.tgz", {f"./{name}": text for name, text in files.items()}))
    assert (archive.operator, archive.params, archive.templates) == (folder.operator, folder.params, folder.templates)


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kafka.tgz").write_text("kafka")
    with pytest.raises(ConfigError, match="not a package"):
        Package.load(tmp_path / "kafka.tgz")
    with pytest.raises(ConfigError, match="there is no package"):
        Package.load(tmp_path / "nothing")


def test_all_fields_of_another_type_are_reported_at_once(tmp_path: Path) -> None:
    files = sample("zookeeper")
    files["params.yaml"] += "  - name: X\n    required: perhaps\n    enum: 5\n"
    with pytest.raises(PackageError) as caught:
        Package.load(write_package(tmp_path, files))
    lines = len(files["params.yaml"].splitlines())
    assert str(caught.value).splitlines() == [
        f'params.yaml:{lines - 1}: parameters[11].required: must be true or false, got "perhaps"',
        f"params.yaml:{lines}: parameters[11].enum: must be a list, got 5",
    ]
    assert (caught.value.file, caught.value.line, caught.value.key) == (
        "params.yaml", lines - 1, "parameters[11].required",
    )  # fmt: skip


def test_what_kudo_ignores_is_a_warning(tmp_path: Path) -> None:
    files = sample("zookeeper")
    files["operator.yaml"] = files["operator.yaml"].replace("description:", "desription:") + "operatorversion: 2.0.0\n"
    package = Package.load(write_package(tmp_path, files))
    assert [str(each) for each in verify(package)] == [
        "operator.yaml:7: desription: is not a field of a package, and is ignored; did you mean 'description'?"
    ]
    assert package.operator.operator_version == "2.0.0"  # keys match in any case, and the last one counts


def test_a_large_number_without_quotes_is_a_warning(tmp_path: Path) -> None:
    files = sample("kafka")
    files["params.yaml"] = files["params.yaml"].replace('"168"', "1000000")
    (found,) = verify(Package.load(write_package(tmp_path, files)))
    assert str(found) == (
        'params.yaml:13: parameters[2].default: parameter "RETENTION" has the default 1000000, which templates see as '
        "1e+06; write it in quotes"
    )


def test_fields_of_the_items_of_a_range_are_not_variables(tmp_path: Path) -> None:
    files = sample("zookeeper")
    files["templates/scripts.yaml"] += (
        "{{ range .Params.CHECKS }}{{ with $.Params }}  # {{ .MEMORY }}{{ end }}\n{{ end }}"
    )
    files["templates/scripts.yaml"] += "{{ range $.Params.CHECKS }}{{ if false }}{{ .field }}{{ end }}{{ end }}"
    assert verify(Package.load(write_package(tmp_path, files))) == []


def test_an_archive_is_limited_in_size_and_files(tmp_path: Path) -> None:
    bomb, many, broken = tmp_path / "bomb.tgz", tmp_path / "many.tgz", tmp_path / "broken.tgz"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        for _ in range(65):
            file.write(bytes(1024 * 1024))
    with tarfile.open(many, "w:gz", compresslevel=1) as archive:
        for number in range(10_001):
            archive.addfile(tarfile.TarInfo(f"templates/{number}.yaml"))
    broken.write_bytes(bomb.read_bytes()[:1000])
    sparse = tmp_path / "sparse.tgz"
    with gzip.open(sparse, "wb") as file:
        member = tarfile.TarInfo("templates/a.yaml")
        member.type, member.size = tarfile.GNUTYPE_SPARSE, 0
        header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
        header[483:495] = b"\x80" + (1 << 40).to_bytes(11)  # the size that a reader sees
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header[:512])
        file.write(bytes(header) + bytes(1024))
    for path, reason in (
        (sparse, "the files take more than 67108864 bytes; remove some"),
        (bomb, "the files take more than 67108864 bytes; remove some"),
        (many, "there are more than 10000 files; remove some"),
        (broken, "not a package: "),
    ):
        with pytest.raises(ConfigError, match=re.escape(reason)):
            Package.load(path)


def test_a_folder_is_limited_and_has_no_links_to_other_files(tmp_path: Path) -> None:
    def refused(path: Path) -> str:
        with pytest.raises(ConfigError) as error:
            Package.load(path)
        return str(error.value)

    secret = tmp_path / "kubeconfig"
    secret.write_text("apiVersion: v1\nkind: Config\n")
    linked = write_package(tmp_path / "linked", sample("zookeeper"))
    inside = linked / "templates/inside.yaml"
    inside.symlink_to("pdb.yaml")
    (linked / "templates/loop").symlink_to("..")
    assert "inside.yaml" in Package.load(linked).templates
    (linked / "templates/stolen.yaml").symlink_to(secret)
    assert f"stolen.yaml: is a link to {secret}, outside of the package; copy the file into it" in refused(linked)
    large = write_package(tmp_path / "large", sample("zookeeper"))
    with (large / "templates/large.yaml").open("wb") as file:
        file.truncate(1 << 40)
    assert "the files have more than 67108864 bytes" in refused(large)
