"""The entry file that Streamlit runs: which pages there are, and what they share."""

from pathlib import Path

import streamlit as st

from enginebench_controller.home import home_to_read
from enginebench_controller.instants import zone_name
from enginebench_ui import pages
from enginebench_ui.shared.keys import show_keys
from enginebench_ui.shared.text import inert

# A picture of our own: for a Material symbol or an emoji the browser would ask a server elsewhere.
ICON = str(Path(__file__).with_name("icon.svg"))
LOGO = str(Path(__file__).with_name("logo.svg"))

st.set_page_config(page_icon=ICON, layout="wide")
page = st.navigation(
    {
        "": [st.Page(pages.HOME, title="Home", icon=":material/home:", default=True)],
        "Results": [
            st.Page(pages.BENCHMARKS, title="Benchmarks", icon=":material/speed:", url_path="benchmarks"),
            st.Page(pages.BENCHMARK, title="Benchmark", url_path="benchmark", visibility="hidden"),
            st.Page(pages.PROFILES, title="Profiles", icon=":material/layers:", url_path="profiles"),
            st.Page(pages.PROFILE, title="Profile", url_path="profile", visibility="hidden"),
            st.Page(pages.COMPARE, title="Compare", icon=":material/compare_arrows:", url_path="compare"),
            st.Page(pages.LADDERS, title="Ladders", icon=":material/stairs:", url_path="ladders"),
            st.Page(pages.RECOMMEND, title="Recommend", icon=":material/recommend:", url_path="recommend"),
            st.Page(pages.BISECT, title="Bisect", icon=":material/troubleshoot:", url_path="bisect"),
            st.Page(pages.SEARCH, title="Search by SQL", icon=":material/database:", url_path="search"),
        ],
        "Measure": [
            st.Page(pages.NEW_BENCHMARK, title="New benchmark", icon=":material/add_chart:", url_path="new-benchmark"),
            st.Page(pages.NEW_PROFILE, title="New profile", icon=":material/add_notes:", url_path="new-profile"),
            st.Page(pages.JOBS, title="Jobs", icon=":material/pending_actions:", url_path="jobs"),
            # Hidden in the menu: they show the one thing that their address names, such as …/benchmark?id=ID
            st.Page(pages.JOB, title="Job", url_path="job", visibility="hidden"),
        ],
        "Bench": [
            st.Page(pages.PROJECTS, title="Projects", icon=":material/deployed_code:", url_path="projects"),
            st.Page(pages.TARGETS, title="Targets and engines", icon=":material/dns:", url_path="targets"),
        ],
    },
    expanded=True,
)
st.set_page_config(page_title=f"{page.title} · enginebench")
st.logo(LOGO, size="large", icon_image=ICON)
if reads := home_to_read().reads:
    places = inert(" and ".join(reads))
    st.sidebar.caption(f"Read from {places}, and not to be changed here: what is measured goes into your own store.")
st.sidebar.caption(inert(f"Times are in {zone_name()}, by the clock of the machine that these pages come from."))
show_keys()
page.run()
