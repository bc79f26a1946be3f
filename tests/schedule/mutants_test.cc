// A checker that never says no is worthless: right schedules, each spoilt by hand in one way, and
// what the prover must find. A mutant is rejected by one field of the verdict; what is found before
// that field must still be true, so that the reason given is the right one.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <set>

#include "algorithms/registry.h"
#include "lib/schedule/prove.h"
#include "tests/schedule/support.h"

namespace tutti::schedule {
namespace {

using Field = bool Verdict::*;

// In the order in which the prover finds them.
const std::pair<Field, const char*> fields[] = {
    {&Verdict::well_formed, "well_formed"},     {&Verdict::defined, "defined"},
    {&Verdict::in_place_safe, "in_place_safe"}, {&Verdict::matched, "matched"},
    {&Verdict::deadlock_free, "deadlock_free"}, {&Verdict::complete, "complete"},
    {&Verdict::same_bits, "same_bits"},
};

struct Mutant {
  const char* name;
  const char* algorithm;
  uint32_t nranks;
  Field finds;  // nullptr: sound, but not what the algorithm claims
  std::function<void(Programs&)> spoil;
};

void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }

std::vector<Step>& steps(Programs& p, uint32_t rank) { return p[rank].steps; }
void drop(Programs& p, uint32_t rank, uint32_t i) {
  steps(p, rank).erase(steps(p, rank).begin() + i);
}
void swap(Programs& p, uint32_t rank, uint32_t i, uint32_t j) {
  std::swap(steps(p, rank).at(i), steps(p, rank).at(j));
}
void turn(Step& step) { step.side = step.side == Side::left ? Side::right : Side::left; }
Range chunk(Role role, uint32_t c) { return {role, c, c + 1}; }
Step reduce(Range to, Range from, Side side) { return {Kind::reduce, side, 0, to, from}; }
// The n-th step of a kind.
uint32_t nth(Programs& p, uint32_t rank, Kind kind, uint32_t n = 0) {
  for (uint32_t i = 0;; ++i) {
    if (steps(p, rank).at(i).kind == kind && n-- == 0) return i;
  }
}
Step& step(Programs& p, uint32_t rank, Kind kind, uint32_t n = 0) {
  return steps(p, rank).at(nth(p, rank, kind, n));
}
void drop_kind(Programs& p, uint32_t rank, Kind kind) {
  std::erase_if(steps(p, rank), [&](const Step& s) { return s.kind == kind; });
}

const std::vector<Mutant>& mutants() {
  constexpr Role input = Role::input, output = Role::output, scratch = Role::scratch;
  static const std::vector<Mutant> all = {
      // ---- steps that make no sense
      {"a_rank_sends_to_itself", "ring", 4, &Verdict::well_formed,
       [](Programs& p) { step(p, 1, Kind::send).peer = 1; }},
      {"the_peer_does_not_exist", "ring", 4, &Verdict::well_formed,
       [](Programs& p) { step(p, 1, Kind::send).peer = 4; }},
      {"a_range_leaves_the_vector", "ring", 4, &Verdict::well_formed,
       [](Programs& p) { step(p, 2, Kind::send).from = chunk(output, 4); }},
      {"a_range_is_empty", "tree", 4, &Verdict::well_formed,
       [](Programs& p) { step(p, 2, Kind::send).from.end = 0; }},
      {"a_range_ends_before_it_begins", "ring", 4, &Verdict::well_formed,
       [](Programs& p) {
         step(p, 2, Kind::send).from = {output, 3, 1};
       }},
      {"a_range_crosses_the_end_of_a_scratch_row", "two-shot", 4, &Verdict::well_formed,
       [](Programs& p) { ++step(p, 3, Kind::recv, 2).to.end; }},
      {"the_scratch_row_does_not_exist", "all-to-all", 4, &Verdict::well_formed,
       [](Programs& p) { step(p, 3, Kind::recv).to = chunk(scratch, 3); }},
      {"the_input_is_written", "tree", 4, &Verdict::well_formed,
       [](Programs& p) { step(p, 3, Kind::recv).to.role = input; }},
      {"a_reduction_of_different_chunks", "two-shot", 4, &Verdict::well_formed,
       [](Programs& p) { step(p, 1, Kind::reduce).from = chunk(scratch, 2); }},
      {"a_reduction_of_ranges_of_different_sizes", "two-shot", 4, &Verdict::well_formed,
       [](Programs& p) { ++step(p, 0, Kind::reduce).to.end; }},
      {"a_reduction_of_a_range_into_itself", "butterfly", 4, &Verdict::well_formed,
       [](Programs& p) { step(p, 0, Kind::reduce).from = chunk(output, 0); }},
      {"one_rank_cuts_the_vector_otherwise", "ring", 4, &Verdict::well_formed,
       [](Programs& p) { p[2].chunks = 8; }},
      {"two_ranks_run_each_others_program", "ring", 4, &Verdict::well_formed,
       [](Programs& p) { std::swap(p[1], p[2]); }},
      {"a_rank_counts_another_number_of_ranks", "tree", 4, &Verdict::well_formed,
       [](Programs& p) { p[3].nranks = 5; }},

      // ---- reads of what nobody has written
      {"a_reduction_before_its_operand_came", "butterfly", 4, &Verdict::defined,
       [](Programs& p) { swap(p, 1, nth(p, 1, Kind::recv), nth(p, 1, Kind::reduce)); }},
      {"a_buffered_contribution_is_not_received", "all-to-all", 4, &Verdict::defined,
       [](Programs& p) { drop(p, 1, nth(p, 1, Kind::recv)); }},
      {"a_contribution_is_buffered_in_another_row", "all-to-all", 4, &Verdict::defined,
       [](Programs& p) { step(p, 1, Kind::recv, 0).to = step(p, 1, Kind::recv, 1).to; }},
      {"a_row_that_is_never_written_is_reduced", "butterfly", 4, &Verdict::defined,
       [](Programs& p) {
         p[0].scratch_rows = 2;
         step(p, 0, Kind::reduce).from = chunk(scratch, 1);
       }},
      {"a_row_that_is_never_written_is_sent", "tree", 4, &Verdict::defined,
       [](Programs& p) {
         p[3].scratch_rows = 1;
         step(p, 3, Kind::send).from = chunk(scratch, 0);
       }},

      // ---- reads of an input that is gone when the call is in place
      {"a_later_round_sends_the_input", "butterfly", 4, &Verdict::in_place_safe,
       [](Programs& p) { step(p, 2, Kind::send, 1).from.role = input; }},
      {"the_root_hands_out_its_input", "master-worker", 4, &Verdict::in_place_safe,
       [](Programs& p) { step(p, 0, Kind::send).from.role = input; }},
      {"the_gather_phase_sends_the_input", "ring", 4, &Verdict::in_place_safe,
       [](Programs& p) { step(p, 3, Kind::send, 3).from.role = input; }},
      {"the_input_is_kept_after_the_output_was_written", "butterfly", 4, &Verdict::in_place_safe,
       [](Programs& p) {
         steps(p, 0).push_back({Kind::copy, Side::left, 0, chunk(scratch, 0), chunk(input, 0)});
       }},

      // ---- sends and receives that do not meet
      {"a_send_is_dropped", "ring", 4, &Verdict::matched, [](Programs& p) { drop(p, 1, 2); }},
      {"a_receive_is_dropped", "tree", 8, &Verdict::matched,
       [](Programs& p) { drop(p, 5, nth(p, 5, Kind::recv)); }},
      {"a_combining_receive_is_dropped", "ring", 4, &Verdict::matched,
       [](Programs& p) { drop(p, 1, nth(p, 1, Kind::recv_reduce)); }},
      {"a_message_is_sent_twice", "tree", 4, &Verdict::matched,
       [](Programs& p) { steps(p, 3).push_back(step(p, 3, Kind::send)); }},
      {"a_send_goes_to_the_wrong_peer", "ring", 4, &Verdict::matched,
       [](Programs& p) { step(p, 0, Kind::send).peer = 2; }},
      {"a_receive_listens_to_the_wrong_peer", "halving-doubling", 8, &Verdict::matched,
       [](Programs& p) { step(p, 6, Kind::recv_reduce).peer = 5; }},
      {"a_sent_range_is_shifted", "ring", 4, &Verdict::matched,
       [](Programs& p) { step(p, 0, Kind::send).from = chunk(output, 1); }},
      {"a_received_range_is_shifted", "ring", 4, &Verdict::matched,
       [](Programs& p) { step(p, 0, Kind::recv, 1).to = chunk(output, 1); }},
      {"a_sent_range_is_one_chunk_short", "halving-doubling", 4, &Verdict::matched,
       [](Programs& p) { --step(p, 0, Kind::send).from.end; }},
      {"two_sends_to_a_peer_are_swapped", "ring", 4, &Verdict::matched,
       [](Programs& p) { swap(p, 2, nth(p, 2, Kind::send, 0), nth(p, 2, Kind::send, 1)); }},
      {"two_receives_from_a_peer_are_swapped", "ring", 4, &Verdict::matched,
       [](Programs& p) { swap(p, 2, nth(p, 2, Kind::recv, 0), nth(p, 2, Kind::recv, 1)); }},
      {"the_kept_half_is_sent", "halving-doubling", 4, &Verdict::matched,
       [](Programs& p) { step(p, 3, Kind::send).from = step(p, 3, Kind::recv_reduce).to; }},

      // ---- ranks that wait for each other
      {"partners_combine_into_what_they_still_send", "butterfly", 4, &Verdict::deadlock_free,
       [](Programs& p) {
         for (uint32_t r = 0; r < 4; ++r) {
           for (Step& s : steps(p, r)) {
             if (s.kind == Kind::recv) {
               s = {Kind::recv_reduce,
                    s.peer < r ? Side::left : Side::right,
                    s.peer,
                    chunk(output, 0),
                    {}};
             }
           }
           drop_kind(p, r, Kind::reduce);
         }
       }},
      {"all_send_in_another_order_than_all_receive", "all-to-all", 4, &Verdict::deadlock_free,
       [](Programs& p) {
         for (uint32_t r = 0; r < 4; ++r) {
           swap(p, r, nth(p, r, Kind::send, 0), nth(p, r, Kind::send, 1));
         }
       }},
      {"a_leaf_waits_for_the_result_before_it_contributes", "tree", 4, &Verdict::deadlock_free,
       [](Programs& p) { swap(p, 3, nth(p, 3, Kind::send), nth(p, 3, Kind::recv)); }},
      {"a_worker_waits_for_the_result_before_it_contributes", "master-worker", 4,
       &Verdict::deadlock_free,
       [](Programs& p) { swap(p, 2, nth(p, 2, Kind::send), nth(p, 2, Kind::recv)); }},
      {"two_ranks_swap_rounds_across", "butterfly", 4, &Verdict::deadlock_free,
       [](Programs& p) {  // 0 and 3 do the second exchange first, with partners still in the first
         for (const uint32_t r : {0u, 3u}) {
           auto& s = steps(p, r);
           std::rotate(s.begin(), s.begin() + 3, s.end());
         }
       }},
      {"a_folded_rank_waits_for_the_result_before_it_hands_over", "halving-doubling", 3,
       &Verdict::deadlock_free,
       [](Programs& p) { swap(p, 0, nth(p, 0, Kind::send), nth(p, 0, Kind::recv)); }},

      // ---- contributions that are missing or come twice
      {"a_reduction_is_dropped", "two-shot", 4, &Verdict::complete,
       [](Programs& p) { drop(p, 0, nth(p, 0, Kind::reduce)); }},
      {"a_reduction_is_repeated", "all-to-all", 4, &Verdict::complete,
       [](Programs& p) { steps(p, 0).push_back(steps(p, 0).back()); }},
      {"a_contribution_is_taken_for_another", "all-to-all", 4, &Verdict::complete,
       [](Programs& p) { step(p, 0, Kind::reduce, 1).from = step(p, 0, Kind::reduce, 2).from; }},
      {"the_last_exchange_is_dropped", "butterfly", 8, &Verdict::complete,
       [](Programs& p) {
         for (uint32_t r = 0; r < 8; ++r) steps(p, r).resize(steps(p, r).size() - 3);
       }},
      {"what_comes_overwrites_the_own_part", "ring", 4, &Verdict::complete,
       [](Programs& p) { step(p, 2, Kind::recv_reduce).kind = Kind::recv; }},
      {"a_finished_chunk_is_added_once_more", "ring", 4, &Verdict::complete,
       [](Programs& p) { step(p, 2, Kind::recv, 1).kind = Kind::recv_reduce; }},
      {"a_leaf_is_left_out", "tree", 4, &Verdict::complete,
       [](Programs& p) {
         drop(p, 3, nth(p, 3, Kind::send));
         drop(p, 2, nth(p, 2, Kind::recv_reduce));
       }},
      {"the_result_is_handed_back_before_it_is_finished", "butterfly", 3, &Verdict::complete,
       [](Programs& p) {  // rank 1, right after it took over from rank 0
         auto& s = steps(p, 1);
         std::rotate(s.begin() + 1, s.end() - 1, s.end());
       }},
      {"a_folded_rank_keeps_its_own_vector", "halving-doubling", 3, &Verdict::complete,
       [](Programs& p) {
         drop(p, 0, nth(p, 0, Kind::recv));
         drop(p, 1, nth(p, 1, Kind::send, 2));
       }},
      {"one_rank_runs_its_rounds_backwards", "butterfly", 4, &Verdict::complete,
       [](Programs& p) {
         auto& s = steps(p, 0);
         std::rotate(s.begin(), s.begin() + 3, s.end());
       }},
      {"a_contribution_replaces_the_result", "all-to-all", 4, &Verdict::complete,
       [](Programs& p) {
         steps(p, 2).push_back({Kind::copy, Side::left, 0, chunk(output, 0), chunk(scratch, 2)});
       }},
      {"chunks_are_passed_on_before_the_own_part_is_added", "ring", 4, &Verdict::complete,
       [](Programs& p) { swap(p, 1, nth(p, 1, Kind::recv_reduce), nth(p, 1, Kind::send, 1)); }},

      // ---- ranks that end with different bits
      {"every_rank_folds_its_own_vector_first", "all-to-all", 4, &Verdict::same_bits,
       [](Programs& p) {
         for (uint32_t r = 0; r < 4; ++r) {
           drop_kind(p, r, Kind::reduce);
           for (uint32_t row = 0; row < 3; ++row) {
             steps(p, r).push_back(reduce(chunk(output, 0), chunk(scratch, row), Side::right));
           }
         }
       }},
      {"one_partner_turns_the_operands", "butterfly", 2, &Verdict::same_bits,
       [](Programs& p) { turn(step(p, 1, Kind::reduce)); }},
      {"one_rank_turns_the_operands_of_the_last_round", "butterfly", 8, &Verdict::same_bits,
       [](Programs& p) { turn(step(p, 5, Kind::reduce, 2)); }},
      {"one_rank_brackets_from_the_right", "all-to-all", 4, &Verdict::same_bits,
       [](Programs& p) {
         drop_kind(p, 3, Kind::reduce);
         steps(p, 3).push_back(reduce(chunk(scratch, 1), chunk(scratch, 2), Side::right));
         steps(p, 3).push_back(reduce(chunk(scratch, 0), chunk(scratch, 1), Side::right));
         steps(p, 3).push_back(reduce(chunk(output, 0), chunk(scratch, 0), Side::left));
       }},

      // ---- sound, but not what the algorithm says of itself
      {"the_root_takes_the_far_child_first", "tree", 4, nullptr,
       [](Programs& p) { swap(p, 0, 0, 1); }},
      {"the_root_turns_the_operands", "tree", 2, nullptr,
       [](Programs& p) { turn(step(p, 0, Kind::recv_reduce)); }},
      {"one_owner_turns_the_operands", "two-shot", 4, nullptr,
       [](Programs& p) { turn(step(p, 2, Kind::reduce)); }},
      {"owners_start_at_their_own_rank", "two-shot", 4, nullptr,
       [](Programs& p) {
         for (uint32_t r = 0; r < 4; ++r) {
           const uint32_t at = nth(p, r, Kind::reduce);
           drop_kind(p, r, Kind::reduce);
           for (uint32_t i = 0; i < 3; ++i) {
             const uint32_t peer = (r + 1 + i) % 4, row = peer < r ? peer : peer - 1;
             steps(p, r).insert(steps(p, r).begin() + at + i,
                                reduce(chunk(output, r), chunk(scratch, row * 4 + r), Side::right));
           }
         }
       }},
      {"a_message_that_nobody_needs", "tree", 4, nullptr,
       [](Programs& p) {
         p[2].scratch_rows = 1;
         steps(p, 1).push_back({Kind::send, Side::left, 2, {}, chunk(output, 0)});
         steps(p, 2).push_back({Kind::recv, Side::left, 1, chunk(scratch, 0), {}});
       }},
      {"the_near_child_gets_the_result_first", "tree", 4, nullptr,
       [](Programs& p) { swap(p, 0, 2, 3); }},
      {"a_reduction_that_nobody_needs", "all-to-all", 4, nullptr,
       [](Programs& p) {
         steps(p, 1).push_back(reduce(chunk(scratch, 0), chunk(scratch, 1), Side::right));
       }},
  };
  return all;
}

class AMutant : public testing::TestWithParam<Mutant> {};
INSTANTIATE_TEST_SUITE_P(Schedule, AMutant, testing::ValuesIn(mutants()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(AMutant, IsRejectedForTheRightReason) {
  const Mutant& mutant = GetParam();
  const Algorithm& algorithm = allreduce(mutant.algorithm);
  Programs programs = programs_of(algorithm, mutant.nranks);
  ASSERT_EQ(broken_claim(algorithm, mutant.nranks, prove(programs, algorithm.collective)), "");
  mutant.spoil(programs);
  const Verdict verdict = prove(programs, algorithm.collective);
  RecordProperty("failure", verdict.failure);
  EXPECT_NE(broken_claim(algorithm, mutant.nranks, verdict), "");
  EXPECT_EQ(verdict.sound(), mutant.finds == nullptr) << verdict.failure;
  for (const auto& [field, name] : fields) {
    if (field == mutant.finds) {
      EXPECT_FALSE(verdict.*field) << name;
      EXPECT_TRUE(verdict.failure.starts_with("rank ")) << verdict.failure;
      return;
    }
    EXPECT_TRUE(verdict.*field) << name << ": " << verdict.failure;
  }
}

TEST(Mutants, AreManyAndDifferent) {
  std::set<std::string> names;
  for (const Mutant& mutant : mutants()) names.insert(mutant.name);
  EXPECT_EQ(names.size(), mutants().size());
  EXPECT_GE(names.size(), 40u);
}

// The same at random: dropping any one step of any rank is never accepted.
TEST(Mutants, DroppingAnyStepOfAnyRankIsNoticed) {
  for (const Algorithm& algorithm : algorithms()) {
    for (uint32_t nranks = 2; nranks <= 9; ++nranks) {
      const Programs right = programs_of(algorithm, nranks);
      for (uint32_t r = 0; r < nranks; ++r) {
        for (uint32_t i = 0; i < right[r].steps.size(); ++i) {
          Programs spoilt = right;
          drop(spoilt, r, i);
          EXPECT_FALSE(prove(spoilt, algorithm.collective).sound())
              << algorithm.name << ", rank " << r << " of " << nranks << ", step " << i + 1;
        }
      }
    }
  }
}

TEST(Mutants, TurningAnyOperandsIsNoticed) {
  for (const Algorithm& algorithm : algorithms()) {
    for (uint32_t nranks = 2; nranks <= 9; ++nranks) {
      if (!algorithm.applies({.nranks = nranks, .ordered = true}).empty()) continue;
      const Programs right = programs_of(algorithm, nranks);
      for (uint32_t r = 0; r < nranks; ++r) {
        for (uint32_t i = 0; i < right[r].steps.size(); ++i) {
          const Kind kind = right[r].steps[i].kind;
          if (kind != Kind::reduce && kind != Kind::recv_reduce) continue;
          Programs spoilt = right;
          turn(steps(spoilt, r)[i]);
          const Verdict verdict = prove(spoilt, algorithm.collective);
          EXPECT_FALSE(verdict.same_bits && verdict.ordered)
              << algorithm.name << ", rank " << r << " of " << nranks << ", step " << i + 1;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tutti::schedule
