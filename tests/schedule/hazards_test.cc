// Which steps wait for which.
#include "lib/schedule/hazards.h"

#include <gtest/gtest.h>

#include "algorithms/registry.h"
#include "lib/schedule/emit.h"
#include "tests/schedule/support.h"

namespace tutti::schedule {
namespace {

std::vector<uint32_t> waits_of(const Program& program) { return hazards(program, Layout(program)); }

template <class Write>
std::vector<uint32_t> waits(uint32_t chunks, uint32_t rows, const Write& write) {
  Builder builder(0, 4);
  Emitter emit(builder, chunks, rows);
  write(emit);
  return waits_of(builder.take());
}

using Waits = std::vector<uint32_t>;

TEST(Hazards, StepsOnDifferentChunksDoNotWait) {
  EXPECT_EQ(waits(4, 0,
                  [](Emitter& e) {
                    e.send(1, output(0, 2));
                    e.recv(2, output(2, 4));
                    e.send(1, output(1, 2));
                  }),
            (Waits{0, 0, 0}));
}

TEST(Hazards, ASendWaitsForWhatItForwards) {
  EXPECT_EQ(waits(4, 0,
                  [](Emitter& e) {
                    e.recv(1, output(0, 1));
                    e.recv(1, output(1, 2));
                    e.send(2, output(0, 1));
                    e.send(2, output(0, 2));
                  }),
            (Waits{0, 0, 1, 2}));
}

TEST(Hazards, OverwritingWaitsForTheSendThatStillReads) {
  EXPECT_EQ(waits(2, 0,
                  [](Emitter& e) {
                    e.send(1, output(0, 1));
                    e.send(1, output(1, 2));
                    e.recv_reduce(2, output(0, 1), Side::left);
                    e.recv(2, output(1, 2));
                  }),
            (Waits{0, 0, 1, 2}));
}

TEST(Hazards, InputAndOutputAreOneMemory) {
  EXPECT_EQ(waits(1, 0,
                  [](Emitter& e) {
                    e.send(1, input(0, 1));
                    e.recv(2, output(0, 1));
                  }),
            (Waits{0, 1}));
}

TEST(Hazards, RowsOfScratchAreApart) {
  EXPECT_EQ(waits(2, 3,
                  [](Emitter& e) {
                    e.recv(1, e.scratch(0, 1, 2));
                    e.recv(2, e.scratch(2, 1, 2));
                    e.send(3, e.scratch(0, 1, 2));
                    e.send(3, e.scratch(2, 1, 2));
                  }),
            (Waits{0, 0, 1, 2}));
}

// Against the definition, pair by pair.
TEST(Hazards, AreThoseOfTheDefinitionForEveryAlgorithm) {
  const auto conflict = [](const Range& a, const Range& b) {
    const bool a_vector = a.role != Role::scratch, b_vector = b.role != Role::scratch;
    return a_vector == b_vector && a.begin < b.end && b.begin < a.end;
  };
  for (const Algorithm& algorithm : algorithms()) {
    for (const uint32_t nranks : {2u, 5u, 8u}) {
      for (const Program& program : programs_of(algorithm, nranks)) {
        Waits expected;
        for (size_t i = 0; i < program.steps.size(); ++i) {
          const Step& later = program.steps[i];
          uint32_t done = 0, wait = 0;
          for (size_t j = 0; j < i; ++j) {
            const Step& earlier = program.steps[j];
            if (lane_of(earlier.kind) == lane_of(later.kind)) continue;
            ++done;
            const bool conflicts =
                (has_to(earlier.kind) && has_to(later.kind) && conflict(earlier.to, later.to)) ||
                (has_to(earlier.kind) && has_from(later.kind) &&
                 conflict(earlier.to, later.from)) ||
                (has_from(earlier.kind) && has_to(later.kind) && conflict(earlier.from, later.to));
            if (conflicts) wait = done;
          }
          expected.push_back(wait);
        }
        EXPECT_EQ(waits_of(program), expected) << algorithm.name << " on " << nranks;
      }
    }
  }
}

TEST(Layout, GivesMemoryOnlyToTheScratchInUse) {
  const uint32_t p = 16;
  const Program program = programs_of(allreduce("two-shot"), p)[3];
  EXPECT_EQ(program.scratch_rows, p - 1);
  EXPECT_EQ(Layout(program).cells(), p + (p - 1)) << "one chunk a row";
}

}  // namespace
}  // namespace tutti::schedule
