//! The contract of every store, as tests: a store is right when it passes.
//!
//! A store joins by implementing [`Factory`] and calling [`conformance_tests!`](crate::conformance_tests) in a test
//! file; each case then is a test of its own name. A case gets an empty store and sees nothing but the port, so the
//! suite runs over any of them. Cases are grouped in rooms by what they are about; a new case is a function there and its
//! name in the list below.
//!
//! ```ignore
//! mod mine {
//!     stores::conformance_tests!(MyFactory::new());
//! }
//! ```
// This is test code that other crates' tests can call, hence not behind `cfg(test)`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod aliases;
mod blobs;
mod commits;
mod epochs;
mod keys;
mod kit;
mod ledger;
mod lists;
mod logs;
mod push;
mod random;
mod records;
mod removal;
mod shared;
mod survival;
mod texts;
mod timers;

use std::sync::Arc;

use model::ports::Future;
use model::ports::store::Store;

pub use self::random::{Random, fill};

/// How the suite gets its stores.
pub trait Factory: Send + Sync {
    /// An empty store.
    fn open(&self) -> Future<'_, Arc<dyn Store>>;

    /// Closes the store and opens it again with what it kept, as another process would; `None` if it keeps nothing.
    fn reopen(&self, store: Arc<dyn Store>) -> Future<'_, Option<Arc<dyn Store>>>;

    /// The store opened last once more, as another process would while the first goes on; `None` if only one may have it.
    fn second(&self) -> Future<'_, Option<Arc<dyn Store>>>;

    /// Whether the store keeps files of its own, and so can write a copy of them.
    fn keeps_files(&self) -> bool;
}

/// One promise.
pub type Case = for<'a> fn(&'a dyn Factory) -> Future<'a, ()>;

/// Runs the case of this name on a runtime of its own with several threads.
pub fn run(name: &str, factory: &dyn Factory) {
    let (_, case) = CASES.iter().find(|(known, _)| *known == name).expect("a case of the suite");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(case(factory));
}

/// Makes the registry, and from it the macro that makes the tests.
macro_rules! suite {
    ($dollar:tt $($room:ident { $($case:ident)* })*) => {
        /// Every case, by name.
        pub const CASES: &[(&str, Case)] = &[$($((stringify!($case), |factory| Box::pin($room::$case(factory))),)*)*];

        /// Makes a test of every case of the suite, with an expression that makes a
        /// [`Factory`](crate::conformance::Factory).
        #[macro_export]
        macro_rules! conformance_tests {
            ($dollar factory:expr) => {
                $($(
                    #[test]
                    fn $case() {
                        $dollar crate::conformance::run(stringify!($case), &$dollar factory);
                    }
                )*)*
            };
        }
    };
}

suite! { $
    commits {
        a_task_is_there_once_its_opening_is_committed
        a_task_nobody_opened_is_not_there
        a_wrong_expectation_meets_the_length_of_the_log
        appending_to_a_task_that_is_not_there_meets_length_zero
        a_task_opens_only_once
        of_many_who_open_one_task_one_wins
        of_many_who_append_at_one_place_one_wins
        a_commit_over_several_tasks_happens_as_a_whole
        a_commit_with_one_conflict_leaves_no_trace
        a_commit_may_append_twice_to_one_task
        a_refused_commit_does_not_harm_its_group
        a_commit_whose_future_is_dropped_happens_all_the_same
        thousands_of_commits_at_once_all_happen
        commits_pushed_in_order_see_each_other
        a_malformed_commit_is_refused_and_changes_nothing
        an_empty_commit_is_done
        a_read_sees_every_commit_answered_before_it
        a_closed_store_refuses_and_says_so
    }
    epochs {
        a_holder_keeps_its_hold
        a_lower_epoch_is_refused_with_the_higher_one
        outside_events_pass_without_an_epoch_and_leave_the_hold
        a_higher_epoch_takes_over_and_the_old_holder_is_refused
        a_refused_append_does_not_take_the_hold
        unfinished_tasks_come_in_order_page_by_page
        a_task_whose_turn_has_ended_is_not_unfinished
    }
    logs {
        events_come_back_as_they_were_appended
        events_after_a_cursor_are_those_after_it
        a_cursor_may_stand_within_a_batch
        a_page_of_events_is_whole_rows_until_its_bytes_are_passed
        logs_come_in_the_order_asked
        a_log_of_many_small_appends_has_no_hole
        a_large_payload_comes_back_whole
        interleaved_streams_stay_apart
        readers_beside_a_running_turn_see_no_hole
        lengths_come_in_the_order_asked
        a_beginning_is_read_only_by_those_who_see_the_task
        a_beginning_is_whole_rows_until_its_bytes_are_passed
    }
    keys {
        a_free_key_lets_the_commit_pass_and_is_then_in_use
        a_key_in_use_refuses_the_commit_and_tells_the_use
        an_expired_key_is_free
        of_many_with_one_key_one_wins
        a_key_can_be_looked_up
        a_key_is_found_across_hours
        old_keys_are_purged
        a_key_of_a_removed_task_is_free
    }
    aliases {
        an_alias_names_the_task_it_was_given
        an_alias_in_use_refuses_the_commit_and_tells_the_task
        a_successor_takes_the_alias_from_the_one_it_knows
        of_many_who_take_one_alias_one_wins
        an_alias_of_a_removed_task_is_free
        a_refused_commit_names_nothing
        after_reopening_an_alias_is_there
    }
    access {
        keys_are_kept_changed_and_listed
        after_reopening_keys_are_there
    }
    timers {
        a_timer_is_due_at_its_time_and_not_before
        timers_come_earliest_first_and_within_the_limit
        a_timer_set_again_moves
        a_cleared_timer_is_gone
        a_timer_is_replaced_only_while_it_is_the_one_that_was_read
        timers_are_found_by_their_tasks
        the_next_timer_is_known
        a_timer_of_a_task_that_is_not_there_is_not_set
        a_refused_commit_sets_no_timer
    }
    push {
        configs_are_kept_and_listed_oldest_first
        a_config_comes_back_as_it_was_put
        a_config_of_the_same_id_takes_the_place_of_the_earlier_one
        progress_moves_a_config_of_its_edition_only
        progress_of_another_epoch_or_behind_what_is_kept_changes_nothing
        the_standing_of_configs_is_told_in_the_order_asked
        progress_of_what_is_not_there_makes_nothing
        a_removed_config_is_gone
        a_config_that_is_over_goes_in_its_edition_only
        a_config_that_is_done_is_neither_active_nor_dead
        configs_are_walked_by_state_in_pages
        configs_go_with_their_removed_task
        configs_go_with_their_purged_task
        a_refused_commit_changes_no_config
        a_config_of_a_task_that_is_not_there_is_not_kept
        a_task_opens_with_its_config_in_one_commit
        changes_of_one_commit_happen_in_their_order
        hundreds_of_configs_move_in_one_commit
        health_counts_active_and_dead_configs
        after_reopening_configs_are_there
    }
    records {
        a_record_is_found_by_its_key
        records_are_counted_by_the_beginning_of_their_kind
        a_record_changes_only_as_expected
        a_record_that_is_left_alone_is_what_a_commit_rests_on
        changes_of_records_in_one_commit_see_each_other
        of_many_who_change_one_record_one_wins
        a_record_changes_with_its_task_or_not_at_all
        a_list_of_records_is_highest_rank_first
        a_walk_of_records_sees_everything_once
        a_record_is_in_the_lists_it_was_last_put_in
        keys_of_records_are_any_text
        a_large_record_comes_back_whole
        after_reopening_records_are_there
    }
    ledger {
        an_entry_moves_an_amount
        an_account_does_not_go_below_its_floor
        entries_of_one_commit_see_each_other
        an_entry_is_taken_once
        an_unbalanced_entry_is_refused
        an_account_has_an_end
        money_moves_with_its_task_or_not_at_all
        of_many_who_take_the_last_some_get_it
        a_statement_is_newest_first_with_balances
        the_journal_is_all_there_is
        random_entries_at_once_keep_every_sum
        after_reopening_the_money_is_there
    }
    texts {
        a_text_is_found_by_the_beginnings_of_its_words
        no_words_find_everything_in_order
        signs_in_a_question_are_no_signs
        a_text_that_changes_is_found_by_its_new_words
        a_text_changes_with_its_record_or_not_at_all
        a_walk_of_what_is_found_sees_everything_once
        random_texts_are_found_as_in_the_memory_store
        after_reopening_texts_are_found
    }
    blobs {
        a_blob_is_kept_per_tenant_and_hash
        a_blob_lives_as_long_as_its_last_task
        a_blob_of_another_tenant_is_missing
        a_large_blob_comes_back_whole
        a_refused_commit_leaves_no_blob
        a_blob_may_come_without_an_append
    }
    lists {
        a_list_is_newest_status_first
        equal_times_are_ordered_by_birth
        a_chunk_does_not_move_a_task
        a_status_change_moves_a_task_to_the_front
        a_walk_sees_everything_once
        a_walk_under_changes_never_skips_or_repeats_an_unchanged_task
        filters_choose_by_context_state_and_time
        totals_are_exact_for_every_filter
        totals_follow_every_change_of_state
        an_unlisted_task_is_in_no_list_until_it_is
        views_are_apart_and_can_be_read_together
        a_view_nobody_knows_is_empty
        a_view_named_twice_lists_once
        a_context_with_many_tasks_is_counted_exactly
        contexts_are_apart_however_they_are_spelled
        a_page_may_be_empty
        every_task_is_found_whatever_lists_it_is_in
    }
    removal {
        a_removed_task_is_gone_from_everywhere
        removing_what_is_not_there_says_so
        removing_steps_the_counts_down
        purging_takes_settled_tasks_older_than_the_given_time
        purging_goes_on_where_its_limit_stopped_it
        purging_steps_the_counts_down
        a_removed_task_may_open_again
    }
    survival {
        after_reopening_everything_is_there
        after_reopening_the_epoch_is_higher
        after_reopening_an_old_holder_is_refused
        what_was_queued_at_close_is_there
        health_counts_what_is_there
        a_backup_is_a_whole_store
    }
    random {
        random_operations_give_what_the_memory_store_gives
        counts_are_exact_after_random_operations
        two_processes_in_turn_give_what_the_memory_store_gives
    }
    shared {
        of_two_processes_that_open_one_task_one_wins
        of_two_processes_that_append_at_one_place_one_wins
        of_two_processes_with_one_key_one_wins
        of_two_processes_that_take_one_alias_one_wins
        a_hold_taken_by_one_process_refuses_the_other
        a_process_reads_what_another_was_told_is_done
        counts_are_exact_after_two_processes_wrote_at_once
        what_one_process_does_is_hinted_to_the_other
        what_a_process_held_when_it_left_is_anybodys
        a_push_config_has_one_deliverer
        a_timer_is_left_to_the_holder_until_it_is_late
        whoever_opens_a_turn_holds_it
        removals_and_changes_of_keys_are_counted_for_all
        the_first_value_of_a_name_is_the_value_for_all
        replicas_are_known_by_what_they_say_of_themselves
    }
}
