"""The home of enginebench: which folder it is."""

import pwd
from typing import NoReturn

import pytest

from enginebench_controller.errors import InputError
from enginebench_controller.home import default_home, home_to_read


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
