"""The button beside advice on INT8: one job that measures a model beside its INT8 version, and what it says of it."""

import time

import pytest

from controller.tiny_models import save, tiny_classifier, tiny_embedding
from controller.verdicts.pruning.passes import conv, layer, one_pass
from enginebench_controller.home import default_home
from enginebench_controller.jobs.control import cancel, jobs
from enginebench_controller.jobs.record import JobState
from enginebench_controller.models.derive.quantize import quantize
from enginebench_controller.records import Configuration, EngineRef, Peak, PeakKind, Rate
from enginebench_ui.pages import COMPARE, JOB, PROFILE
from enginebench_ui.shared import quantizing
from integration.bench import Bench
from opened_pages import button, opened, texts

pytestmark = pytest.mark.slow

LABEL = "Quantize and compare"
QUICK = {"processes": 1, "interval": "0%", "duration": "100ms", "max_duration": "60s", "warmup": "50ms"}
QUICK |= {"wait_quiet": "0s", "retry_noisy": False}
WITHIN_S = 90


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(Bench.of_engines(tmp_path / "home", "onnxruntime").home))
    home = default_home()
    yield home
    for one in jobs(home):
        cancel(one)
    ended(home)


@pytest.fixture
def quick(monkeypatch):
    """Measurements that take no time: what is asked here is what is measured, and not how well."""
    asked = quantizing.beside_int8
    monkeypatch.setattr(quantizing, "beside_int8", lambda *given: asked(*given).model_copy(update=QUICK))


def ended(home):
    deadline = time.monotonic() + WITHIN_S
    while not all(one.state.has_ended for one in jobs(home)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return jobs(home)


def profiled(home, version, **fields):
    """A profile of a version on a device that is made for INT8, whose time goes into floating products."""
    known = {
        "engine": EngineRef("onnxruntime", "default", "1.0"),
        "configuration": Configuration("CPU", batch=2, cores=1),
        "model_digest": version.digest,
        "model_name": version.name,
    }
    nodes = tuple(conv(index) for index in range(8))
    layers = tuple(layer(f"layer{index}", 10, index) for index in range(8))
    known |= {"identity": "advised", **fields}
    home.store.add_profile(one_pass(nodes, layers, **known), version)
    home.store.add_peaks([peak(known["engine"], "f32", 1e9), peak(known["engine"], "int8", 3e9)])


def peak(engine, precision, per_s):
    rate = Rate(per_s, per_s, per_s, 9)
    return Peak("local", engine, "CPU", 1, PeakKind.FLOPS, "products", 0, rate=rate, precision=precision)


def model(home, tmp_path, made=tiny_classifier):
    return home.library.add(save(made(), tmp_path / "net.onnx"))


def advised():
    return opened(PROFILE, id="advised", view="Advice")


def said(app):
    return " ".join(texts(app.caption))


def line(app):
    """What is said of the job below the button."""
    return next(one for one in app.get("page_link") if LABEL in one.label).label.replace("\u2060", "")


def test_one_press_makes_the_version_measures_both_as_the_profile_was_and_leads_to_their_comparison(
    home, tmp_path, quick
):
    net = model(home, tmp_path)
    profiled(home, net)
    app = advised()
    assert "Makes the INT8 version, calibrated on 8 random inputs" in said(app)

    button(app, LABEL).click().run()
    (job,) = ended(home)
    app.run()

    assert job.state is JobState.DONE, job
    measured = home.store.measurements(job.benchmarks[0])
    made = next(one for one in home.library.versions() if one.parent_digest == net.digest and "int8" in one.name)
    assert {one.model_name for one in measured} == {"net", "net-int8"}
    assert {(one.engine.name, one.configuration.device, one.configuration.batch) for one in measured} == {
        ("onnxruntime", "CPU", 2)
    }
    assert len({one.interleaving_group for one in measured} - {None}) == 1, "in turns"
    assert "done" in line(app)
    (link,) = [one for one in app.get("page_link") if one.label == "Compare the two"]
    query = dict(part.split("=") for part in link.proto.query_string.split("&"))
    assert query["a"].startswith(net.digest[:12]) and query["b"].startswith(made.digest[:12])

    assert "Compare the two" in [one.label for one in opened(JOB, id=job.id).get("page_link")]
    compared = " ".join(texts(opened(COMPARE, **{key: one.replace("%7E", "~") for key, one in query.items()}).markdown))
    assert "net-int8" in compared


def test_a_version_that_exists_is_taken_and_named(home, tmp_path):
    net = model(home, tmp_path)
    quantize(home.library, net, samples=2)
    profiled(home, net)
    assert "Takes net-int8, which is there already." in said(advised())


def test_while_one_job_runs_there_is_no_second_and_the_first_can_be_cancelled(home, tmp_path):
    profiled(home, model(home, tmp_path))
    app, other_tab = advised(), advised()
    button(app, LABEL).click().run()
    assert button(app, LABEL).disabled and "A job is doing this already." in said(app)
    button(other_tab, LABEL).click().run()
    (job,) = jobs(home)

    cancel(job)
    (job,) = ended(home)
    app.run()
    assert job.state is JobState.CANCELLED
    assert "cancelled" in line(app) and not button(app, LABEL).disabled


def test_a_model_that_cannot_be_quantized_is_a_sentence_below_the_button_and_nothing_is_measured(home, tmp_path):
    profiled(home, model(home, tmp_path, tiny_embedding))
    app = advised()
    button(app, LABEL).click().run()
    (job,) = ended(home)
    app.run()
    assert job.state is JobState.FAILED
    assert "net cannot be quantized: it has no layer that can be quantized" in line(app).replace("\\", "")
    assert home.store.benchmarks() == ()


def test_why_a_version_cannot_be_quantized_is_said_before_the_button_is_pressed(home, tmp_path):
    net = model(home, tmp_path)
    home.library.remove(net)
    profiled(home, net)
    app = advised()
    assert button(app, LABEL).disabled
    assert "Its files are not in this library" in said(app)


def test_advice_on_a_comparison_has_the_button_too(home, tmp_path):
    net = model(home, tmp_path)
    profiled(home, net)
    profiled(home, net, identity="another", engine=EngineRef("other", "default", "1.0"))
    app = opened(COMPARE)
    assert {f"{LABEL} A", f"{LABEL} B"} <= {one.label for one in app.button}
