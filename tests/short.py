"""What the short suite leaves to `pytest --all`.

The short suite runs every test file, and each operation, kernel, lesson, command and claim at least once. Long series
are cut in the files themselves (thorough.py), and the cases of these tests are by tests/conftest.py.
"""

WHOLE_SUITE = 0  # the test is in the whole suite alone

# Of the cases of a test, the first of every so many are in the short suite.
PART = {
    "cpython/test_systems.py::test_text_has_an_encoding": 4,
    "derivations/test_kernels_at_size.py::test_mistake_beyond_a_block_is_refuted": 4,
    "distributed/test_distributed.py::test_documented_program_runs": WHOLE_SUITE,  # models/training/test_ranks.py
    "kernels/test_bounds.py::test_source_without_checks_leaves_its_arrays": 3,
    "models/command/test_configuration.py::test_written_file_repeats_other_tasks": 2,
    "models/command/test_live.py::test_glimpse_of_every_task_draws_no_random_number": 3,
    "models/command/test_live.py::test_watched_run_ends_by_a_signal": 2,
    "models/command/test_small_texts.py::test_small_text_gets_a_smaller_vocabulary": 3,
    "models/command/test_sources_again.py::test_runs_of_each_source_are_evaluated_and_begun_with": 3,
    "models/command/test_sources_again.py::test_written_file_repeats_a_run_of_each_source": 3,
    "models/data/test_sources.py::test_a_run_learns_from_each_source_and_goes_on": 3,
    "models/test_tasks.py::test_resumed_run_equals_an_unbroken_run": 2,
    "models/training/test_checkpoint.py::test_ctrl_c_and_sigterm_save_a_checkpoint": 2,
    "models/training/test_checkpoint.py::test_resumed_run_equals_an_unbroken_run": 3,
    "models/training/test_ranks.py::test_a_run_with_the_same_ranks_repeats_bit_for_bit": WHOLE_SUITE,
    "models/training/test_ranks.py::test_ctrl_c_saves_once_and_ends_all_ranks": 2,
    "models/training/test_ranks.py::test_killed_run_resumes_on_another_number_of_ranks": WHOLE_SUITE,
    "models/training/test_ranks.py::test_missing_extra_is_named_by_one_rank": 2,
    "models/training/test_ranks.py::test_parts_of_one_process_have_the_bits_of_ranks": WHOLE_SUITE,
    "models/training/test_ranks.py::test_rank_0_draws_the_progress_bar_in_a_terminal": WHOLE_SUITE,
    "models/training/test_ranks.py::test_wrong_option_is_reported_once": 3,
    "native/test_cache.py::test_a_damaged_file_is_replaced": 3,
    "native/test_cache.py::test_kernels_run_on_a_full_disk": WHOLE_SUITE,
    "native/test_cache.py::test_kernels_run_without_a_writable_folder": 2,
    "native/test_cache.py::test_warm_start_compiles_nothing": WHOLE_SUITE,  # native/test_build.py: of the same bits
    "native/test_squares.py::test_compiled_and_plain_squares_agree": 2,
    "native/test_tiles.py::test_sums_of_products": 2,
    "native/test_vectors.py::test_nan_and_inf": 2,
    "native/test_vectors.py::test_pieces": 2,
    "io/test_pytorch_files.py::test_memory_stays_a_small_multiple_of_the_file": 3,
    "symbolic/test_check.py::test_wrong_gradients_are_refuted_by_term": 2,
    "symbolic/test_kernels.py::test_a_copy_without_a_mistake_passes": 5,
    "symbolic/test_kernels.py::test_a_planted_mistake_is_noticed": 3,
    "symbolic/test_sampling.py::test_a_wrong_kernel_is_refuted": 3,
    "symbolic/test_work.py::test_estimate_is_right_within_a_factor": 5,
    "test_one_place.py::test_wrong_rule_in_the_copy_is_noticed": WHOLE_SUITE,  # symbolic/test_ops.py plants others
    "test_programs.py::test_programs_match_stored_pytorch_results": 4,
    "test_readme.py::test_derivations_print_the_shown_output": 2,
    # The type checkers come with the linter: .ci/run runs these once more, when they are installed.
    "tools/test_types.py::test_mypy_accepts_the_program_and_finds_mistakes": WHOLE_SUITE,
    "tools/test_types.py::test_pyright_accepts_the_program_and_finds_mistakes": WHOLE_SUITE,
}
