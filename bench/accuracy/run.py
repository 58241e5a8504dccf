"""Accuracy of evaluators for learning policies; writes bench/results/accuracy.md.

    python -m bench.accuracy.run [--logs 100] [--jobs 2] [--worlds straight,digits] [--part 1/9]

Logs are drawn from every world under every logger, every evaluator estimates V_T, and the estimates are compared with
live runs. BACKCAST_DATA adds real data sets. Finished logs are stored under build/, so that a stopped run continues,
and parts of the settings can be run one after the other; the run without --part then writes the page.
"""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError

from bench.accuracy.settings import CHECKPOINTS, SEED, evaluate_log, list_settings, make_parser, simulate_truth
from bench.accuracy.tables import Tables, accuracy_blocks, score_setting, setting_blocks
from bench.common.machine import describe_provenance, provenance
from bench.common.output import write_json, write_page
from bench.common.trials import TrialRunner
from bench.reproduction.datasets import find_data_folder


def parse_part(text: str) -> tuple[int, int]:
    """Return ``i`` and ``m`` of "i/m".

    >>> parse_part("2/9")
    (2, 9)
    """
    first, step = map(int, text.split("/"))
    if not 1 <= first <= step:
        raise ArgumentTypeError(f"{text} is not a part such as 2/9")
    return first, step


def main() -> None:
    parser = make_parser(__doc__, logs=100)
    parser.add_argument("--worlds", default="", help="only these, separated by commas")
    parser.add_argument("--part", type=parse_part, help="i/m: run and store every m-th setting from i on, no page")
    options = parser.parse_args()
    data, runner = find_data_folder(None), TrialRunner(CHECKPOINTS, SEED, options.jobs)
    tables: Tables = {}
    settings = [s for s in list_settings(data) if not options.worlds or s.world in options.worlds.split(",")]
    if options.part is not None:
        first, step = options.part
        settings = settings[first - 1 :: step]
    for setting in settings:
        [truth] = setting.run_trials(runner, "truth", simulate_truth, (setting, data), 1)
        trials = setting.run_trials(runner, "estimates", evaluate_log, (setting, data), options.logs)
        tables[setting] = (truth, score_setting(setting, truth, trials))
        print("\n\n".join(setting_blocks(setting, *tables[setting])), flush=True)
    if options.part is not None:
        return
    origin = provenance(" ".join(["python -m bench.accuracy.run", *sys.argv[1:]]))
    blocks = ["# Accuracy for learning policies", describe_provenance(origin), *accuracy_blocks(tables, options.logs)]
    write_page(options.output / "accuracy.md", blocks)
    records = {s.stem: {"truth": truth._asdict(), "rows": rows} for s, (truth, rows) in tables.items()}
    write_json(options.output / "accuracy.json", {**origin, "settings": records})


if __name__ == "__main__":
    main()
