"""The home of enginebench: which folder it is."""

import pwd
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner

import enginebench
from enginebench_controller.cli import make_app
from enginebench_controller.errors import InputError
from enginebench_controller.home import default_home, home_to_read
from enginebench_controller.plan.gate import parse_sides
from enginebench_controller.plan.options import input_folder
from enginebench_controller.store.lake.place import lake_at
from enginebench_controller.typed_paths import typed_path


def unknown(key: object) -> NoReturn:
    raise KeyError(key)


@pytest.mark.parametrize("named", ["", "~/bench"])
def test_where_the_account_has_no_home_it_is_said_what_to_set(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a container may have none: no HOME, and the account in no list."""
    monkeypatch.setenv("ENGINEBENCH_HOME", named)
    for variable in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(InputError, match="set ENGINEBENCH_HOME to a whole path"):
        default_home()


def test_stores_whose_quotes_do_not_end_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEBENCH_STORE", "/lake 'of the lab")
    with pytest.raises(InputError, match=r"ENGINEBENCH_STORE is .*No closing quotation.*quote it"):
        home_to_read()


NOWHERE = "~nobody-of-this-name/results"
"""As no shell puts anything in its place, and there is no such account."""


@pytest.mark.parametrize(
    "use",
    [
        lambda: typed_path(NOWHERE),
        lambda: lake_at(NOWHERE),
        lambda: input_folder(Path(NOWHERE)),
        lambda: parse_sides("net.onnx", "torch@old", f"plugin:{NOWHERE}", "torch"),
        lambda: enginebench.open_store(NOWHERE),
    ],
)
def test_a_home_that_is_not_known_is_one_sentence_wherever_a_path_is_typed(use: Callable[[], object]) -> None:
    with pytest.raises(InputError, match=r"~nobody-of-this-name/results: .* no home folder ~nobody-of-this-name;"):
        use()


@pytest.mark.parametrize(
    "words",
    [("store", "backup"), ("ca", "issue", "agent", "nuc", "--host=nuc", "--out"), ("plugin", "new", "x", "--into")],
)
def test_commands_write_nothing_to_a_home_that_is_not_known(
    words: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))
    done = CliRunner().invoke(make_app(words), [*words, NOWHERE])
    assert isinstance(done.exception, InputError) and "no home folder ~nobody-of-this-name" in str(done.exception)
    assert list(tmp_path.iterdir()) == []
