"""Choosing model versions, and taking in uploaded files."""

from typing import Any

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import default_home
from enginebench_controller.model.zoo import PREFIX, ZOO
from enginebench_controller.records import ModelVersion
from enginebench_proto.agreed.words import SUFFIXES
from enginebench_ui import reading
from enginebench_ui.choosing import choose_one, choose_several
from enginebench_ui.views.ordering.choices import Labels, model_key, model_labels, plan_models
from enginebench_ui.views.ordering.uploads import COMPANIONS, file_name, model_names
from enginebench_ui.views.project_key import DIGEST_CHARACTERS
from enginebench_ui.views.text import inert

_NONE = "none"
_UPLOADS = "uploads"


def choose_models(labels: Labels) -> list[str]:
    """Let a person choose versions, or upload files that are chosen then; returns what a plan calls them."""
    _understand_address(labels)
    keys = choose_several(
        "Model versions", labels, "model", default=(), placeholder="Choose from the library, or upload a file below"
    )
    _upload(several=True)
    return plan_models(keys, reading.versions())


def choose_model(labels: Labels) -> str | None:
    """Let a person choose one version, or upload one."""
    _understand_address(labels)
    key = choose_one("Model version", {_NONE: "Choose a version"} | labels, "model", default=_NONE)
    _upload(several=False)
    return None if key == _NONE else plan_models([key], reading.versions())[0]


def labels_of_models() -> Labels:
    """Return what there is to choose from."""
    return model_labels(reading.versions(), (PREFIX + name for name in ZOO))


def _understand_address(labels: Labels) -> None:
    """Put keys in place of the names and whole digests that other pages and people write."""
    asked = st.query_params.get("model")
    if asked:
        found = [key for text in asked.split(",") if (key := model_key(text, labels))]
        st.query_params["model"] = ",".join(dict.fromkeys(found))


def _upload(*, several: bool) -> None:
    with st.expander("Upload a model file", icon=":material/upload_file:"):
        suffixes = [suffix.removeprefix(".") for suffix in SUFFIXES]
        files = st.file_uploader(
            f"A model ({', '.join(SUFFIXES)}), with the files it refers to",
            type=[*suffixes, *COMPANIONS],
            accept_multiple_files=True,
            key=f"upload {st.session_state.setdefault(_UPLOADS, 0)}",
            help="Larger ones, and many at once: `enginebench models add FILE`, which copies from this machine's disk.",
        )
        if st.button("Add to the library", icon=":material/add:", disabled=not files):
            _add(files, several=several)


def _add(files: list[Any], *, several: bool) -> None:
    try:
        with st.spinner("Reading the files …"):
            added = _taken_in(files)
    except EnginebenchError as error:
        st.error(inert(str(error)), icon=":material/error:")
        return
    chosen = st.query_params.get("model", "").split(",") if several else []
    st.session_state[_UPLOADS] += 1  # an uploader of its own for the next files
    keys = [version.digest[:DIGEST_CHARACTERS] for version in added]
    st.query_params["model"] = ",".join(dict.fromkeys(filter(None, [*chosen, *keys])))
    st.rerun()


def _taken_in(files: list[Any]) -> list[ModelVersion]:
    """Lay the files side by side, as they refer to each other, and add each that is a model."""
    library = default_home().library
    with library.scratch() as folder:
        names = [file_name(file.name) for file in files]
        for name, file in zip(names, files, strict=True):
            (folder / name).write_bytes(file.getbuffer())
        return [library.add(folder / name) for name in model_names(names)]
