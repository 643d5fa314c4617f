"""Log lines, for people and for machines."""

import argparse
import ast
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import kubewright
from kubewright._runtime.log import get_logger
from kubewright.manager import _logs as logs

LEVELS = ("debug", "info", "warning", "error", "exception", "log")


@pytest.fixture(autouse=True)
def root_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_line_for_machines_is_json_with_a_constant_message_and_keys() -> None:
    out = io.StringIO()
    logs.configure("json", stream=out)
    log = get_logger("kubewright.controller.web").bind(namespace="shop", name="a")
    log.info("Deployment spec.replicas change", before=3, after=4)
    line = json.loads(out.getvalue())
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "kubewright.controller.web",
        "msg": "Deployment spec.replicas change",
        "namespace": "shop",
        "name": "a",
        "before": 3,
        "after": 4,
    }


def test_a_line_for_people_shows_keys_after_the_message() -> None:
    out = io.StringIO()
    logs.configure("console", stream=out)
    get_logger("kubewright.controller.web").warning("Port is taken", port=30010, by="Service other", node=None)
    line = out.getvalue()
    assert line.endswith('WARNING controller.web  Port is taken  port=30010 by="Service other"\n')
    assert "\033" not in line


def test_a_formatter_without_key_support_shows_keys_after_the_message(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("kubewright.controller.web").warning("Port is taken", port=30010, by="Service other")
    assert 'Port is taken  port=30010 by="Service other"' in caplog.text
    assert caplog.records[0].msg == "Port is taken"


def test_a_traceback_follows_the_line() -> None:
    people, machines = io.StringIO(), io.StringIO()
    for format, out in (("console", people), ("json", machines)):
        logs.configure(format, stream=out)  # type: ignore[arg-type]
        try:
            raise ValueError("no")
        except ValueError as error:
            get_logger("test").error("Failed", exc_info=error)
    assert "ValueError: no" in people.getvalue()
    assert "ValueError: no" in json.loads(machines.getvalue())["stacktrace"]


def test_lines_of_libraries_are_formatted_with_their_arguments() -> None:
    out = io.StringIO()
    logs.configure("json", stream=out)
    logging.getLogger("asyncio").warning("%d tasks", 3)
    line = json.loads(out.getvalue())
    assert (line["msg"], line["template"]) == ("3 tasks", "%d tasks")


def test_values_that_json_does_not_have_are_shown_as_text() -> None:
    out = io.StringIO()
    logs.configure("json", stream=out)
    get_logger("test").info("Seen", error=KeyError("x"))
    assert json.loads(out.getvalue())["error"] == "'x'"


def test_levels_below_the_chosen_one_are_not_shown() -> None:
    out = io.StringIO()
    logs.configure("json", "warning", out)
    get_logger("test").info("Quiet")
    assert out.getvalue() == ""


def logged_by_a_library(logger: str, level: int) -> logging.LogRecord:
    path = argparse.__file__  # of the standard library, as files of installed packages are
    return logging.LogRecord(logger, level, path, 1, "Request sent", (), None)


@pytest.mark.parametrize(
    ("logger", "level", "chosen", "shown"),
    [
        ("httpx", logging.INFO, "info", False),
        ("httpx", logging.WARNING, "info", True),
        ("httpx", logging.INFO, "debug", True),
        ("kubewright.manager", logging.INFO, "info", True),
        ("dns_operator.api", logging.INFO, "info", True),
        ("chatty.part", logging.INFO, "info", True),
    ],
)
def test_libraries_log_warnings_and_what_the_program_asks_for(
    logger: str, level: int, chosen: str, shown: bool
) -> None:
    out = io.StringIO()
    logs.configure("json", chosen, out, packages=["dns_operator"])
    logging.getLogger("chatty").setLevel(logging.INFO)
    (handler,) = logging.getLogger().handlers
    handler.handle(logged_by_a_library(logger, level))
    assert bool(out.getvalue()) is shown


def test_any_logger_of_the_programs_own_files_logs_at_info() -> None:
    out = io.StringIO()
    logs.configure("json", stream=out)
    logging.getLogger("bookings").info("Booked")
    assert json.loads(out.getvalue())["msg"] == "Booked"


def messages(source: str) -> Iterator[ast.expr]:
    """Yield the message of each call that logs: the first argument, or the second of `log`."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        target = ast.unparse(node.func.value).rpartition(".")[2]
        if node.func.attr in LEVELS and target in ("log", "_log"):
            yield node.args[1 if node.func.attr == "log" else 0]


def is_constant(message: ast.expr) -> bool:
    if isinstance(message, ast.IfExp):
        return is_constant(message.body) and is_constant(message.orelse)
    if isinstance(message, ast.Attribute):
        return message.attr == "value"  # of an enumeration
    return isinstance(message, ast.Constant) and "%" not in str(message.value)


@pytest.mark.parametrize("package", ["http", "client", "cache", "controllers", "manager"])
def test_messages_of_our_own_are_constant(package: str) -> None:
    folder = Path(kubewright.__file__).parent / package
    found = [(file.name, each) for file in folder.glob("*.py") for each in messages(file.read_text())]
    assert found
    assert [f"{name}: {ast.unparse(each)}" for name, each in found if not is_constant(each)] == []
