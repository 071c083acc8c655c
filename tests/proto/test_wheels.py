"""What pip says of a package without a wheel becomes a sentence with a way out."""

import pytest

from enginebench_proto.agreed.wheels import lacking_wheel

# As pip printed it on Debian's armhf and arm64.
NONE = (
    "ERROR: Could not find a version that satisfies the requirement onnxruntime>=1.20 (from versions: none)\n"
    "ERROR: No matching distribution found for onnxruntime>=1.20"
)
COMPILED = "  error: command 'gcc' failed: No such file or directory\n  ERROR: Failed building wheel for cffi\n"


@pytest.mark.parametrize(
    ("output", "machine", "sentence"),
    [
        (
            NONE,
            "armv7l",
            "onnxruntime has no wheel for armv7l and Python 3.11 on the package index: take a system of 64",
        ),
        (NONE, "aarch64", "onnxruntime has no wheel for aarch64 and Python 3.11 on the package index: take a newer"),
        (NONE.splitlines()[-1], "aarch64", "onnxruntime has no wheel"),
        (
            COMPILED,
            "armv7l",
            "cffi has no wheel for armv7l and Python 3.11, and it could not be compiled there: take",
        ),
    ],
)
def test_a_package_without_a_wheel_is_named_with_what_to_do(output: str, machine: str, sentence: str) -> None:
    said = lacking_wheel(output, machine, "3.11")
    assert said is not None and said.startswith(sentence)


@pytest.mark.parametrize("machine", ["aarch64", "armv7l"])
def test_where_the_c_library_is_musl_another_system_is_advised_and_no_newer_one(machine: str) -> None:
    said = lacking_wheel(NONE, machine, "3.12", f"{machine}-alpine-linux-musl")
    assert said is not None and said.startswith(f"onnxruntime has no wheel for {machine} with musl and Python 3.12 ")
    assert "with glibc, such as Debian" in said and "newer" not in said and "piwheels" not in said


@pytest.mark.parametrize(
    "output",
    [
        "ERROR: Could not find a version (from versions: 1.1, 1.2)\nERROR: No matching distribution found for ort==9",
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
        "",
    ],
)
def test_other_reasons_are_left_to_pip(output: str) -> None:
    assert lacking_wheel(output, "armv7l") is None
