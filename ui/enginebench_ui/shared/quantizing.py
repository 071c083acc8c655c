"""The button beside advice on INT8: one job that makes the version, or takes the one there is, and measures both."""

from dataclasses import dataclass

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import default_home
from enginebench_controller.jobs.control import open_jobs, start_job
from enginebench_controller.jobs.record import Job
from enginebench_controller.plan.int8 import beside_int8
from enginebench_controller.plan.plan import Plan
from enginebench_controller.records import Profile
from enginebench_controller.records.model import int8_versions
from enginebench_ui.shared import reading
from enginebench_ui.shared.following import follow_jobs
from enginebench_ui.shared.project_key import DIGEST_CHARACTERS
from enginebench_ui.shared.text import inert, shortened
from enginebench_ui.shared.versions import underivable

_GONE = "Nothing is known of this model version any more, so it cannot be quantized."
_MAKES = (
    "Makes the INT8 version, calibrated on 8 random inputs: good for speed, not for accuracy. Both are then measured "
    "in turns, configured as this profile."
)
_TAKES = "Takes {}, which is there already. Both are measured in turns, configured as this profile."
_RUNS = "A job is doing this already."


@dataclass(frozen=True)
class Int8Offer:
    """What the button would do, or why it cannot: `plan` is None there. `sentence` stands beside it."""

    sentence: str
    plan: Plan | None = None
    title: str = ""


def int8_offer(profile: Profile) -> Int8Offer:
    """Return what comes of a profile's model beside its INT8 version, with what is in the library now."""
    known = reading.versions()
    if (found := known.get(profile.model_digest)) is None:
        return Int8Offer(_GONE)
    if (original := known.get(found.version.original_digest)) is None:
        return Int8Offer(_GONE)
    if problem := underivable(original):
        return Int8Offer(problem)
    version = original.version
    name = shortened(version.name, 60)
    try:
        plan = beside_int8(profile, version.digest[:DIGEST_CHARACTERS], f"{name} beside INT8")
    except EnginebenchError as error:
        return Int8Offer(str(error))
    made = int8_versions((one.version for one in known.values() if one.is_here), version.digest)
    return Int8Offer(_TAKES.format(made[0].name) if made else _MAKES, plan, f"Quantize and compare {name}")


def show_quantize(profile: Profile, side: str = "") -> None:
    """Show the button, what it will do or why it cannot, and below it how its job goes; `side` is A or B of two."""
    offer = int8_offer(profile)

    def is_ours(job: Job) -> bool:
        return offer.plan is not None and job.kind == "run" and job.plan == offer.plan.document()

    is_running = any(is_ours(one) for one in open_jobs(default_home()))
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button(
            " ".join(filter(None, ("Quantize and compare", side))),
            icon=":material/compress:",
            disabled=offer.plan is None or is_running,
            key=f"quantize and compare {profile.id}",
        )
        st.caption(inert(_RUNS if is_running else offer.sentence), width="stretch")
    if pressed and offer.plan is not None and not is_running:
        with reading.banner_on_error():
            start_job(default_home(), offer.title, ["run"], offer.plan)
        st.rerun()
    follow_jobs(is_ours)
