"""Questions that people ask of results, in SQL, with the chart that answers them best.

A question about how fast something is asks for `status = 'ok'`: inconclusive rows have numbers that are less sure than
was asked for, and the best of several would often be the least sure one.
"""

from dataclasses import dataclass

from enginebench_ui.views.sql.chart import ChartKind


@dataclass(frozen=True)
class Example:
    """A question with its SQL; `kind` None shows the answer as a table, else as this chart of these columns."""

    question: str
    sql: str
    kind: ChartKind | None = None
    x: str | None = None
    y: str | None = None
    colour: str | None = None


EXAMPLES = (
    Example(
        "Which engine is the fastest for each model?",
        """\
SELECT model_name, engine,
  max(throughput_items_per_s) AS best_items_per_s
FROM measurements
WHERE status = 'ok'
GROUP BY ALL
ORDER BY model_name, best_items_per_s DESC""",
        ChartKind.BARS,
        x="model_name",
        y="best_items_per_s",
        colour="engine",
    ),
    Example(
        "How does latency grow with the batch?",
        """\
SELECT engine, batch, min(median_ns) / 1e6 AS median_ms
FROM measurements
WHERE status = 'ok'
GROUP BY ALL
ORDER BY engine, batch""",
        ChartKind.LINES,
        x="batch",
        y="median_ms",
        colour="engine",
    ),
    Example(
        "Has a new version of an engine become slower?",
        """\
SELECT make_timestamp_ns(started_at_unix_ns) AS started,
  engine || ' ' || engine_version AS version,
  model_name, batch, cores, median_ns / 1e6 AS median_ms
FROM measurements
WHERE status = 'ok'
ORDER BY started
LIMIT 2000""",
        ChartKind.POINTS,
        x="started",
        y="median_ms",
        colour="version",
    ),
    Example(
        "Which measurements were disturbed the most?",
        """\
SELECT measurements.id, model_name, engine, batch, cores,
  100 * avg((len(disturbances) > 0)::INT) AS disturbed_percent,
  cv, process_spread
FROM measurements JOIN blocks ON measurement_id = measurements.id
GROUP BY ALL
ORDER BY disturbed_percent DESC
LIMIT 100""",
    ),
    Example(
        "What failed, and why?",
        """\
SELECT engine, failure_kind, count(*) AS failures,
  any_value(failure->>'$.message') AS for_example
FROM measurements
WHERE status = 'failed'
GROUP BY ALL
ORDER BY failures DESC""",
    ),
    Example(
        "Which layers of the newest profile take the most time?",
        """\
SELECT name, type, precision, list_avg(time_ns) / 1e6 AS mean_ms
FROM layers
WHERE len(time_ns) > 0 AND profile_id = (
  SELECT id FROM profiles WHERE status = 'ok'
  ORDER BY created_at_unix_ns DESC LIMIT 1)
ORDER BY mean_ms DESC
LIMIT 30""",
        ChartKind.BARS,
        x="name",
        y="mean_ms",
        colour="type",
    ),
    Example(
        "Where does each engine spend its time, by layer type?",
        """\
SELECT engine, type, sum(list_avg(time_ns)) / 1e6 AS total_ms,
  count(*) AS layers
FROM layers JOIN profiles ON profiles.id = profile_id
WHERE len(time_ns) > 0
GROUP BY ALL
ORDER BY total_ms DESC
LIMIT 100""",
        ChartKind.BARS,
        x="type",
        y="total_ms",
        colour="engine",
    ),
    Example(
        "How are the latencies of the newest measurement distributed?",
        """\
SELECT round(latency_ns / 1e6, 2) AS latency_ms, count(*) AS requests
FROM block_samples
WHERE measurement_id = (
  SELECT id FROM measurements WHERE samples > 0
  ORDER BY started_at_unix_ns DESC LIMIT 1)
GROUP BY latency_ms
ORDER BY latency_ms""",
        ChartKind.BARS,
        x="latency_ms",
        y="requests",
    ),
    Example(
        "What does the first inference cost, beside a later one?",
        """\
SELECT engine, model_name, batch,
  (phase->>'$.duration_ns')::BIGINT / 1e6 AS first_inference_ms,
  median_ns / 1e6 AS median_ms
FROM (SELECT *, unnest(phases::JSON[]) AS phase FROM measurements)
WHERE phase->>'$.name' = 'first_inference'
ORDER BY engine, model_name, batch""",
        ChartKind.POINTS,
        x="median_ms",
        y="first_inference_ms",
        colour="engine",
    ),
)
