// Symmetric memory that is freed while a call which does not use it here is in flight: the others'
// parts of it may be that call's, and what the program has at their place next is not.
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/support/processes.h"
#include "tests/support/require.h"
#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::counters;
using tutti::testing::Meeting;
using tutti::testing::Report;
using tutti::testing::report_of;

constexpr size_t count = 4 << 20, bytes = count * sizeof(uint32_t);
constexpr uint32_t untouched = 0xabcdef01;

uint32_t value(int rank, size_t i) { return uint32_t(i) * 31u + uint32_t(rank) * 1'000'003u; }

// Rank 0 passes memory of the first region, rank 1 of the second.
Report body(int rank, tutti_comm comm, const Meeting& begun) {
  Report report;
  void* regions[2] = {};
  for (void*& region : regions) REQUIRE(tutti_mem_alloc(comm, bytes, &region) == TUTTI_OK);
  auto* const vector = static_cast<uint32_t*>(regions[rank]);
  for (size_t i = 0; i < count; ++i) vector[i] = value(rank, i);
  if (rank == 1) begun.wait_for(1);  // whoever comes last looks long, and would do all of its share
  tutti_request request = nullptr;
  REQUIRE(tutti_iallreduce(TUTTI_IN_PLACE, vector, count, TUTTI_UINT32, TUTTI_SUM, comm, nullptr,
                           &request) == TUTTI_OK);
  begun.arrive();
  begun.wait_for(2);
  std::vector<uint32_t*> mine;
  if (rank == 0) {
    int ended = 0;
    for (int slice = 0; slice < 3; ++slice) {
      REQUIRE(tutti_test(&request, &ended) == TUTTI_OK && ended == 0);
    }
    REQUIRE(tutti_mem_free(comm, regions[1]) == TUTTI_OK);
    // Where the freed memory was mapped, of this rank and of the other one.
    for (int i = 0; i < 4; ++i) {
      void* const made =
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      REQUIRE(made != MAP_FAILED);
      mine.push_back(static_cast<uint32_t*>(made));
      std::fill_n(mine.back(), count, untouched);
    }
  }
  REQUIRE(tutti_wait(&request) == TUTTI_OK);
  REQUIRE(counters(comm).direct_calls == 1);
  for (size_t i = 0; i < count; ++i) REQUIRE(vector[i] == value(0, i) + value(1, i));
  for (const uint32_t* const one : mine) {
    REQUIRE(std::all_of(one, one + count, [](uint32_t word) { return word == untouched; }));
  }
  return report_of(TUTTI_OK, comm);
}

TEST(FreedInFlight, OtherRanksMemoryStaysUntilTheCallHasEnded) {
  const Meeting begun;
  const auto children = tutti::testing::start(
      2, "shm", [&](int rank, tutti_comm comm) { return body(rank, comm, begun); });
  for (const auto& child : children) {
    Report report;
    ASSERT_TRUE(tutti::testing::finish(child, &report));
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
  }
}

}  // namespace
