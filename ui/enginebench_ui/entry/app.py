"""The entry file that Streamlit runs: which pages there are, and what they share."""

from pathlib import Path

import streamlit as st

from enginebench_ui.pages import BENCHMARK, BENCHMARKS, TARGETS

# A picture of our own: for a Material symbol or an emoji the browser would ask a server elsewhere.
ICON = str(Path(__file__).with_name("icon.svg"))

st.set_page_config(page_title="enginebench", page_icon=ICON, layout="wide")
st.navigation(
    [
        st.Page(BENCHMARKS, title="Benchmarks", icon=":material/speed:", default=True),
        st.Page(TARGETS, title="Targets and engines", icon=":material/dns:", url_path="targets"),
        # Hidden in the menu because it shows the one benchmark that its address names: …/benchmark?id=ID
        st.Page(BENCHMARK, title="Benchmark", url_path="benchmark", visibility="hidden"),
    ],
    position="top",
).run()
