"""`eventually`, `gone`, `Faults`, and the options of the pytest plugin."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from kubewright.client._config import Config
from kubewright.client._transport import HandlerTransport
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import ConfigError, NotFound
from kubewright.testing import Faults, eventually, gone
from kubewright.testing._plugin import target_of

pytest_plugins = ["pytester"]


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_eventually_returns_what_the_first_successful_call_returns() -> None:
    async def at(moment: float, *, unit: str) -> str:
        if now() < moment:
            raise NotFound("not yet")
        return f"{now():.0f} {unit}"

    assert await eventually(at, 50.0, unit="s") == "50 s"


async def test_eventually_takes_a_plain_function_without_arguments() -> None:
    def check() -> float:
        assert now() > 10
        return now()

    assert 10 < await eventually(check) < 11


@pytest.mark.parametrize(("within", "seconds"), [(7, 7), (timedelta(minutes=1), 60), (None, 120)])
async def test_eventually_raises_the_last_error_when_the_time_is_over(
    within: float | timedelta | None, seconds: float
) -> None:
    async def never() -> None:
        raise AssertionError("no")

    with pytest.raises(AssertionError, match="no"):
        await eventually(never, within=within)
    assert seconds <= now() <= seconds + 1


async def test_eventually_raises_other_errors_at_once() -> None:
    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await eventually(broken)
    assert now() == 0


async def test_gone_waits_for_not_found() -> None:
    async def get(name: str) -> str:
        if now() > 5:
            raise NotFound(name)
        return name

    await gone(get, "web")
    with pytest.raises(AssertionError, match="still exists: web"):
        await gone(asyncio.to_thread, lambda: "web", within=0.1)


async def test_faults_take_a_config_or_a_transport() -> None:
    async def handle(request: Request) -> Response:
        return Response(200)

    faults = Faults(transport=HandlerTransport(handle))
    assert (await faults.send(Request("GET", "/"))).status == 200
    with pytest.raises(ConfigError, match="either a config or transport="):
        Faults()
    with pytest.raises(ConfigError, match="either a config or transport="):
        Faults(Config("http://127.0.0.1:1"), transport=HandlerTransport(handle))


TEST = """
from kubewright.testing._waiting import within_of_this_run

def test_settings(kubewright_target):
    assert (kubewright_target, within_of_this_run.get()) == {expected}
"""


@pytest.mark.parametrize(
    ("arguments", "variable", "expected"),
    [
        ([], None, ("embedded", 120.0)),
        ([], "kubeconfig", ("kubeconfig", 120.0)),
        (["--kubewright-target=real"], "kubeconfig", ("real", 120.0)),
        (["-o", "kubewright_eventually_within=3.5"], None, ("embedded", 3.5)),
    ],
)
def test_the_plugin_takes_its_settings_from_options_and_the_environment(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    variable: str | None,
    expected: tuple[str, float],
) -> None:
    monkeypatch.delenv("KUBEWRIGHT_TARGET", raising=False)
    if variable is not None:
        monkeypatch.setenv("KUBEWRIGHT_TARGET", variable)
    pytester.makepyfile(TEST.format(expected=expected))
    outcome = pytester.runpytest_subprocess(*arguments)
    outcome.assert_outcomes(passed=1)


def test_settings_that_make_no_sense_are_refused(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(TEST.format(expected=()))
    outcome = pytester.runpytest_subprocess("-o", "kubewright_eventually_within=soon")
    outcome.stderr.fnmatch_lines(["*kubewright_eventually_within: must be a number of seconds, got 'soon'*"])
    monkeypatch.setenv("KUBEWRIGHT_TARGET", "moon")
    with pytest.raises(pytest.UsageError, match="KUBEWRIGHT_TARGET: must be one of embedded, real, kubeconfig"):
        target_of(pytester.parseconfig())


def test_without_the_control_plane_one_line_says_what_to_install(pytester: pytest.Pytester, tmp_path: Path) -> None:
    pytester.makeconftest(
        """
        import importlib.util

        find_spec = importlib.util.find_spec
        importlib.util.find_spec = lambda name: None if name == "kubewright_controlplane" else find_spec(name)
        """
    )
    pytester.makepyfile("def test_operator(kubewright_config): ...")
    outcome = pytester.runpytest_subprocess()
    outcome.stdout.fnmatch_lines(
        ["*needs the package kubewright-controlplane, which is not installed*pip install 'kubewright[[]dev]'"]
    )
    outcome.stdout.no_fnmatch_line("*Traceback*")
