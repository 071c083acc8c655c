"""What a person filled in becomes the command that a job carries out."""

from pathlib import Path

from typer.testing import CliRunner

from enginebench_controller.cli import make_app
from enginebench_ui.pages.projects.shapes import Quantization, missing_folder, prune_arguments, quantize_arguments


def test_random_inputs_are_drawn_with_a_seed():
    words = quantize_arguments("ab12", Quantization(seed=7, samples=16, shapes="ids=1x8, mask=1x8"))

    assert words == ("models", "quantize", "ab12", "--samples=16", "--seed=7", "--shape=ids=1x8", "--shape=mask=1x8")


def test_files_come_from_an_absolute_folder_with_the_image_options_that_were_given(tmp_path):
    words = quantize_arguments("ab12", Quantization(samples=None, folder=str(tmp_path), resize="crop", mean="1,2,3"))

    assert words == (
        *("models", "quantize", "ab12", f"--inputs={tmp_path}"),
        *("--image-resize=crop", "--image-mean=1,2,3"),
    )


def test_a_relative_folder_is_that_of_the_pages_not_of_the_job():
    words = quantize_arguments("ab12", Quantization(folder="photos"))

    assert f"--inputs={Path.cwd() / 'photos'}" in words


def test_a_sparsity_in_per_cent_becomes_a_share():
    assert prune_arguments("ab12", 87.5) == ("models", "prune", "ab12", "--sparsity=0.875")


def test_a_folder_that_is_not_there_is_said(tmp_path):
    assert missing_folder(Quantization(folder=str(tmp_path))) == ""
    assert missing_folder(Quantization()) == ""
    assert f"There is no folder {tmp_path}/none" in missing_folder(Quantization(folder=f"{tmp_path}/none"))
    assert "There is no folder ~nobody-of-this-name/x" in missing_folder(Quantization(folder="~nobody-of-this-name/x"))


def test_the_command_line_knows_these_words(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    wishes = [
        Quantization(shapes="x=1x8"),
        Quantization(samples=None, folder=str(tmp_path), resize="crop", layout="nchw", scale="1", mean="0", std="1"),
    ]
    for words in (*(quantize_arguments("ab12cd34", wish) for wish in wishes), prune_arguments("ab12cd34", 90)):
        ended = CliRunner().invoke(make_app(), list(words))
        # The words are understood; only the model is not there.
        assert "no model is called 'ab12cd34'" in str(ended.exception)
