"""Plan and run replicates: passes over the whole log for the value, passes over subsets of groups for the error.

Jobs are passes x policies, each with its own seed, so results do not depend on where a job ran. All policies of a
request share groups, subsets and seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from backcast._arrays import FloatArray
from backcast._parallel.jobs import run_jobs
from backcast._parallel.workers import Job, SharedArguments
from backcast._readings import OutcomeReading
from backcast._request import EvaluationRequest, SeedKey, partial_note, seed_sequence
from backcast.errors import HorizonNotReached, OptionError, StopEvaluation
from backcast.evaluators._bias import bias_passes
from backcast.evaluators._pass_inputs import OnePass, PassInputs, run_policies
from backcast.evaluators._passes import (
    FEWEST_PASSES,
    MORE_PASSES,
    MOST_CHEAP_PASSES,
    MOST_PASSES,
    PassResult,
    most_cheap_passes,
)
from backcast.evaluators._replicate_statistics import SUBSETS_PER_GROUP, Groups, ReplicateTable
from backcast.evaluators._reward_predictions import out_of_sample_predictions
from backcast.evaluators._values_so_far import PassValues
from backcast.intervals.learning import GroupJackknife, InfinitesimalJackknife
from backcast.log import Log
from backcast.policies.compiled import CompiledPolicy
from backcast.reward_models.cross_fitting import Fitted, Given, as_out_of_sample

PILOT_PASSES = 8  # full passes from which the number of passes is chosen; 16 would be a sixth of all passes
FIRST_PASSES = 32  # fewest passes of the value
PERMUTATIONS, MOST_PERMUTATIONS = 16, 96
BATCH_PER_GROUP, MOST_BATCHES = 10, 3  # subset replicates per group in a batch, and most batches
SIZE_PILOTS = 8  # subset replicates of each size from which the size is chosen
SMALL_SHARE = 0.1  # Monte-Carlo variance as a share of that over logs, at which passes are enough
# the same where passes are cheap: with a tenth, and 32 to 64 passes, the rmse of Softmax was 1.08 to 1.17 times that of
# the former default in the five settings of bench/accuracy (20 logs each)
SMALLER_SHARE = 0.03
SMALL_NOISE = 0.04  # squared relative error of a standard error due to passes, at which they are enough
NO_MEMBERS: FloatArray = np.zeros((0, 1))
NOISY_SHARE = 0.5  # noise share of the jackknife at which subsets are enough
TOO_SHORT = (
    "Not all subsets of the log reach {} rounds, and those that do would be selected by their values, so there is no "
    "standard error; ask for a shorter horizon, or give a longer log."
)
MORE_FOR_OTHERS = (
    "{} passes were run for all policies, as many as the least precise of them or of their differences needs."
)
FEWER_PASSES = (
    "{} passes would make the Monte-Carlo error a small part of the total; the time budget allows {}. The standard "
    "error includes it."
)


# whether subsets of this size are long enough, from the pilots of one policy
LongEnough: TypeAlias = Callable[[Sequence[PassResult]], bool]


def run_replicates(
    inputs: PassInputs,
    request: EvaluationRequest,
    policies: Sequence[Any],
    *,
    one_pass: OnePass | Sequence[OnePass],
    default_interval: InfinitesimalJackknife | GroupJackknife,
    long_enough: LongEnough,
    horizon_error: Callable[[PassInputs, int], HorizonNotReached],
    halve: Callable[[OnePass], OnePass] | None = None,
    threads: bool = True,
) -> ReplicateTable:
    """Run full passes for the values of all policies, and what the requested interval needs for standard errors.

    ``one_pass`` is one function for all policies, or one for each. A pass that does not reach the horizon is never left
    out of a mean. If a full pass falls short, the call fails; if a subset does, there are no standard errors. Readings
    of the request are further columns of the table, as many as there are policies for each; they do not decide on the
    number of passes, and a run that is stopped has none. ``halve`` returns a pass over a half of the log, for the bias
    of filled rounds. Without ``threads`` passes run in processes, whatever the policies are.
    """
    method = request.interval or default_interval
    if not isinstance(method, type(default_interval) | GroupJackknife):
        raise OptionError(
            f"{type(method).__name__} is not an interval for replicates; use {type(default_interval).__name__}(), "
            "GroupJackknife() or Segments()"
        )
    n_groups = method.groups if isinstance(method, GroupJackknife) else 1
    groups = Groups.from_seed(len(inputs.log), n_groups, request.seed)
    inputs = inputs.with_readings(request.readings, partial(_predict_outcome, request))
    passes = one_pass if isinstance(one_pass, Sequence) else [one_pass] * len(policies)
    levels = (passes,) if halve is None else (passes, [halve(each) for each in passes])
    with closing(_Runner(levels, policies, inputs, request, groups, horizon_error, threads)) as runner:
        if request.passes is not None:
            full = runner.full_passes(request.passes)
            return ReplicateTable(full, [], NO_MEMBERS, inputs.horizon, len(inputs.log), runner.groups)
        table = (
            _run_subsets(runner, method, long_enough)
            if isinstance(method, GroupJackknife)
            else _run_full_passes(runner)
        )
        return _with_bias_passes(runner, table)


def _with_bias_passes(runner: _Runner, table: ReplicateTable) -> ReplicateTable:
    """Return the table with passes over halves of the log, for a bias estimate, if full passes are filled at all.

    All policies run them if one of them needs them.
    """
    if len(runner.passes) == 1 or runner.stopped or not table.has_standard_errors:
        return table
    passes = [table.passes_of(policy) for policy in range(len(runner.policies))]
    count = max(bias_passes(of_policy) for of_policy in passes)
    inputs = runner.inputs
    read = [inputs.log, *(inputs.read_as(i).log for i in range(len(inputs.readings)))]
    table = replace(table, reward_spreads=[float(log.columns.rewards.std()) for log in read for _ in runner.policies])
    if not count:
        return table
    try:
        halves = runner.half_passes(count)
    except StopEvaluation:
        return table
    return replace(table, halves=halves) if len(halves) == count else table


def _predict_outcome(request: EvaluationRequest, reading: OutcomeReading) -> FloatArray:
    request = replace(request.scoped(reading.key), reward_model=outcome_model(request.reward_model))
    assert isinstance(request.log, Log)
    _, predicted = out_of_sample_predictions(replace(request, log=reading.apply(request.log)))
    return predicted


def outcome_model(model: Any) -> Any:
    """Return the reward model of another outcome: the same one fitted again, or the default if it is not fitted.

    >>> outcome_model(0.0), outcome_model(np.zeros((2, 2)))
    (0.0, None)
    """
    if model is None or isinstance(model, int | float):
        return model
    return None if isinstance(as_out_of_sample(model), Fitted | Given) else model


def _run_full_passes(runner: _Runner) -> ReplicateTable:
    """Run full passes for values and standard errors, as many as pilot passes show to be needed.

    Passes of the value are not added until it looks precise: if the policy rarely takes a turn that matters, passes
    without it look precise, and stopping there would select them (a bias of 0.4 standard errors in bench/accuracy's
    selection benchmark). The pilots decide on the number and are not part of the value, unless the run is stopped.
    """
    inputs, request = runner.inputs, runner.request
    pilots: list[list[PassResult]] = []
    n_passes, most = _number_of_passes(request), most_cheap_passes(len(inputs.log))
    most = most if request.plan is None else request.plan.passes
    # pilots that could not change the number are left out
    has_pilots = request.replicates == "auto" and most > FIRST_PASSES
    notes: tuple[str, ...] = ()
    template = ReplicateTable(
        [], [], NO_MEMBERS, inputs.horizon, len(inputs.log), runner.groups, values_only=request.replicates is None
    )
    try:
        if has_pilots:
            pilots = runner.pilot_passes(PILOT_PASSES)
            if not runner.stopped:
                is_cheap = request.plan is not None and most > MOST_PASSES
                needed = _passes_needed(replace(template, full=pilots), SMALLER_SHARE if is_cheap else SMALL_SHARE)
                n_passes = min(max(needed, MOST_PASSES) if is_cheap else needed, most)
                # more than MOST_PASSES are run where they are cheap, and not missed elsewhere
                needed = min(needed, MOST_PASSES)
                notes = (FEWER_PASSES.format(needed, n_passes),) if n_passes < needed else ()
        full = runner.full_passes(range(n_passes))
    except StopEvaluation:
        if not pilots:
            raise
        runner.stopped, full = True, []
    if runner.stopped:
        table = replace(template, full=[*pilots, *runner.without_readings(full)])
        n_pilots = PILOT_PASSES if has_pilots else 0
        return replace(table, notes=(_partial_note(table, n_passes + n_pilots, 0),))
    table = replace(template, full=full)
    if len(runner.policies) > 1 and n_passes > FIRST_PASSES and request.replicates == "auto":
        notes += (MORE_FOR_OTHERS.format(n_passes),)
    return replace(table, notes=notes)


def _passes_needed(pilots: ReplicateTable, share: float) -> int:
    """Return how many passes make Monte-Carlo variance and the noise of standard errors small, for all quantities.

    ``share`` is the Monte-Carlo variance that is small enough, relative to that over logs.
    """
    n_pilots, n = len(pilots.full), len(pilots.full[0])
    needed = 0.0
    for term in (
        *(pilots.influences.of_value(policy) for policy in range(n)),
        *(pilots.influences.of_difference(a, b) for a, b in combinations(range(n), 2)),
    ):
        variance = term.sampling + term.monte_carlo
        if term.sampling > 0:
            noise = math.sqrt(term.pass_noise / (4 * SMALL_NOISE)) / variance
            needed = max(needed, term.monte_carlo / (share * term.sampling), noise)
    steps = math.ceil(min(needed * n_pilots, MOST_CHEAP_PASSES) / MORE_PASSES)
    return max(FIRST_PASSES, steps * MORE_PASSES)


def _number_of_passes(request: EvaluationRequest) -> int:
    if not isinstance(request.replicates, int):
        return FIRST_PASSES if request.plan is None else min(FIRST_PASSES, request.plan.passes)
    if request.replicates < FEWEST_PASSES:
        raise OptionError(
            f"replicates is {request.replicates}; a standard error needs at least {FEWEST_PASSES} passes, and "
            f"{FIRST_PASSES} to be stable. Give None for a value without a standard error"
        )
    return request.replicates


def _run_subsets(runner: _Runner, method: GroupJackknife, long_enough: LongEnough) -> ReplicateTable:
    """Run full passes for the values, and passes over subsets of groups for standard errors.

    Size and number of subsets and the number of passes are chosen by pilots that are part of neither values nor errors,
    as in ``_run_full_passes``.
    """
    inputs, request = runner.inputs, runner.request
    n_passes, n_subsets = _planned_numbers(request, method)
    table = ReplicateTable([], [], np.zeros((0, method.groups)), inputs.horizon, len(inputs.log), runner.groups)
    pilots: list[list[PassResult]] = []
    try:
        if request.replicates == "auto":
            pilots = runner.pilot_passes(PERMUTATIONS)
        else:
            table = replace(table, full=runner.full_passes(range(n_passes)))
        n_groups = method.groups_per_subset
        if n_groups is None and request.replicates is not None:
            n_groups = _choose_subset_size(runner, long_enough)
        if request.replicates == "auto":
            if n_groups is not None:
                numbers = range(SUBSETS_PER_GROUP * method.groups)
                pilot = _with_subsets(runner, replace(table, full=pilots), n_groups, numbers, is_pilot=True)
                if pilot.member.size:
                    n_passes, n_subsets = _numbers_needed(pilot)
                else:
                    n_groups = None
            table = replace(table, full=runner.full_passes(range(n_passes)))
        if n_groups is not None and request.replicates is not None:
            table = _with_subsets(runner, table, n_groups, range(n_subsets))
        if not table.member.size and n_passes < PERMUTATIONS:
            # subsets fall short: there is no error, so the value gets the passes that it has by default
            table = replace(table, full=table.full + runner.full_passes(range(n_passes, PERMUTATIONS)))
    except StopEvaluation:
        if not pilots and not table.full:
            raise
        runner.stopped = True
    if runner.stopped:
        full, subset = runner.without_readings(table.full), runner.without_readings(table.subset)
        table = replace(table, full=[*pilots, *full], subset=subset, values_only=not table.member.size)
        n_subsets = 0 if request.replicates is None else n_subsets
        return replace(table, notes=(_partial_note(table, len(pilots) + n_passes, n_subsets),))
    notes = () if table.member.size or request.replicates is None else (TOO_SHORT.format(table.horizon),)
    return replace(table, values_only=not table.member.size, notes=notes)


def _planned_numbers(request: EvaluationRequest, method: GroupJackknife) -> tuple[int, int]:
    """Return the number of full passes and of subset replicates, or the smallest ones if pilots choose them."""
    replicates, fewest = request.replicates, SUBSETS_PER_GROUP * method.groups
    if not isinstance(replicates, int):
        return PERMUTATIONS, BATCH_PER_GROUP * method.groups
    if replicates < fewest:
        raise OptionError(
            f"replicates is {replicates}; the jackknife over {method.groups} groups needs at least {fewest}, and "
            f"{BATCH_PER_GROUP * method.groups} for a stable error"
        )
    return max(4, min(40, replicates // 8)), replicates


def _choose_subset_size(runner: _Runner, long_enough: LongEnough) -> int | None:
    """Return the fewest groups, from a quarter on, whose subsets are long enough for every policy; else the most.

    A single pilot is not enough: what a subset exhausts depends on which rare events are in it. A size is usable if all
    of its pilots reach the horizon; returns None if not even five sixths of the log are usable.
    """
    total = runner.n_groups
    largest = None
    for n_groups in (math.ceil(total / 4), math.ceil(total / 3), total // 2, 2 * total // 3, 5 * total // 6):
        rows = runner.subsets(n_groups, range(SIZE_PILOTS), is_pilot=True)
        if all(result.reached_horizon for row in rows for result in row):
            largest = n_groups
            if all(long_enough(results) for results in zip(*rows, strict=True)):
                break
    return largest


def _with_subsets(
    runner: _Runner, table: ReplicateTable, n_groups: int, numbers: range, *, is_pilot: bool = False
) -> ReplicateTable:
    """Return the table with subset replicates of these numbers.

    If one of them falls short of the horizon, the table is without subsets: the others would be selected.
    """
    rows = runner.subsets(n_groups, numbers, is_pilot=is_pilot)
    if not all(result.reached_horizon for row in rows for result in row):
        return table
    chosen = [runner.draw_groups(n_groups, number, is_pilot=is_pilot) for number in numbers[: len(rows)]]
    member = np.array([np.isin(np.arange(runner.n_groups), groups) for groups in chosen], dtype=np.float64)
    return replace(table, subset=rows, member=member)


def _numbers_needed(pilot: ReplicateTable) -> tuple[int, int]:
    """Return how many passes and subsets make Monte-Carlo variance and the noise of the jackknife small."""
    share, batch = pilot.noise_share(), BATCH_PER_GROUP * pilot.member.shape[1]
    # the noise that subsets add to the squared influences falls with their number, the influences do not
    subsets = share / max(1 - share, 1e-9) * (1 - NOISY_SHARE) / NOISY_SHARE * len(pilot.subset)
    passes = max(
        each.monte_carlo * len(pilot.full) / max(SMALL_SHARE * each.sampling, np.finfo(float).tiny)
        for each in pilot.all_precisions()
    )
    return (
        math.ceil(np.clip(passes, PERMUTATIONS, MOST_PERMUTATIONS) / MORE_PASSES) * MORE_PASSES,
        math.ceil(np.clip(subsets, batch, MOST_BATCHES * batch) / batch) * batch,
    )


def _partial_note(table: ReplicateTable, n_passes: int, n_subsets: int) -> str:
    # more than at first planned: how many there would have been in the end is not known
    counts = [
        f"{finished} of {planned} {kind}" if finished < planned else f"{finished} {kind}"
        for finished, planned, kind in (
            (len(table.full), n_passes, "passes over the log"),
            (len(table.subset), n_subsets, "replicates"),
        )
        if planned
    ]
    note = partial_note(" and ".join(counts))
    return note if table.has_standard_errors else f"{note} These are not enough for a standard error."


@dataclass
class _Runner:
    """Runs passes for all policies as jobs, until the progress callback stops them.

    ``passes`` are the functions of ordinary passes, one per policy, and those of passes over halves of the log.
    """

    passes: Sequence[Sequence[OnePass]]
    policies: Sequence[Any]
    inputs: PassInputs
    request: EvaluationRequest
    groups: Groups
    horizon_error: Callable[[PassInputs, int], HorizonNotReached]
    threads: bool
    stopped: bool = False
    _shared: SharedArguments = field(init=False, repr=False)
    _values: PassValues = field(init=False, repr=False)

    def __post_init__(self) -> None:
        seed = self.request.seed
        self._shared = SharedArguments(self.passes, self.policies, self.inputs, self.groups, seed)
        self._values = PassValues(len(self.policies), len(self.inputs.log), self.request.execution)

    def close(self) -> None:
        """Release what workers use."""
        self._shared.close()

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.groups.edges.size - 1

    def draw_groups(self, n_groups: int, number: int, *, is_pilot: bool = False) -> list[int]:
        """Draw the groups of a subset replicate."""
        key = (SeedKey.GROUPS, SeedKey.PILOT, number) if is_pilot else (SeedKey.GROUPS, number)
        rng = np.random.default_rng(seed_sequence(self.request.seed, *key))
        return list(map(int, rng.choice(self.n_groups, n_groups, replace=False)))

    def without_readings(self, results: list[list[PassResult]]) -> list[list[PassResult]]:
        """Return the results of the reward alone, as pilots have them."""
        return [row[: len(self.policies)] for row in results]

    def pilot_passes(self, count: int) -> list[list[PassResult]]:
        """Run the passes from which the number of passes is chosen, without readings."""
        return self.full_passes(range(count), "pilot", SeedKey.PILOT, reads=False)

    def full_passes(
        self, numbers: Iterable[int], name: str = "pass", key: SeedKey = SeedKey.FULL_PASS, *, reads: bool = True
    ) -> list[list[PassResult]]:
        """Run passes over the whole log; raise if one of them falls short of the horizon."""
        n = len(self.inputs.log)
        passes = self._run([Job((name, i), (None, (key, i), reads), n) for i in numbers], shows_values=True)
        short = [result.rounds for row in passes for result in row if not result.reached_horizon]
        if short:
            raise self.horizon_error(self.inputs, min(short))
        return passes

    def subsets(self, n_groups: int, numbers: Iterable[int], *, is_pilot: bool = False) -> list[list[PassResult]]:
        """Run passes over subsets of this many groups."""
        n_events = len(self.inputs.log) * n_groups // self.n_groups
        name, key = ("pilot subset", (SeedKey.SUBSET, SeedKey.PILOT)) if is_pilot else ("subset", (SeedKey.SUBSET,))
        jobs = []
        for number in numbers:
            groups = self.draw_groups(n_groups, number, is_pilot=is_pilot)
            jobs.append(Job((name, n_groups, number), (groups, (*key, number), not is_pilot), n_events))
        return self._run(jobs)

    def half_passes(self, count: int) -> list[list[PassResult]]:
        """Run passes over halves of the log."""
        n = len(self.inputs.log) // 2
        return self._run([Job(("half", i), (None, (SeedKey.HALVES, i), True, 1), n) for i in range(count)])

    def _run(self, jobs: Sequence[Job], *, shows_values: bool = False) -> list[list[PassResult]]:
        if self.stopped:
            raise StopEvaluation
        # compiled policies release the interpreter lock, so threads share the log; others need processes
        threads = self.threads and all(isinstance(policy, CompiledPolicy) for policy in self.policies)
        execution = self.request.execution
        shown = self._values.show if execution.shows_values and shows_values else None
        finished = run_jobs(
            _run_pass, self._shared, jobs, execution, threads=threads, result_types=(PassResult,), on_results=shown
        )
        self.stopped = finished.stopped
        if self.stopped and not finished.results:
            raise StopEvaluation
        return finished.results


def _run_pass(
    passes: Sequence[Sequence[OnePass]],
    policies: Sequence[Any],
    inputs: PassInputs,
    groups: Groups,
    seed: int,
    chosen: Sequence[int] | None,
    key: tuple[int, ...],
    reads: bool,
    level: int = 0,
) -> list[PassResult]:
    # a job carries the numbers of its groups: the events themselves would be most of what is sent
    rows = None if chosen is None else groups.rows(chosen)
    # the same seed for every policy: common randomness makes their differences more precise
    seeds = [seed_sequence(seed, *key) for _ in policies]
    return run_policies(passes[level], policies, inputs if reads else inputs.without_readings(), rows, seeds)
