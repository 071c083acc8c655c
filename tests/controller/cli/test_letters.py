"""Letters that a terminal, a locale or a keyboard has otherwise: shown all the same, and names found however typed."""

import os
import subprocess
import sys
import unicodedata
from dataclasses import replace

import pytest
from tiny_models import save, tiny_classifier
from typer.testing import CliRunner

import invented
from enginebench_controller.cli import make_app
from enginebench_controller.cli.console import plain
from enginebench_controller.errors import InputError
from enginebench_controller.home import default_home
from enginebench_controller.targets.addresses import new_target
from enginebench_controller.targets.choosing import meant
from enginebench_ui.shared.text import inert

ASCII = {"PYTHONIOENCODING": "ascii"}
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0"}
TYPED, ON_A_MAC = (unicodedata.normalize(form, "größe") for form in ("NFC", "NFD"))


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    return default_home()


@pytest.fixture
def command(home, tmp_path):
    """Runs a command line as a process of its own with these variables; the code, and both streams as bytes."""

    def run(variables, *words):
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"} | variables
        line = [sys.executable, "-m", "enginebench_controller", *words]
        done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr

    return run


def told(*words):
    done = CliRunner().invoke(make_app(words), words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def keep(home, name, *identities):
    for place, identity in enumerate(identities):
        home.store.add_benchmark(invented.benchmark(f"b000000{identity}", name))
        one = invented.measured(f"m{identity}", f"b000000{identity}", model_name=name)
        started = one.started_at_unix_ns + place * 10**12 if one.started_at_unix_ns else None
        one = replace(one, started_at_unix_ns=started)
        home.store.add_measurement(one, invented.samples(f"m{identity}"))


@pytest.mark.slow
@pytest.mark.parametrize("variables", [ASCII, C_LOCALE, {"PYTHONIOENCODING": "latin-1"}])
@pytest.mark.parametrize("words", [["list"], ["show", "b0000001"], ["run", "--help"]])
def test_what_an_encoding_lacks_is_shown_in_others_and_the_exit_code_stays(home, command, variables, words):
    keep(home, "größe 日本語", 1)
    code, out, err = command(variables, *words)
    assert code == 0, err
    encoding = variables.get("PYTHONIOENCODING", "ascii")
    shown = out.decode(encoding)
    if words[0] == "show":
        assert ("+/-" if encoding == "ascii" else "±") in shown and "\\u2013" not in shown
    if words[0] == "list":
        assert r"\u65e5\u672c\u8a9e" in shown and ("größe" in shown) == (encoding == "latin-1")
    if words[0] != "run":
        lines = [line for line in shown.splitlines() if line.startswith(("+", "|"))]
        assert len({len(line) for line in lines}) == 1, shown


@pytest.mark.slow
def test_what_a_program_reads_is_written_as_it_is_or_not_at_all(home, command):
    keep(home, "größe", 1)
    words = ["query", "SELECT name FROM benchmarks", "--csv"]
    code, out, err = command(ASCII, *words)
    assert (code, out) == (2, b"") and b"PYTHONIOENCODING=utf-8" in err
    code, out, _ = command({"PYTHONIOENCODING": "utf-8"}, *words)
    assert code == 0 and out.decode().split() == ["name", "größe"]
    for words in (["list", "--json"], ["export", "b0000001"]):
        code, out, _ = command(ASCII, *words)
        assert code == 0 and rb"gr\u00f6\u00dfe" in out


@pytest.mark.slow
def test_of_a_name_that_the_locale_cannot_read_the_locale_is_named(command, tmp_path):
    save(tiny_classifier(), tmp_path / "größe_日本語.onnx")
    words = ["run", "größe_日本語.onnx", "--engine", "fake"]
    code, _, err = command(C_LOCALE, *words)
    assert code == 2 and b"reads names as ascii" in err and b"set PYTHONUTF8=1 or LANG=C.UTF-8" in err
    assert b"rename" not in err

    (tmp_path / "größe_日本語.onnx").rename(os.fsdecode(os.fsencode(tmp_path) + b"/gr\xf6\xdfe.onnx"))
    code, _, err = command({}, "run", os.fsdecode(b"gr\xf6\xdfe.onnx"), "--engine", "fake")
    assert code == 2 and b"rename the file" in err


@pytest.mark.slow
def test_a_name_is_found_where_the_locale_leaves_bytes_of_it(home, command):
    keep(home, "größe", 1)
    code, out, err = command(C_LOCALE, "show", "größe")
    assert code == 0, err
    assert b"b0000001" in out


@pytest.mark.slow
@pytest.mark.parametrize(("kept", "typed"), [(ON_A_MAC, TYPED), (TYPED, ON_A_MAC)])
def test_what_was_measured_is_found_in_whichever_form_its_name_is_typed(home, kept, typed):
    keep(home, kept, 1, 2)
    assert "b0000001" in told("compare", "--json", "b0000001", "b0000002")
    for word in (typed, f"{typed}.onnx"):
        assert told("trend", word).count("2") > 0
    keep(home, f"{kept}.onnx", 3)
    assert "b0000003" in told("show", f"{typed}.onnx")
    assert "b0000003" in told("export", f"{typed}.onnx")


def test_a_model_is_called_by_the_composed_form_and_its_file_as_on_the_disk(home, tmp_path):
    path = save(tiny_classifier(), tmp_path / f"{ON_A_MAC}.onnx")
    version = home.library.add(path)
    assert version.name == TYPED
    assert home.library.main_path(version).exists()
    assert home.library.resolve(TYPED) == home.library.resolve(ON_A_MAC) == version
    assert home.library.add(path, name=f"{ON_A_MAC}2").name == f"{TYPED}2"


@pytest.mark.slow
def test_a_benchmark_is_called_by_the_composed_form(command, home, tmp_path):
    save(tiny_classifier(), tmp_path / f"{ON_A_MAC}.onnx")
    short = ["--processes", "1", "--duration", "100ms", "--max-duration", "200ms", "--iterations", "1"]
    code, _, err = command({}, "run", f"{ON_A_MAC}.onnx", "--engine", "fake", *short)
    assert [one.benchmark.name for one in home.store.benchmarks()] == [f"{TYPED}.onnx"], (code, err)


def test_a_target_is_called_by_the_composed_form_and_found_in_both(home):
    target = new_target(ON_A_MAC, "127.0.0.1:50151")
    assert target.name == TYPED
    home.store.add_target(target)
    assert meant(home, [ON_A_MAC]) == meant(home, [TYPED]) == (TYPED,)
    told("targets", "label", ON_A_MAC, f"stra\u00dfe={ON_A_MAC}")
    assert meant(home, [f"label:straße={TYPED}"]) == (TYPED,)
    told("targets", "remove", ON_A_MAC)
    assert home.store.targets() == ()
    with pytest.raises(InputError):
        new_target("a b", "127.0.0.1:50151")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("東京\u3000一", "東京 一"),
        ("a\N{NO-BREAK SPACE}b", "a b"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("a\u202eb\u2066c\u2028d\x9be\x1b", "a�b�c�d�e�"),
    ],
)
def test_what_joins_and_parts_letters_is_shown_and_what_turns_them_round_is_not(name, shown):
    assert plain(name).plain == shown
    joined = [one for one in shown if one not in " �"]
    assert [one for one in inert(name) if one in joined] == joined
