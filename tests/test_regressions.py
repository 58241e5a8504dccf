"""Confident wrong answers that were given once: where each of them is tested, and tests that fit nowhere else."""

from __future__ import annotations

import ast
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast.cli import main
from tests.support.logs import two_action_log

ROOT = Path(__file__).parent

# what was seen -> tests that failed when it was seen
SEEN: dict[str, tuple[str, ...]] = {
    "1. a log without support, a confident verdict": (
        "test_verdict.py::test_a_log_without_support_decides_nothing",
        "test_verdict.py::test_poor_diagnostics_of_either_side_prevent_a_decision",
        "statistical/test_decisions.py::test_false_decisions_are_rare",
    ),
    "2. columns of a classifier taken for actions by position": (
        "policies/test_invalid_policies.py::test_columns_of_a_classifier_follow_its_classes",
    ),
    "3. values outside of their interval and of the reward range; a table of nothing": (
        "evaluators/test_support.py::test_value_and_interval_stay_within_the_declared_range",
        "evaluators/test_support.py::test_a_value_that_was_moved_into_the_range_says_so",
        "test_regressions.py::test_three_events_of_which_none_is_accepted_are_an_error",
    ),
    "4. a log that is not exchangeable": (
        "test_auto.py::test_no_interval_in_log_order_assumes_independent_draws",
        "test_auto.py::test_a_fixed_policy_on_a_log_that_is_not_exchangeable",
        "test_auto.py::test_in_log_order_a_rule_is_chosen_that_the_certificate_accepts",
        "test_auto.py::test_a_horizon_that_the_log_does_not_support_is_refused_with_one_that_it_does",
        "test_comparison.py::test_fixed_policies_beside_learners_are_evaluated_as_if_alone",
        "test_comparison.py::test_an_evaluator_that_simulates_histories_is_for_policies_that_learn",
    ),
    "5. wrong columns, leaks, copies, outliers": (
        "cli/test_init.py::test_a_column_called_prob_stays_the_propensity",
        "cli/test_init.py::test_percents_are_recognized",
        "cli/test_init.py::test_outcomes_are_never_context",
        "checks/test_check.py::test_an_outcome_in_the_context_is_named",
        "checks/test_check.py::test_an_appended_stretch_is_found_in_any_log",
        "checks/test_check.py::test_copies_of_different_contexts_are_found_wherever_they_are",
        "checks/test_check.py::test_few_large_rewards_are_reported",
    ),
    "6. words that say too much": (
        "test_verdict.py::test_a_certificate_above_one_is_no_guarantee",
        "test_verdict.py::test_a_short_log_is_not_one_with_heavy_weights",
        "test_verdict.py::test_the_verdict_names_reasons_and_the_next_step",
        "test_verdict.py::test_histories_are_not_mentioned_for_a_policy_that_does_not_learn",
        "test_regressions.py::test_a_log_declared_exchangeable_against_the_test_is_not_called_exchangeable",
    ),
    "7. spreadsheets, folders, pipes, wrong calls, signs": (
        "cli/test_init.py::test_spreadsheets",
        "cli/test_init.py::test_no_run_file_for_a_log_that_cannot_be_read",
        "io/test_csv_dialect.py::test_labels_of_bytes_are_text",
        "io/test_files.py::test_a_folder_without_permission",
        "cli/test_errors.py::test_a_closed_pipe_changes_no_exit_code",
        "test_invalid_requests.py::test_a_frame_or_a_path_instead_of_a_log_gets_the_function_that_reads_it",
        "test_invalid_requests.py::test_policies_of_a_comparison_have_names",
        "policies/test_invalid_policies.py::test_a_fixed_policy_names_actions_by_label",
        "policies/test_invalid_policies.py::test_batches_are_whole_numbers_of_events",
        "test_log.py::test_float32_probabilities_are_normalised",
        "cli/test_compare.py::test_signs_and_verdict_of_table_and_json_agree",
    ),
    "8. files that are overwritten, signals, forged checkpoints, odd numbers": (
        "cli/test_paths.py::test_it_is_refused_and_nothing_is_lost",
        "cli/test_interrupt.py::test_a_stream_ends_with_a_message",
        "cli/test_interrupt.py::test_nothing_is_printed_before_the_first_estimate",
        "cli/test_interrupt.py::test_sigterm_ends_a_policy_in_python",
        "cli/test_interrupt.py::test_the_second_signal_ends_a_process_that_does_not_react",
        "cli/test_surroundings.py::test_a_terminal_without_utf_8",
        "security/test_private_files.py::test_a_forged_result_gives_one_error_of_ours",
        "security/test_private_files.py::test_a_pipe_in_place_of_a_result_does_not_block",
        "test_log.py::test_values_whose_powers_overflow_are_refused_with_their_row",
        "test_log.py::test_complex_numbers_are_refused",
        "test_invalid_requests.py::test_requests_without_sense",
        "evaluators/test_support.py::test_a_policy_that_never_takes_a_logged_action_is_refused",
        "evaluators/test_support.py::test_one_event_without_a_range_has_no_interval",
        "evaluators/test_support.py::test_equal_rewards_leave_room_for_what_the_log_missed",
        "test_regressions.py::test_evaluate_and_compare_agree_to_the_bit",
    ),
}


@pytest.mark.parametrize("item", SEEN)
def test_every_item_has_its_tests(item: str) -> None:
    for test in SEEN[item]:
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, test


@pytest.mark.parametrize("evaluator", ["rs", "replay", "dr-ns", "wc", "clock"])
def test_three_events_of_which_none_is_accepted_are_an_error(
    evaluator: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "three.csv"
    log.write_text("shown,click,p\n0,1,0.5\n0,0,0.5\n0,1,0.5\n")
    words = f"{log} --action shown --reward click --propensity p --n-actions 2 --policy fixed:probabilities=[0,1]"
    assert main(["evaluate", *words.split(), "--evaluator", evaluator, "--horizon", "2", "--json"]) == 6
    printed = capsys.readouterr()
    assert json.loads(printed.out)["error"]["kind"] in ("NoOverlap", "HorizonNotReached")


def test_a_log_declared_exchangeable_against_the_test_is_not_called_exchangeable() -> None:
    log = two_action_log(2_000)
    falling = bc.Log(None, log.actions, log.rewards * np.linspace(1, 0, 2_000), log.propensities)
    with pytest.warns(bc.DriftWarning):
        estimate = bc.evaluate(falling, bc.UCB1(), horizon=5, replicates=16, exchangeable=True)
    assert "the log is taken as exchangeable (as given, although drift was detected)" in estimate.notes[0]


@pytest.mark.parametrize(
    ("evaluator", "options"),
    [
        ("auto", {"horizon": 20, "replicates": 16}),
        ("auto", {"horizon": 20, "exchangeable": False}),
        (bc.ClockReplay(), {"horizon": 20, "replicates": 16}),
        (bc.DRns(q=0.01), {"horizon": 20}),
        (bc.DRns(q=0.01), {"horizon": 20, "replicates": 60}),
        (bc.WC(), {"horizon": 20}),
        (bc.RS(), {"horizon": 20}),
        (bc.DR(), {}),
    ],
)
def test_evaluate_and_compare_agree_to_the_bit(evaluator: Any, options: dict[str, Any]) -> None:
    """Whatever the other policies are; a fixed policy is compared as ``evaluate`` evaluates it by itself."""
    log = two_action_log(600)
    fixed: dict[str, Any] = {"good": bc.Fixed([0.0, 1.0]), "even": bc.Uniform()}
    learners: dict[str, Any] = {} if isinstance(evaluator, bc.DR) else {"ucb": bc.UCB1(), "turns": bc.RoundRobin()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bc.DriftWarning)
        comparison = bc.compare(log, {**fixed, **learners}, evaluator, seed=3, **options)
        for name, policy in {**fixed, **learners}.items():
            of_all = evaluator == "auto" or isinstance(evaluator, bc.DR) or name in learners
            alone = bc.evaluate(log, policy, evaluator if of_all else "auto", seed=3, **options)
            compared = comparison.estimates[name]
            assert (compared.value, compared.std_error) == pytest.approx(
                (alone.value, alone.std_error), rel=0, abs=0, nan_ok=True
            )
            assert compared.interval == alone.interval
