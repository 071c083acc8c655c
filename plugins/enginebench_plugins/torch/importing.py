"""The import of PyTorch, with a sentence and a remedy where it is absent."""

import warnings
from typing import Any

from enginebench_plugins import spec


def import_torch() -> Any:
    """The `torch` module. Raises `EngineUnavailableError` with the remedy."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise spec.EngineUnavailableError(
            'PyTorch is not installed here: pip install "enginebench[torch]", or '
            "enginebench-agent environment add NAME --engine torch",
            installed=False,
        ) from error
    except (ImportError, OSError) as error:
        raise spec.EngineUnavailableError(
            f"PyTorch is installed but does not load ({error}): reinstall it in this environment"
        ) from error
    # Inputs are handed over without a copy and are never written to, which is what this warns of.
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
    return torch
