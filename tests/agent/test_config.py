"""`agent.toml` as editors save it, and numbers of the command line in plain digits."""

from pathlib import Path

import pytest

from enginebench_agent.cli import parser
from enginebench_agent.config import load_config
from enginebench_agent.data_folder import DataFolder
from enginebench_agent.errors import SetupError


def test_the_settings_may_begin_with_the_mark_that_some_editors_put_there(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text("max_streams = 7\n", encoding="utf-8-sig")
    assert load_config(DataFolder(tmp_path)).max_streams == 7


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
def test_settings_of_another_encoding_are_told_how_to_save_them(tmp_path: Path, encoding: str) -> None:
    (file := tmp_path / "agent.toml").write_text("# für den Prüfstand\nmax_streams = 7\n", encoding=encoding)
    with pytest.raises(SetupError) as caught:
        load_config(DataFolder(tmp_path))
    assert str(caught.value) == f"cannot read {file}: it is not UTF-8: save it as UTF-8"


@pytest.mark.parametrize("port", ["５０", "٥٠", "5_0", "50.151", "+50"])
def test_a_port_is_plain_digits(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["serve", "--port", port])
    assert f"invalid _port value: {port!r}" in capsys.readouterr().err
