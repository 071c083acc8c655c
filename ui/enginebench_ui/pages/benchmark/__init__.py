"""One benchmark: its cells, how it scales, how it went over time. The list of benchmarks is `pages.benchmarks`."""
