"""How often a recommendation on real models is right, held against tables of all their points.

    python -m benchmarks.recommendations --record          measure what the tables lack (benchmarks/recommend_tables.py)
    python -m benchmarks.recommendations [--draws 25]      search over the recorded processes (recommend_replay.py)
    python -m benchmarks.recommendations --live N [--noisy]  search for real, and hold the winner against the best

Tables go into docs/evidence/recommend.md with --fill.
"""

import argparse
from pathlib import Path

from benchmarks.markdown import fill
from benchmarks.recommend_live import kept, live, live_table
from benchmarks.recommend_replay import CASES, better_than_random, draw, replay, replay_table
from benchmarks.recommend_tables import FOLDER, record, tables

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "recommend.md"


def main() -> None:
    """Measure, or replay, and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", action="store_true", help="measure what the tables lack")
    parser.add_argument("--draws", type=int, default=25, metavar="N", help="searches of each case over a table")
    parser.add_argument("--live", type=int, metavar="N", help="search for real until so many are kept")
    parser.add_argument("--noisy", action="store_true", help="with --live: beside a neighbour")
    parser.add_argument("--fill", action="store_true", help="put the tables into docs/evidence/recommend.md")
    arguments = parser.parse_args()
    if arguments.record:
        record(FOLDER)
        return
    if arguments.live:
        live(FOLDER, arguments.live, noisy=arguments.noisy)
    else:
        found = [replay(table, wanted, arguments.draws) for table in tables() for wanted in CASES]
        text = f"{replay_table(found)}\n\n{better_than_random(found)}"
        print(text)
        if arguments.fill:
            draw(found, PAGE.with_name("recommend.svg"))
            fill(PAGE, "recorded", f"{text}\n\n![search and random points](recommend.svg)")
    if arguments.fill:
        fill(PAGE, "live", live_table(kept(FOLDER)))


if __name__ == "__main__":
    main()
