"""One performance profile: `?id=…` is one that was measured, `?model=DIGEST` the FLOPS profile of a model version."""

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from enginebench_controller.errors import InputError
from enginebench_controller.files.exports.formats import ExportFormat
from enginebench_controller.records import ModelVersion, Peak, Profile, ProfileEntry
from enginebench_controller.verdicts.layers.advice import Severity
from enginebench_controller.verdicts.layers.quantizing import INT8_UNUSED
from enginebench_ui.pages import PROFILE, PROFILES
from enginebench_ui.pages.profile import stored
from enginebench_ui.pages.profile.by_layer import Shown, Viewed, show_results, show_types
from enginebench_ui.pages.profile.shapes.layers import (
    Dataset,
    LayerView,
    measured_datasets,
    node_views,
    theoretical_datasets,
)
from enginebench_ui.pages.profile.shapes.prospects import (
    HEADINGS,
    ICONS,
    RESULTS,
    AdviceView,
    Sweep,
    advice_views,
    by_sparsity,
    elsewhere,
    layer_query,
    nearest_step,
    of_severity,
    other_settings,
    outcome_rows,
    saving_basis,
    savings,
)
from enginebench_ui.pages.profile.shapes.results import layer_forms
from enginebench_ui.pages.profile.shapes.roofline import calibration_command, roofline_view
from enginebench_ui.pages.profile.shapes.summary import (
    FLOPS_KEY,
    Sibling,
    SummaryCard,
    chosen_outcome,
    estimate_basis,
    facts,
    measured_cards,
    siblings,
    siblings_of_model,
    theory_facts,
    trust_facts,
    work_cards,
)
from enginebench_ui.shared import reading
from enginebench_ui.shared.quantizing import show_quantize
from enginebench_ui.shared.showing import MOST_CARDS, chart, table
from enginebench_ui.shared.text import STATUS_COLOURS, count_of, engine_text, inert, instant

EXPORTS = {
    ExportFormat.JSON: ("JSON, everything", "json", "application/json"),
    ExportFormat.CSV: ("CSV, a row a layer", "csv", "text/csv"),
    ExportFormat.PARQUET: ("Parquet, a row a layer", "parquet", "application/vnd.apache.parquet"),
    ExportFormat.PERFETTO: ("Trace for Perfetto", "trace.json", "application/json"),
}


def show_heading(entry: ProfileEntry) -> None:
    """Draw the name, what ran, and how it ended."""
    st.title(inert(entry.name) or "Unnamed profile", anchor=False)
    facts = (entry.model_name, entry.id, instant(entry.created_at_unix_ns))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(entry.status.value, color=STATUS_COLOURS[entry.status])
        if entry.imported:
            st.badge("imported", color="gray")
        if entry.imposed_sparsity:
            st.badge(f"{100 * entry.imposed_sparsity:g} % zeros imposed", color="violet")
        st.caption(" · ".join(map(inert, facts)), width="content")


def show_switch(found: Sequence[Sibling], current: str) -> None:
    """Draw the choice among the profiles of a model; choosing another opens it."""
    keys = [one.key for one in found]
    chosen = st.selectbox(
        "Performance profile of this model",
        found,
        index=keys.index(current) if current in keys else 0,
        format_func=lambda one: one.label,
        key=f"sibling of {current}",
    )
    if chosen is not None and chosen.key != current:
        st.switch_page(PROFILE, query_params=dict(chosen.query))


def show_exports(profile: Profile) -> None:
    """Draw the buttons that save the profile; a file is only made when its button is pressed."""
    with st.popover("Export", icon=":material/download:", help="Save the profile for other programs."):
        for form, (label, suffix, kind) in EXPORTS.items():
            st.download_button(
                label,
                _contents(profile, form),
                file_name=f"profile-{profile.id[:12]}.{suffix}",
                mime=kind,
                on_click="ignore",
                width="stretch",
                key=f"export {form}",
            )


def _contents(profile: Profile, form: ExportFormat) -> Callable[[], bytes]:
    return lambda: stored.exported(profile, form)


PENDING = "What pruning would bring is being worked out from its passes …"
_FACT_PX = 232


def show_summary(profile: Profile, sweep: Sweep, advice: Sequence[AdviceView]) -> None:
    """Draw the large figures and what to know before trusting them."""
    show_cards(measured_cards(profile, sweep.prospects))
    if profile.layers:
        _show_estimate(profile, sweep)
    warnings = [sentence for one in of_severity(advice, Severity.WARNING) for sentence in one.sentences]
    if warnings:
        label = f"Before trusting these numbers: {count_of(len(warnings), 'remark')}"
        with st.expander(label, icon=":material/warning:"):
            st.markdown("\n".join(f"- {inert(sentence)}" for sentence in warnings))


def show_circumstances(profile: Profile) -> None:
    """Draw what was measured, where and with what, and how far the figures can be trusted."""
    st.header("What was measured", anchor=False)
    show_facts(facts(profile))
    with st.expander("How far the figures can be trusted"):
        show_facts(trust_facts(profile), border=False)


def show_cards(cards: Sequence[SummaryCard]) -> None:
    """Draw large figures side by side."""
    for column, card in zip(st.columns(len(cards)), cards, strict=True):
        column.metric(
            card.label,
            card.value,
            card.below or None,
            delta_color="off",
            delta_arrow="off",
            help=card.known_from or None,
            border=True,
        )


def show_facts(found: Sequence[tuple[str, str]], *, border: bool = True) -> None:
    """Draw (heading, raw text) pairs in as many columns as there is room for."""
    with st.container(border=border, horizontal=True, gap="small"):
        for heading, value in found:
            st.markdown(f":gray[{inert(heading)}]  \n{inert(value)}", width=_FACT_PX)


def _show_estimate(profile: Profile, sweep: Sweep) -> None:
    if sweep.is_pending:
        st.caption(PENDING)
    elif sweep.problem:
        st.caption(f"There are passes with zeros imposed, but no estimate: {inert(sweep.problem)}.")
    elif sweep.prospects is not None and (chosen := chosen_outcome(sweep.prospects)) is not None:
        st.caption(inert(estimate_basis(chosen)))
        if sentence := other_settings(profile, sweep):
            st.warning(inert(sentence), icon=":material/balance:")


def show_roofline(profile: Profile, layers: Sequence[LayerView], peaks: Sequence[Peak]) -> None:
    """Draw the layers under the roofs of their target."""
    view = roofline_view(profile, layers, peaks)
    if view.figure is not None and not view.is_calibrated:
        st.info("These layers have no roof yet: this engine was not calibrated here. Where the machine is quiet, run")
        st.code(calibration_command(profile), language="shell", wrap_lines=True)
    if view.figure is None:
        st.info("No layer can be drawn: either none was timed, or the operations and bytes of none are known.")
    else:
        st.caption(
            "Measured rates over operations counted in the model. The larger a mark, the more time the layer takes. "
            "Open diamonds do fewer operations than are counted (Winograd, sparse), so they may lie above the roof."
        )
        chart(view.figure, "roofline", name="roofline", alt="Achieved operations a second over arithmetic intensity")
    for remark in view.remarks:
        st.caption(remark)


def show_pruning(profile: Profile, sweep: Sweep, other: ProfileEntry | None = None) -> None:
    """Draw what passes with zeros imposed told. `other` is a sweep with another engine."""
    if sweep.is_pending:
        st.info(PENDING)
        return
    if sweep.prospects is None:
        unknown = (
            "How fast it may become when pruned is unknown: this engine was not timed here with zeros imposed on this "
            "model, which takes an engine that can impose them, such as DeepSparse."
        )
        st.info(f"No estimate: {inert(sweep.problem)}." if sweep.problem else unknown)
        if other is not None:
            label = f"See {inert(engine_text(other))}, which was timed so"
            st.page_link(PROFILE, label=label, icon=":material/layers:", query_params={"id": other.id})
        st.code(f"enginebench prospects pruning {profile.model_name}", language="shell", wrap_lines=True)
        return
    st.caption(
        "Estimated: worked out from layers timed with zeros imposed; nothing ran like that. Imposed: timed with the "
        "engine taking so many weights for zero. Measured: a copy of the model that has them. All at one optimization "
        "level; × is dense ÷ pruned."
    )
    number = st.column_config.NumberColumn
    times = {name: number(format="%.2f×") for name in ("Estimated ×", "Imposed ×", "Measured ×")}
    spent = {name: number(format="%.3f") for name in ("Estimated (ms)", "Imposed (ms)", "Measured (ms)")}
    others = {"Zeros (%)": number(format="%.1f"), "Estimate's error": st.column_config.TextColumn()}
    counts = {name: number(format="compact") for name in ("Parameters", "FLOPs (estimated)")}
    what = {"What": st.column_config.TextColumn(width=260)}
    table(outcome_rows(sweep.prospects), "outcomes", columns={**what, **times, **spent, **others, **counts})
    dense = sweep.prospects.series.dense
    if dense.id != profile.id:
        st.page_link(PROFILE, label="Open the dense pass", icon=":material/layers:", query_params={"id": dense.id})


def show_advice(profile: Profile, advice: Sequence[AdviceView]) -> None:
    """Draw what the advisor says, with links to the layers that it is about."""
    if not advice:
        st.success("No rule applies: the numbers are sound as far as they tell, and no layer stands out.")
    for severity, heading in HEADINGS.items():
        found = of_severity(advice, severity)
        if found:
            st.markdown(f"**{heading}**")
        for one in found:
            _show_one(profile, one, ICONS[severity])


def _show_one(profile: Profile, one: AdviceView, icon: str) -> None:
    with st.container(border=True):
        if len(one.sentences) == 1:
            st.markdown(f"{icon} {inert(one.sentences[0])}")
        else:
            st.markdown("\n".join(f"- {inert(sentence)}" for sentence in one.sentences))
        st.caption(inert(one.remedy))
        if one.rule == INT8_UNUSED:
            show_quantize(profile)
        if one.layers:
            with st.container(horizontal=True):
                for layer in one.layers:
                    st.page_link(
                        PROFILE,
                        label=inert(layer.label),
                        icon=":material/layers:",
                        query_params=layer_query(profile.id, layer.position),
                    )


SUMMARIES, ROOFLINE, PRUNING, ADVICE = "Layer summaries", "Roofline", "Pruning", "Advice"


def show() -> None:
    """Draw the page."""
    st.page_link(PROFILES, label="All profiles", icon=":material/arrow_back:")
    asked = st.query_params
    with reading.banner_on_error():
        if "id" in asked:
            _show_measured(asked["id"])
        elif "model" in asked:
            _show_theoretical(asked["model"])
        else:
            st.info("No profile is chosen; take one from the list.")


def _show_measured(profile_id: str) -> None:
    entry = stored.find(profile_id)
    show_heading(entry)
    profile = stored.whole(entry.id)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        show_switch(siblings(entry, reading.profile_entries()), entry.id)
        show_exports(profile)
    _show_failure(profile)
    passes = stored.passes(entry)
    slow = stored.is_slow_sweep(passes, len(profile.nodes))
    sweep = Sweep(is_pending=True) if slow else stored.sweep(passes)
    _show_sections(entry, profile, sweep, _measured(profile, sweep, by_sparsity(passes)))
    if slow:  # all else is drawn by now, and is drawn again once they are read
        with st.spinner("Reading the passes with zeros imposed …"):
            stored.sweep(passes)
        st.rerun()


def _show_sections(entry: ProfileEntry, profile: Profile, sweep: Sweep, shown: Shown) -> None:
    advice = advice_views(stored.advice(profile, sweep))
    show_summary(profile, sweep, advice)
    if not profile.layers:
        st.info("There are no layers to show: the engine told of none.", icon=":material/info:")
        show_circumstances(profile)
        return
    sections = {
        SUMMARIES: lambda: show_types(shown),
        RESULTS: lambda: show_results(shown),
        ROOFLINE: lambda: show_roofline(profile, stored.layers(profile), stored.peaks(profile.target)),
        PRUNING: lambda: show_pruning(profile, sweep, elsewhere(reading.profile_entries(), entry)),
        ADVICE: lambda: show_advice(profile, advice),
    }
    st.fragment(_show_open)(sections)
    show_circumstances(profile)


def _show_open(sections: Mapping[str, Callable[[], None]]) -> None:
    """Draw the section whose tab is open, and no other; another tab draws nothing else anew."""
    for tab, draw in zip(st.tabs(list(sections), key="view", bind="query-params"), sections.values(), strict=True):
        if tab.open:
            with tab, reading.banner_on_error():
                draw()


def _show_failure(profile: Profile) -> None:
    if profile.failure is None:
        return
    failure = profile.failure
    kind = failure.kind.value.replace("_", " ").capitalize()
    st.error(f"**{inert(kind)}**: {inert(failure.message)}", icon=":material/error:")
    said = "\n\n".join(filter(None, (failure.detail, failure.stderr_tail)))
    if said:
        with st.expander("The engine's own words"):
            st.code(said, language=None, wrap_lines=True)


def _measured(profile: Profile, sweep: Sweep, pruned: Mapping[float, str]) -> Shown:
    """What the sections show of a profile; `pruned` are the passes with zeros imposed, each read when looked at."""

    def source(dataset: Dataset) -> Profile:
        return profile if dataset.sparsity is None else stored.whole(pruned[dataset.sparsity])

    return Shown(
        key=profile.id,
        datasets=measured_datasets(pruned),
        layers=lambda dataset: stored.layers(source(dataset)),
        forms=lambda dataset: stored.forms(source(dataset), dataset),
        savings=lambda dataset: savings(source(dataset), sweep, nearest_step(sweep, dataset.sparsity)),
        saving_basis=lambda dataset: saving_basis(sweep, dataset.sparsity),
        viewed=Viewed(profile.model_digest),
        series=sweep.prospects.series if sweep.prospects else None,
        colour=reading.engine_looks().of(profile.engine.name).colour,
    )


def _show_theoretical(digest: str) -> None:
    model = _model(digest)
    st.title("FLOPS", anchor=False)
    st.caption(f"{inert(model.name)} · {inert(model.digest[:12])} · counted in the model, nothing was run")
    show_switch(siblings_of_model(model, reading.profile_entries()), FLOPS_KEY)
    counted = reading.theory(model, None)
    show_cards(work_cards(counted.work, counted.nodes))
    views = node_views(counted.nodes)
    shown = Shown(
        key=model.digest,
        datasets=theoretical_datasets(),
        layers=lambda _dataset: views,
        forms=lambda dataset: layer_forms(views, dataset, MOST_CARDS),
        savings=lambda _dataset: None,
        saving_basis=lambda _dataset: "",
        viewed=Viewed(model.digest),
        noun="node",
    )
    st.fragment(_show_open)({SUMMARIES: lambda: show_types(shown), RESULTS: lambda: show_results(shown)})
    show_facts(theory_facts(counted))


def _model(digest: str) -> ModelVersion:
    found = [one for one in reading.known_models() if one.digest.startswith(digest)] if digest else []
    if len(found) != 1:
        raise InputError(f"there is no model version {digest!r}; see the list of profiles")
    return found[0]


show()
