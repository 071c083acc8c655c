"""Keys of projects travel in addresses and come back as they were."""

import pytest

from enginebench_ui.shared.project_key import ProjectKey, parse_project_key, project_key

DIGEST = "0bebac6939397afe847a2a078d2b9110fcc70bd0ca907e3fb09f21192b884c58"


def test_a_key_reads_as_model_engine_environment_and_target():
    assert project_key(DIGEST, "onnxruntime", "default", "local") == "0bebac693939~onnxruntime@default~local"


@pytest.mark.parametrize("name", ["plain", "a~b", "a@b", "100%", "%7E", "~@%", "nuc:50151", "é ü"])
def test_names_come_back_whatever_they_hold(name):
    key = project_key(DIGEST, name, name, name)

    assert parse_project_key(key) == ProjectKey(DIGEST[:12], name, name, name)


@pytest.mark.parametrize("text", ["", "0beb", "a~b~c", "a~b@c", "a~b@c@d~e", "a~b@c~d~e", "~b@c~d", "a~@c~d", "a~b@c~"])
def test_other_texts_are_no_keys(text):
    assert parse_project_key(text) is None
