"""How the runner of Kubernetes' conformance suite reads what the suite prints and writes."""

from __future__ import annotations

import json
import re
import shutil
import stat
from pathlib import Path

import pytest
from tools.kubernetes_conformance import record
from tools.kubernetes_conformance.cases import Case, all_cases
from tools.kubernetes_conformance.images import MissingProgramsError, check_programs, write_images
from tools.kubernetes_conformance.obstacles import obstacle_to
from tools.kubernetes_conformance.record import Results
from tools.kubernetes_conformance.run import Outcome, Suite

from kubewright_controlplane.kubelet.images import images_in

DELETES = "[sig-apps] Deployment should delete (old) replicas [Conformance]"
ALONE = "[sig-node] Taints [Serial] should be respected [Conformance]"
LIMITS = {"api": 5.0, "controllers": 5.0, "containers": 5.0}


def program(folder: Path, script: str) -> Path:
    """Return a folder with an `e2e.test` that runs `script`."""
    file = folder / "e2e.test"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return folder


async def run(folder: Path, specs: list[object], name: str = DELETES) -> Outcome:
    """Run a case whose process writes a report with `specs`."""
    (folder / "specs.json").write_text(json.dumps([{"SpecReports": specs}]))
    script = f'for each; do case $each in --ginkgo.json-report=*) cp {folder}/specs.json "${{each#*=}}";; esac; done'
    suite = Suite(program(folder, f'echo "$@" > {folder}/arguments\n{script}'), folder / "k", folder, limits=LIMITS)
    [outcome] = [each async for each in suite.run([Case(name, "apps.go", "api")], at_once=1)]
    return outcome


def spec(state: str, message: str = "") -> dict[str, object]:
    failure = {"Failure": {"Message": message}} if message else {}
    return {"LeafNodeType": "It", "State": state, "RunTime": 1_500_000_000, **failure}


@pytest.mark.parametrize(
    ("reported", "state"), [("passed", "passed"), ("failed", "failed"), ("panicked", "failed"), ("timedout", "timeout")]
)
async def test_the_report_of_the_suite_becomes_the_outcome(tmp_path: Path, reported: str, state: str) -> None:
    outcome = await run(tmp_path, [spec("skipped"), spec(reported, "" if state == "passed" else "no\n  Pods")])
    assert (outcome.state, outcome.seconds) == (state, 1.5)
    assert outcome.reason == ("" if state == "passed" else "no Pods")


async def test_reasons_do_not_name_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    outcome = await run(tmp_path, [spec("failed", "error running /home/me/bin/kubectl")])
    assert outcome.reason == "error running ~/bin/kubectl"


async def test_a_case_that_the_suite_does_not_run_has_failed(tmp_path: Path) -> None:
    assert (await run(tmp_path, [spec("skipped")])).state == "failed"


async def test_the_focus_selects_the_name_literally(tmp_path: Path) -> None:
    await run(tmp_path, [spec("passed")])
    found = re.search(r"--ginkgo\.focus=(.*) --ginkgo\.timeout", (tmp_path / "arguments").read_text())
    assert found is not None
    assert re.fullmatch(found[1], DELETES)


@pytest.mark.parametrize("script", ["", "{begin}"])
async def test_a_process_that_dies_without_a_complete_report_did_not_pass(tmp_path: Path, script: str) -> None:
    begin = 'for each; do case $each in --ginkgo.json-report=*) printf "[" > "${each#*=}";; esac; done'
    suite = Suite(program(tmp_path, f"{script}\nexit 1".format(begin=begin)), tmp_path / "k", tmp_path, limits=LIMITS)
    outcomes = [each async for each in suite.run([Case(ALONE, "node.go", "api")], at_once=1)]
    assert [each.state for each in outcomes] == ["failed"]
    assert "no report" in outcomes[0].reason


def test_the_cases_are_those_that_the_suite_lists(tmp_path: Path) -> None:
    listed = f"cat <<'E'\n- codename: '{DELETES}'\n  file: a.go\n- codename: '{ALONE}'\n  file: b.go\nE"
    first, second = all_cases(program(tmp_path, listed))
    assert (first.name, first.area, first.runs_alone) == (DELETES, "sig-apps", False)
    assert (second.area, second.runs_alone) == ("sig-node", True)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "[sig-storage] Secrets should be consumable from pods in volume [Conformance]",
            "reads what a container prints",
        ),
        (
            "[sig-network] Services should serve a basic endpoint from pods [Conformance]",
            "connects to a Pod, or to a Service",
        ),
        (DELETES, None),
    ],
)
def test_cases_that_need_running_containers_have_a_reason(name: str, why: str | None) -> None:
    assert obstacle_to(name) == why


def test_runs_at_the_same_time_keep_the_outcomes_of_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "FOLDER", tmp_path)
    first, second = Results.read("embedded"), Results.read("embedded")
    first.add(Outcome(Case(DELETES, "apps.go", "api"), "passed", 1.0))
    second.add(Outcome(Case(ALONE, "node.go", "api"), "failed", 1.0, "no"))
    first.write(command="make")
    second.write(command="make")
    found = Results.read("embedded")
    assert (found.has_passed(DELETES), found.has_passed(ALONE), len(found.cases)) == (True, False, 2)


def test_the_images_that_run_have_a_root_folder_with_their_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "installed"
    binaries = tmp_path / "binaries"
    for folder, names in ((installed, ("bwrap", "busybox", "curl", "dig", "setpriv")), (binaries, ("agnhost",))):
        folder.mkdir()
        for name in names:
            shutil.copy("/bin/true", folder / name)
    (installed / "busybox").write_text("#!/bin/sh\necho sh setpriv busybox\n")
    monkeypatch.setenv("PATH", f"{installed}:/usr/bin:/bin")
    check_programs()
    root = tmp_path / "images" / "root"
    table = images_in(write_images(binaries, tmp_path / "images"))
    assert {image.root for image in table.values()} == {str(root)}
    assert table["registry.k8s.io/e2e-test-images/agnhost:*"].command == ("/agnhost",)
    assert (root / "bin" / "setpriv").readlink() == Path("busybox")
    assert (root / "bin" / "sh").resolve() == root / "usr" / "bin" / "bash"
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingProgramsError, match="install the package bash"):
        check_programs()
