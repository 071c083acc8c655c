"""Every view of the pages, by a name and the address it has over a home that `real_runs` filled."""

from collections.abc import Mapping
from urllib.parse import quote

from browser.real_runs import BASELINE, GRID, QUANTIZED
from enginebench_controller.home import Home
from enginebench_controller.jobs.control import jobs

SQL = (
    "SELECT engine, cores, median(median_ns) / 1e6 AS median_ms FROM measurements "
    "WHERE status IN ('ok', 'inconclusive', 'disturbed') GROUP BY ALL ORDER BY ALL"
)


def screens(home: Home) -> Mapping[str, str]:
    """The addresses by name, without the server's part."""
    store = home.store
    benchmarks = {one.benchmark.name: one.benchmark.id for one in store.benchmarks()}
    grid = benchmarks[GRID]
    profiles = {(one.name, one.engine.name): one for one in store.profiles() if not one.imposed_sparsity}
    fast = profiles[BASELINE, "openvino"]
    pruned = next((one for one in store.profiles() if one.imposed_sparsity == 0), fast)
    return {
        "home": "",
        "projects": "projects",
        "targets": "targets",
        "new-benchmark": f"new-benchmark?model={fast.model_digest[:12]}&batches_on=true&cores_on=true",
        "new-profile": f"new-profile?model={fast.model_digest[:12]}",
        "jobs": "jobs",
        **dict([("job", f"job?id={one.id}") for one in jobs(home)][:1]),
        "benchmarks": "benchmarks",
        "benchmark-baseline": f"benchmark?id={grid}",
        "benchmark-cores": f"benchmark?id={grid}&view=cores",
        "benchmark-batches": f"benchmark?id={grid}&view=batches",
        "benchmark-trend": f"benchmark?id={grid}&view=trend",
        "benchmark-compared": f"benchmark?id={grid}&with={benchmarks[QUANTIZED]}",
        "profiles": "profiles",
        "profile-types": f"profile?id={fast.id}",
        "profile-layers": f"profile?id={fast.id}&view={quote('Layer results')}",
        "profile-roofline": f"profile?id={fast.id}&view=Roofline",
        "profile-pruning": f"profile?id={pruned.id}&view=Pruning",
        "profile-advice": f"profile?id={fast.id}&view=Advice",
        "profile-flops": f"profile?model={fast.model_digest[:12]}",
        "compare-setup": compared(fast, profiles[QUANTIZED, "openvino"], "Performance summary") + "&t=20",
        "compare-summary": compared(fast, profiles[BASELINE, "onnxruntime"], "Performance summary"),
        "compare-inference": compared(fast, profiles[BASELINE, "onnxruntime"], "Inference time"),
        "compare-kernels": compared(fast, profiles[QUANTIZED, "openvino"], "Kernel-level performance"),
        "compare-details": compared(fast, profiles[QUANTIZED, "openvino"], "Kernel-level performance") + "&row=1",
        "compare-precisions": compared(fast, profiles[QUANTIZED, "openvino"], "Precisions"),
        "ladders": "ladders",
        "recommend": f"recommend?model={fast.model_digest[:12]}",
        "bisect": f"bisect?model={fast.model_digest[:12]}",
        "search": f"search?sql={quote(SQL)}&view=chart",
    }


def compared(one, other, view):
    """The address of a comparison of the projects that two profiles belong to."""
    return f"compare?a={contender(one)}&b={contender(other)}&view={quote(view)}"


def contender(profile):
    """What an address calls the project of a profile."""
    parts = (profile.model_digest[:12], f"{profile.engine.name}@{profile.engine.environment}", profile.target)
    return quote("~".join((*parts, profile.configuration.device)))
