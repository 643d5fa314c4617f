"""`kubewright-controlplane envtest`: kube-apiserver and etcd for suites in other languages, without Go."""

from __future__ import annotations

import os
import subprocess
import sys
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from integration.command import CONTROL_PLANE, environment
from integration.envtest import assets, real_program, refusal
from kubewright import Client
from kubewright.apis.core.v1 import ConfigMap, Container, Pod, PodSpec, Service, ServicePort, ServiceSpec
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client import MergePatch
from kubewright.machinery.errors import ConfigError
from kubewright.testing import eventually
from kubewright_controlplane.apiserver.pki import CertificateAuthority
from kubewright_controlplane.envtest.assets import assets_folder
from kubewright_controlplane.ports import free_port, is_free
from kubewright_controlplane.real import RealControlPlane

ETCD = "--etcd-servers=http://127.0.0.1:1"
STARTER = """
import subprocess, sys, time
for line in sys.argv[1:]:
    subprocess.Popen(line.split())
    print("started", flush=True)
time.sleep(600)
"""
"""A suite that starts programs and never stops them."""


async def test_objects_outlive_a_killed_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets()))
    flags = ("--service-cluster-ip-range=10.7.0.0/24", "--max-requests-inflight=1000", "--v=4")
    async with RealControlPlane(controllers=False, api_server_arguments=flags) as control_plane:
        client = Client(control_plane.config)
        await client.create(Pod(metadata=meta("bare"), spec=PodSpec(containers=[Container(name="c", image="nginx")])))
        service = await client.create(
            Service(metadata=meta("web"), spec=ServiceSpec(ports=[ServicePort(port=80)], selector={"app": "web"}))
        )
        assert ip_address(service.spec.cluster_ip or "") in ip_network("10.7.0.0/24")
        before = await client.create(ConfigMap(metadata=meta("kept"), data={"a": "b"}))
        await client.close()
        await control_plane.restart_api_server()
        client = Client(control_plane.config)
        after = await client.get(ConfigMap, "kept", namespace="default")
        assert (after.data, after.metadata.uid) == ({"a": "b"}, before.metadata.uid)
        written = await client.patch(after, MergePatch({"data": {"a": "c"}}))
        assert int(written.metadata.resource_version) > int(before.metadata.resource_version)
        await client.close()


def meta(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="default")


async def test_the_programs_of_a_killed_suite_end_and_remove_what_envtest_made(tmp_path: Path) -> None:
    data, certificates = (tmp_path / f"k8s_test_framework_{name}" for name in ("data", "certificates"))
    certificates.mkdir()
    pair = CertificateAuthority.create().issue_client("service-accounts")
    certificates.joinpath("sa.crt").write_bytes(pair.certificate)
    certificates.joinpath("sa.key").write_bytes(pair.key)
    etcd, peers, port = free_port(), free_port(), free_port()
    lines = (
        f"{assets() / 'etcd'} --data-dir={data} --listen-client-urls=http://127.0.0.1:{etcd} "
        f"--listen-peer-urls=http://127.0.0.1:{peers} --unsafe-no-fsync",
        f"{assets() / 'kube-apiserver'} --etcd-servers=http://127.0.0.1:{etcd} --secure-port={port} "
        f"--cert-dir={certificates} --service-account-issuer=https://127.0.0.1:{port}/ "
        f"--service-account-issuer=https://old.example.com "
        f"--service-account-key-file={certificates}/sa.crt --service-account-signing-key-file={certificates}/sa.key",
    )
    own = environment(None) | {"TMPDIR": str(tmp_path)}
    suite = subprocess.Popen(  # noqa: ASYNC220 - it is killed, not awaited
        (sys.executable, "-c", STARTER, *lines), env=own, process_group=0
    )
    try:
        await eventually(lambda: listening(port), within=60)
        assert data.is_dir()
        suite.kill()
        suite.wait()
        await eventually(lambda: ended(etcd, port, data, certificates), within=60)
    finally:
        suite.kill()
        suite.wait()


async def listening(port: int) -> None:
    assert not is_free(port)


async def ended(etcd: int, port: int, *folders: Path) -> None:
    assert is_free(etcd)
    assert is_free(port)
    assert not any(folder.exists() for folder in folders)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bogus=1"], "Error: unknown flag: --bogus"),
        (["-x"], "Error: unknown shorthand flag: 'x' in -x"),
        (["--secure-port"], "Error: flag needs an argument: --secure-port"),
        (
            ["--secure-port=abc"],
            'Error: invalid argument "abc" for "--secure-port" flag: strconv.ParseInt: parsing "abc": invalid syntax',
        ),
        (
            ["--allow-privileged=maybe"],
            'Error: invalid argument "maybe" for "--allow-privileged" flag: strconv.ParseBool: parsing "maybe": '
            "invalid syntax",
        ),
        (
            ["--event-ttl=5"],
            'Error: invalid argument "5" for "--event-ttl" flag: time: missing unit in duration "5"',
        ),
        (["--bind-address", "x"], 'Error: invalid argument "x" for "--bind-address" flag: failed to parse IP: "x"'),
        (
            ["--service-node-port-range=5-3"],
            'Error: invalid argument "5-3" for "--service-node-port-range" flag: end port cannot be less than start '
            "port: 5-3",
        ),
        (["now"], 'Error: "kube-apiserver" does not take any arguments, got ["now"]'),
        ([ETCD, "--feature-gates=Bogus=true"], '"command failed" err="unrecognized feature gate: Bogus"'),
        (
            [ETCD, "--feature-gates=ServerSideApply=false"],
            '"command failed" err="unrecognized feature gate: ServerSideApply"',
        ),
    ],
)
def test_a_wrong_flag_is_refused_in_the_words_of_the_real_program(arguments: list[str], message: str) -> None:
    assert refusal(assets() / "kube-apiserver", *arguments) == message
    real = real_program("kube-apiserver")
    if real is not None:
        assert refusal(real, *arguments) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--enable-admission-plugins=Bogus"], 'enable-admission-plugins plugin \\"Bogus\\" is unknown'),
        (["--authorization-mode=Bogus"], 'authorization-mode \\"Bogus\\" is not a valid mode'),
        (["--runtime-config=bogus/v1=true"], "unknown api groups bogus/v1"),
        (["--secure-port=0"], "--secure-port 0 must be between 1 and 65535, inclusive"),
    ],
)
def test_an_unknown_name_is_refused_with_all_other_errors(arguments: list[str], message: str) -> None:
    text = refusal(assets() / "kube-apiserver", *arguments)
    assert message in text
    assert "service-account-issuer is a required flag" in text
    real = real_program("kube-apiserver")
    if real is not None:
        assert message in refusal(real, *arguments)


def test_flags_that_would_change_what_the_server_does_are_refused() -> None:
    flags = (
        "--oidc-issuer-url=https://issuer.example.com",
        "--admission-control-config-file=config.yaml",
        "--enable-garbage-collector=false",
        "--enable-admission-plugins=AlwaysPullImages",
        "--authorization-mode=Webhook",
    )
    text = refusal(assets() / "kube-apiserver", *flags)
    for each in flags:
        name, value = each.removeprefix("--").split("=")
        assert any(name in part or value in part for part in text.split(", ") if "is not supported" in part), each


def test_flags_without_effect_are_accepted_and_what_would_be_missed_is_warned_about() -> None:
    warned = ("--audit-log-path=audit.log", "--feature-gates=AllAlpha=true", "--tracing-config-file=traces.yaml")
    silent = ("--v=9", "--vmodule=a=1", "--profiling=false", "--watch-cache=false", "--etcd-healthcheck-timeout=1s")
    arguments = (assets() / "kube-apiserver", *warned, *silent)
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    warnings = [line.partition("] ")[2] for line in done.stderr.splitlines() if line.startswith("W")]
    assert warnings == [
        "feature gate AllAlpha=true has no effect in the embedded API server",
        "--audit-log-path has no effect in the embedded API server",
        "--tracing-config-file has no effect in the embedded API server",
    ]
    assert "not supported" not in done.stderr


def test_kubebuilder_finds_the_folder_in_the_project(tmp_path: Path) -> None:
    done = subprocess.run(
        (CONTROL_PLANE, "envtest", "--bin-dir", "bin", "-p", "env"),
        cwd=tmp_path,
        env=environment(None),
        capture_output=True,
        text=True,
        check=True,
    )
    (folder,) = (tmp_path / "bin/k8s").iterdir()
    assert done.stdout == f"export KUBEBUILDER_ASSETS='{folder}'\n"
    assert os.access(folder / "kube-apiserver", os.X_OK)
    folder.joinpath("etcd").write_bytes(b"\x7fELF")
    with pytest.raises(ConfigError, match="etcd is another program"):
        assets_folder(tmp_path / "bin")


def test_etcd_without_a_free_port_says_so(tmp_path: Path) -> None:
    port = free_port()
    arguments = (f"--listen-client-urls=http://127.0.0.1:{port}", f"--listen-peer-urls=http://127.0.0.1:{port}")
    text = refusal(assets() / "etcd", f"--data-dir={tmp_path}", *arguments)
    assert text == f"etcd: http://127.0.0.1:{port}: Address already in use"
    assert refusal(assets() / "etcd", "--bogus") == "flag provided but not defined: -bogus"
