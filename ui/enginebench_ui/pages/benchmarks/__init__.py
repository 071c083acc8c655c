"""The list of benchmarks. One of them is `pages.benchmark`."""
