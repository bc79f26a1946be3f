// Every algorithm, executed: all ranks in one thread in a random order with tiny rings, on an exact
// operator that is associative but not commutative, so that a wrong order shows.
#include <gtest/gtest.h>

#include <cstring>

#include "algorithms/registry.h"
#include "lib/plan/lower.h"
#include "lib/schedule/build.h"
#include "lib/schedule/chunks.h"
#include "lib/schedule/levels.h"
#include "lib/schedule/moves.h"
#include "tests/plan/simulate.h"
#include "tests/support/sanitized.h"

namespace tutti::plan {
namespace {

// x -> a x + b modulo 2^32, composed: associative, not commutative, exact.
struct Affine {
  uint32_t a = 1, b = 0;
  bool operator==(const Affine&) const = default;
};
Affine compose(Affine first, Affine second) {
  return {first.a * second.a, first.b * second.a + second.b};
}
void compose2(void* out, const void* a, const void* b, size_t elements) {
  for (size_t i = 0; i < elements; ++i) {
    Affine x, y;
    std::memcpy(&x, static_cast<const Affine*>(a) + i, sizeof(x));
    std::memcpy(&y, static_cast<const Affine*>(b) + i, sizeof(y));
    const Affine z = compose(x, y);
    std::memcpy(static_cast<Affine*>(out) + i, &z, sizeof(z));
  }
}
void compose_all(void* out, const void* const* operands, size_t n, size_t elements) {
  for (size_t i = 0; i < elements; ++i) {
    Affine total;
    for (size_t k = 0; k < n; ++k) {
      Affine next;
      std::memcpy(&next, static_cast<const Affine*>(operands[k]) + i, sizeof(next));
      total = compose(total, next);
    }
    std::memcpy(static_cast<Affine*>(out) + i, &total, sizeof(total));
  }
}
// The same, commutative: for algorithms that add in their own order.
void add2(void* out, const void* a, const void* b, size_t elements) {
  for (size_t i = 0; i < elements; ++i) {
    static_cast<uint64_t*>(out)[i] =
        static_cast<const uint64_t*>(a)[i] + static_cast<const uint64_t*>(b)[i];
  }
}
void add_all(void* out, const void* const* operands, size_t n, size_t elements) {
  for (size_t i = 0; i < elements; ++i) {
    uint64_t total = 0;
    for (size_t k = 0; k < n; ++k) total += static_cast<const uint64_t*>(operands[k])[i];
    static_cast<uint64_t*>(out)[i] = total;
  }
}

using Vectors = std::vector<std::vector<uint64_t>>;

Vectors inputs_of(uint32_t nranks, uint64_t count) {
  Vectors all(nranks, std::vector<uint64_t>(count));
  for (uint32_t r = 0; r < nranks; ++r) {
    for (uint64_t i = 0; i < count; ++i) {
      const Affine value{uint32_t(2 * (i + r) + 3), uint32_t(i * 7 + r * 1001 + 1)};
      std::memcpy(&all[r][i], &value, sizeof(value));
    }
  }
  return all;
}

// What the buffers hold after a call, which began with `buffers`: the result where a rank gets one.
Vectors expected_of(const Goal& goal, uint32_t chunks, const Vectors& inputs, Vectors buffers,
                    bool ordered) {
  const schedule::ChunkMap map(buffers[0].size(), chunks, 64 / sizeof(uint64_t));
  for (uint32_t r = 0; r < goal.nranks(); ++r) {
    for (uint32_t c = 0; c < chunks; ++c) {
      if (!goal.gets(r, c)) continue;
      const uint64_t at = map.begin(c), size = map.size(c);
      bool first = true;
      for (uint32_t source = 0; source < goal.nranks(); ++source) {
        if (!goal.combines(source, r, c)) continue;
        const uint64_t* from = inputs[source].data() + at;
        if (first) {
          std::copy_n(from, size, buffers[r].data() + at);
        } else {
          (ordered ? compose2 : add2)(buffers[r].data() + at, buffers[r].data() + at, from, size);
        }
        first = false;
      }
    }
  }
  return buffers;
}

uint32_t chunks_of(const Algorithm& algorithm, uint32_t nranks) {
  return schedule::build(algorithm.emit, {.nranks = nranks}).chunks;
}

std::vector<std::byte*> addresses(Vectors& vectors) {
  std::vector<std::byte*> all;
  for (auto& vector : vectors) all.push_back(reinterpret_cast<std::byte*>(vector.data()));
  return all;
}

bool keeps_order(const Algorithm& algorithm, uint32_t nranks) {
  return algorithm.applies({.nranks = nranks, .count = 1, .element_size = 8, .ordered = true})
      .empty();
}

void check_algorithm(const Algorithm& algorithm, uint32_t nranks, uint64_t seed) {
  SCOPED_TRACE(std::string(algorithm.name) + " on " + std::to_string(nranks) + " ranks, seed " +
               std::to_string(seed));
  const bool ordered = keeps_order(algorithm, nranks);
  const Kernels kernels{ordered ? compose_all : add_all, ordered ? compose2 : add2, nullptr};
  std::unique_ptr<Simulation> simulation;
  ASSERT_TRUE(Simulation::make({.seed = seed, .nranks = nranks}, &simulation).ok());
  // Consecutive calls on the same rings, of sizes that divide into chunks well and badly.
  const uint64_t counts[] = {1, nranks - 1, nranks + 1, 8 * nranks, 37, 203};
  for (const uint64_t count : counts) {
    for (const bool in_place : {false, true}) {
      Vectors inputs = inputs_of(nranks, count);
      uint32_t root = is_rooted(algorithm.collective) ? uint32_t(seed) % nranks : 0;
      if (algorithm.collective == Collective::reduce && ordered) root = 0;  // as it may ask
      const Goal goal(algorithm.collective, nranks, root);
      const Vectors before = inputs;
      Vectors outputs(nranks, std::vector<uint64_t>(count, 0xdeadbeefdeadbeef));
      Vectors& to = in_place ? inputs : outputs;
      const Vectors expected = expected_of(goal, chunks_of(algorithm, nranks), before, to, ordered);
      const auto ends =
          simulation->run(algorithm, root, addresses(inputs), addresses(to), count, 8, kernels);
      for (uint32_t r = 0; r < nranks; ++r) {
        ASSERT_TRUE(ends[r].status.ok()) << ends[r].status.text();
        // Nothing is written but results.
        ASSERT_EQ(to[r], expected[r]) << "rank " << r << ", count " << count;
        if (!in_place) {
          ASSERT_EQ(inputs[r], before[r]) << "rank " << r << " changed its input";
        }
      }
    }
  }
}

TEST(Simulation, EveryAlgorithmIsRightOnEveryRankCountInAnyOrderOfMoves) {
  for (const Algorithm& algorithm : algorithms()) {
    for (uint32_t nranks = 1; nranks <= 17; ++nranks) {
      for (uint64_t seed = 1; seed <= (tutti::testing::sanitized ? 1 : 3); ++seed)
        check_algorithm(algorithm, nranks, seed);
    }
    for (const uint32_t nranks : {24u, 31u, 32u, 33u}) check_algorithm(algorithm, nranks, 7);
  }
}

TEST(Simulation, TheSameSeedGivesTheSameTrace) {
  const auto trace = [](uint64_t seed) {
    std::unique_ptr<Simulation> simulation;
    EXPECT_TRUE(Simulation::make({.seed = seed, .nranks = 5}, &simulation).ok());
    Vectors inputs = inputs_of(5, 100);
    simulation->run(*find_algorithm(Collective::allreduce, "ring"), 0, addresses(inputs),
                    addresses(inputs), 100, 8, {add_all, add2, nullptr});
    return simulation->trace();
  };
  EXPECT_EQ(trace(1), trace(1));
  EXPECT_NE(trace(1), trace(2));
}

TEST(Simulation, ARankThatDiesAtAnyMoveIsNamedToAllWhoNeedIt) {
  for (const Algorithm& algorithm : algorithms()) {
    for (uint64_t moves = 0; moves < 40; ++moves) {
      SCOPED_TRACE(std::string(algorithm.name) + ", dies after " + std::to_string(moves));
      std::unique_ptr<Simulation> simulation;
      ASSERT_TRUE(
          Simulation::make({.seed = moves + 1, .nranks = 4, .dies = 2, .dies_after_moves = moves},
                           &simulation)
              .ok());
      Vectors inputs = inputs_of(4, 64), outputs(4, std::vector<uint64_t>(64));
      const bool ordered = keeps_order(algorithm, 4);
      const Kernels kernels{ordered ? compose_all : add_all, ordered ? compose2 : add2, nullptr};
      const Vectors expected = expected_of(Goal(algorithm.collective, 4), chunks_of(algorithm, 4),
                                           inputs, outputs, ordered);
      const auto ends =
          simulation->run(algorithm, 0, addresses(inputs), addresses(outputs), 64, 8, kernels);
      for (uint32_t r = 0; r < 4; ++r) {
        if (ends[r].died) continue;
        // Either the call was over for this rank, and then right, or it names the dead one.
        if (ends[r].status.ok()) {
          EXPECT_EQ(outputs[r], expected[r]) << "rank " << r;
        } else {
          EXPECT_EQ(ends[r].status.code(), TUTTI_PEER_FAILED) << ends[r].status.text();
          EXPECT_EQ(ends[r].status.rank(), 2);
          EXPECT_LT(ends[r].ended_ns, 1'000'000'000u) << "virtual time";
        }
      }
    }
  }
}

TEST(Simulation, ARankThatNeverComesEndsTheCallAtItsDeadline) {
  std::unique_ptr<Simulation> simulation;
  ASSERT_TRUE(Simulation::make({.nranks = 3, .timeout_ns = 5'000'000'000u}, &simulation).ok());
  Vectors inputs = inputs_of(3, 10);
  const auto ends =
      simulation->run(*find_algorithm(Collective::allreduce, "all-to-all"), 0, addresses(inputs),
                      addresses(inputs), 10, 8, {compose_all, compose2, nullptr}, 1);
  for (const uint32_t r : {0u, 2u}) {
    EXPECT_EQ(ends[r].status.code(), TUTTI_TIMEOUT) << ends[r].status.text();
    EXPECT_GE(ends[r].ended_ns, 5'000'000'000u);
    EXPECT_LT(ends[r].ended_ns, 6'000'000'000u);
  }
}

TEST(Lowering, ALeftFoldOverBufferedOperandsIsOneReduce) {
  const Plan plan =
      lower(*find_algorithm(Collective::allreduce, "all-to-all"), {.rank = 2, .nranks = 5});
  uint32_t reduces = 0;
  for (const Record& record : plan.incoming) {
    if (record.verb != Verb::reduce) continue;
    ++reduces;
    EXPECT_EQ(record.operands, 5u);
  }
  EXPECT_EQ(reduces, 1u);
}

// Where nobody but the link may touch the vectors, there is nothing else to be done; and a message
// is cut alike at both ends.
TEST(Lowering, OutOfReachNothingButMessagesOfOneChunkIsLeft) {
  std::string movers;
  for (const Algorithm& algorithm : algorithms()) {
    for (uint32_t nranks = 2; nranks <= 9; ++nranks) {
      for (uint32_t root = 0; root < (is_rooted(algorithm.collective) ? nranks : 1); ++root) {
        const bool moves = schedule::copy_only(algorithm, {.nranks = nranks, .root = root});
        if (nranks == 9 && root == 0 && moves) {
          movers +=
              std::string(collective_name(algorithm.collective)) + " " + algorithm.name + "\n";
        }
        for (uint32_t rank = 0; moves && rank < nranks; ++rank) {
          const Plan plan = lower(algorithm, {.rank = rank, .nranks = nranks, .root = root},
                                  Chunks::out_of_reach);
          EXPECT_TRUE(plan.rows.empty() && plan.work.empty()) << algorithm.name;
          for (const auto* lane : {&plan.outgoing, &plan.incoming}) {
            for (const Record& record : *lane) {
              EXPECT_TRUE(record.verb == Verb::send || record.verb == Verb::recv) << algorithm.name;
              EXPECT_EQ(record.chunks, 1u) << algorithm.name;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(movers,
            "broadcast binomial\nbroadcast flat\nbroadcast scatter-allgather\n"
            "allgather direct\nallgather bruck\nallgather ring\n"
            "gather flat\nscatter flat\nalltoall direct\n");
}

// Whatever the prover says is one fold is one reduce on whoever folds.
TEST(Lowering, WhatIsFoldedAtOnceIsOneReduceInEitherBracketing) {
  for (const Algorithm& algorithm : algorithms()) {
    for (uint32_t nranks = 4; nranks <= 33; ++nranks) {
      if (!reduces(algorithm.collective)) continue;
      if (!schedule::levels_of(algorithm, {.nranks = nranks}).exact) continue;
      for (const auto bracketing : {schedule::Bracketing::left, schedule::Bracketing::canonical}) {
        uint32_t folds = 0;
        for (uint32_t rank = 0; rank < nranks; ++rank) {
          const Plan plan =
              lower(algorithm, {.rank = rank, .nranks = nranks, .bracketing = bracketing});
          uint32_t here = 0;
          for (const Record& record : plan.incoming) here += record.verb == Verb::reduce;
          EXPECT_LE(here, 1u) << algorithm.name << " on " << nranks;
          folds += here;
        }
        EXPECT_GE(folds, 1u) << algorithm.name << " on " << nranks;
      }
    }
  }
}

TEST(Lowering, ScratchHoldsOnlyWhatIsUsed) {
  const Plan plan =
      lower(*find_algorithm(Collective::allreduce, "two-shot"), {.rank = 3, .nranks = 8});
  Binding binding(plan);
  binding.bind(8 * 1024, 4);
  EXPECT_LE(binding.scratch_bytes(), 8u * 1024 * 4);  // one shard a peer, not one vector
}

}  // namespace
}  // namespace tutti::plan
