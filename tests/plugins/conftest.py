"""Makes the planted engines importable from the test modules beside them."""

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# They live in environments of their own, and their modules are run by those interpreters (see the Makefile).
OWN = {
    "deepsparse": "deepsparse",
    "litert": "ai_edge_litert",
    "ncnn": "ncnn",
    "providers": "onnxruntime_ep_webgpu",
    "tract": "tract",
}
collect_ignore = [f"test_{name}.py" for name, module in OWN.items() if find_spec(module) is None]
