"""A search for a configuration whose figures are made up, through the policy itself. Nothing here was measured."""

from dataclasses import replace
from math import exp

import numpy as np

import invented
from enginebench_controller.plan.configurations import BoundModel
from enginebench_controller.plan.points import space
from enginebench_controller.plan.recommend import limit_words, make_order
from enginebench_controller.records import InputTensor, ModelFile, ModelVersion, Search, SearchKind
from enginebench_controller.verdicts.recommend.answer import answer_document
from enginebench_controller.verdicts.recommend.answering import recommendation, recommendations
from enginebench_controller.verdicts.recommend.candidates import SearchTerms, Step, StepTaken
from enginebench_controller.verdicts.recommend.for_all import ForAll
from enginebench_controller.verdicts.recommend.search import answer, next_step
from enginebench_controller.verdicts.recommend.steps import Figures, StoredStep, reading_of
from offered import engine, target

NET = ModelVersion("aa" * 32, "net", "onnx", (ModelFile("net.onnx", "bb" * 32, 1_000_000),), 1)
TARGET = target(
    engine("openvino", hints=("none", "throughput"), multiple_streams=True),
    engine("torch", loads=("sync",), devices=("CPU", "CUDA:0")),
    cores=2,
)
ID = "5ea4c4000001"


def order(**fields):
    """An order for a model that is not there."""
    return make_order({"models": ["net"], "max_latency": "p95<20ms", "axes": {"batch": ("1", "4", "16")}} | fields)


def points(asked):
    """All points of the order on the invented target."""
    return space(asked, TARGET, _bind, asked.models)


def carried_out(asked, *, noise=0.02, refused=(), most_steps=99, differences=None, others=None):
    """What a search comes to whose processes take what `figures` says, with a little luck; the points with it.

    `differences` says by how much the outputs of a point differ from those of the model as given, and `others` what
    other processes used in each step.
    """
    found = points(asked)
    first = tuple(place for place, one in enumerate(found.points) if one.is_default)
    terms = SearchTerms(asked.budget_s, limits=len(tuple(limit_words(asked))), start_s=1.0, first=first)
    steps = []
    generator = np.random.default_rng(3)
    told = next_step([one.axes for one in found.points], terms, [])
    while isinstance(told, Step) and len(steps) < most_steps:
        step = _step(asked, found, told, generator, noise, refused, len(steps))
        seen = {place: differences(found.points[place]) for place in told.candidates} if differences else {}
        known = {place: one for place, one in seen.items() if one is not None}
        steps.append(replace(step, differences=known, others=others))
        told = next_step([one.axes for one in found.points], terms, [one.taken for one in steps])
    if isinstance(told, Step):
        axes = [one.axes for one in found.points]
        told = answer(axes, terms, [one.taken for one in steps], broken_off=True)
    return recommendation(asked, TARGET, found, steps, told)


def for_two_targets(asked):
    """What a search on two targets comes to on which everything takes as long, but for the names."""
    one = carried_out(asked)
    found = points(asked)
    told = ForAll(one.outcome, (one.best, one.best), ((1.0, 1.0, 1.0), (1.12, 1.08, 1.17)))
    return recommendations(asked, [found] * 2, [replace(one, target=name) for name in asked.targets], told)


def search(asked, found=None):
    """The search as the store keeps it, with its answer where that is `found`."""
    made = Search(ID, SearchKind.RECOMMEND, "net", invented.CREATED_NS, asked.document())
    if found is None:
        return made
    return replace(made, answer=answer_document(found), ended_at_unix_ns=invented.CREATED_NS + 1)


def figures(point, factor=1.0):
    """An item takes 4 ms on a core of OpenVINO and half as much again with PyTorch; hints and streams bring a tenth."""
    asked = point.case.configuration
    item_ns = 4e6 * (1.5 if point.case.engine.name == "torch" else 1.0) / asked.cores**0.8 * factor
    item_ns *= 0.9 if str(asked.hint) != "none" or asked.streams > 1 else 1.0
    latency_ns = item_ns * asked.batch**0.9 * asked.requests
    return Figures(
        1e9 / (item_ns * asked.batch**-0.1), latency_ns, latency_ns * 1.1, 100_000_000 + 1_000_000 * asked.batch
    )


def _step(asked, found, step, generator, noise, refused, number):
    seen = {
        place: [figures(found.points[place], exp(generator.normal(0, noise))) for _ in range(step.rounds)]
        for place in step.candidates
        if place not in refused
    }
    rounds = tuple({place: reading_of(asked, own[one]) for place, own in seen.items()} for one in range(step.rounds))
    why = {place: "failed: it crashed" for place in step.candidates if place in refused}
    seconds = 1.5 * step.rounds * len(step.candidates)
    return StoredStep(f"b{number:07}", StepTaken(step, rounds, why, seconds), seen)


def _bind(name, batch):
    model = NET if name == "net" else replace(NET, name=name, digest=name.encode().hex().ljust(64, "0"))
    return BoundModel(model, (InputTensor("x", "float32", (batch, 8)),))
