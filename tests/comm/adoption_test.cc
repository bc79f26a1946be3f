// TUTTI_ADOPT=auto (set by the build): vectors from malloc() that come back are shared in place,
// all others are left alone, and whatever the program does with its memory the results are right.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/support/mappings.h"
#include "tests/support/processes.h"
#include "tests/support/require.h"
#include "tests/support/sanitized.h"
#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::counters;
using tutti::testing::Report;
using tutti::testing::report_of;
using tutti::testing::sanitized;

// A sanitizer has a malloc() of its own.
constexpr bool adopts = !sanitized;
constexpr int nranks = 2;

// Of one rank: calls whose results it checks.
class Calls {
 public:
  Calls(int rank, tutti_comm comm) : rank_(rank), comm_(comm) {}

  // Whether the result is right; the input, where it is another vector, must stay as it was.
  bool reduce(int32_t* in, int32_t* out, size_t count) {
    ++round_;
    for (size_t i = 0; i < count; ++i) in[i] = own(i);
    if (tutti_allreduce(in == out ? TUTTI_IN_PLACE : in, out, count, TUTTI_INT32, TUTTI_SUM,
                        comm_) != TUTTI_OK)
      return false;
    for (size_t i = 0; i < count; ++i) {
      if (out[i] != int32_t(i) * (nranks * (nranks + 1) / 2) + nranks * round_) return false;
      if (in != out && in[i] != own(i)) return false;
    }
    return true;
  }
  // The same, and whether the call went direct.
  bool reduce(int32_t* in, int32_t* out, size_t count, bool* direct) {
    const uint64_t before = counters(comm_).direct_calls;
    const bool right = reduce(in, out, count);
    *direct = counters(comm_).direct_calls > before;
    return right;
  }
  // The same of one vector, `calls` times in place; the last one direct, where vectors are adopted.
  bool reduce_until_direct(int32_t* vector, size_t count, int calls) {
    bool direct = false;
    for (int i = 0; i < calls; ++i) {
      if (!reduce(vector, vector, count, &direct)) return false;
    }
    return direct || !adopts;
  }

 private:
  int32_t own(size_t i) const { return int32_t(i) * (rank_ + 1) + round_; }

  int rank_;
  tutti_comm comm_;
  int round_ = 0;
};

int32_t* allocate(size_t count) { return static_cast<int32_t*>(std::malloc(count * 4)); }

void run(const std::function<Report(int, tutti_comm)>& body) {
  const auto children = tutti::testing::start(nranks, "shm", body);
  for (const auto& child : children) {
    Report report;
    ASSERT_TRUE(tutti::testing::finish(child, &report));
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
  }
}

TEST(Adoption, SharesVectorsThatComeBack) {
  for (const bool in_place : {false, true}) {
    run([=](int rank, tutti_comm comm) {
      Report report;
      Calls calls(rank, comm);
      constexpr size_t count = 300'000;
      int32_t* const in = allocate(count);
      int32_t* const out = in_place ? in : allocate(count);
      bool direct = false;
      REQUIRE(calls.reduce(in, out, count, &direct));
      REQUIRE(!direct);
      for (int i = 0; i < 4; ++i) REQUIRE(calls.reduce(in, out, count));
      int directs = 0;
      for (int i = 0; i < 100; ++i) {
        REQUIRE(calls.reduce(in, out, count, &direct));
        directs += direct ? 1 : 0;
      }
      REQUIRE(!adopts || directs > 50);
      // Shorter parts of them, too.
      for (int i = 0; i < 10; ++i) REQUIRE(calls.reduce(in + 1000, out + 1000, 100'000));
      std::free(in);
      if (!in_place) std::free(out);
      return report_of(TUTTI_OK, comm);
    });
  }
}

TEST(Adoption, SharesInputsOfOtherCollectivesThatComeBack) {
  run([](int rank, tutti_comm comm) {
    Report report;
    constexpr size_t count = 50'000;
    int32_t* const out = allocate(nranks * count);
    std::array<int32_t*, 3> inputs{};
    for (int32_t*& each : inputs) each = allocate(nranks * count);
    for (size_t which = 0; which < inputs.size(); ++which) {
      int32_t* const in = inputs[which];
      int directs = 0;
      for (int round = 0; round < 100; ++round) {
        const auto value = [&](int r, size_t i) { return int32_t(i) * (r + 1) + round; };
        for (size_t i = 0; i < nranks * count; ++i) in[i] = value(rank, i);
        const uint64_t before = counters(comm).direct_calls;
        const tutti_status ended =
            which == 0   ? tutti_allgather(in, out, count, TUTTI_INT32, comm)
            : which == 1 ? tutti_alltoall(in, out, count, TUTTI_INT32, comm)
                         : tutti_reduce_scatter_block(in, out, count, TUTTI_INT32, TUTTI_SUM, comm);
        REQUIRE(ended == TUTTI_OK);
        directs += counters(comm).direct_calls > before ? 1 : 0;
        for (size_t i = 0; i < (which == 2 ? count : nranks * count); ++i) {
          const int from = int(i / count);
          const size_t at = i % count, mine = size_t(rank) * count + at;
          const int32_t wanted = which == 0   ? value(from, at)
                                 : which == 1 ? value(from, mine)
                                              : value(0, mine) + value(1, mine);
          REQUIRE(out[i] == wanted);
        }
      }
      REQUIRE(!adopts || directs > 40);
    }
    // Not before: after a free() malloc() maps only longer memory by itself.
    for (int32_t* const each : inputs) std::free(each);
    std::free(out);
    return report_of(TUTTI_OK, comm);
  });
}

// Pages of an allocator's heap are not for others, nor is memory whose end nobody sees.
TEST(Adoption, LeavesOtherMemoryAlone) {
  run([](int rank, tutti_comm comm) {
    Report report;
    Calls calls(rank, comm);
    constexpr size_t count = 25'000;
    int32_t* const in_heap = allocate(count);  // below the limit from which malloc() maps
    void* const mapped =
        mmap(nullptr, count * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static int32_t global[count];
    for (int32_t* const vector : {in_heap, static_cast<int32_t*>(mapped), global}) {
      bool direct = false;
      for (int i = 0; i < 40; ++i) {
        REQUIRE(calls.reduce(vector, vector, count, &direct));
        REQUIRE(!direct);
      }
    }
    return report_of(TUTTI_OK, comm);
  });
}

// One rank's vector cannot be shared: then none is.
TEST(Adoption, NeedsTheVectorsOfAllRanks) {
  run([](int rank, tutti_comm comm) {
    Report report;
    Calls calls(rank, comm);
    constexpr size_t count = 300'000;
    static int32_t global[count];
    int32_t* const vector = rank == 0 ? global : allocate(count);
    bool direct = false;
    for (int i = 0; i < 70; ++i) {
      REQUIRE(calls.reduce(vector, vector, count, &direct));
      REQUIRE(!direct);
    }
    if (rank == 1) std::free(vector);
    return report_of(TUTTI_OK, comm);
  });
}

TEST(Adoption, SurvivesReallocAndFree) {
  run([](int rank, tutti_comm comm) {
    Report report;
    Calls calls(rank, comm);
    size_t count = 300'000;
    int32_t* vector = allocate(count);
    for (int round = 0; round < 6; ++round) {
      for (int i = 0; i < 20; ++i) REQUIRE(calls.reduce(vector, vector, count));
      const std::vector<int32_t> before(vector, vector + count);
      const size_t next = round % 3 == 2 ? count / 2 : count * 3 / 2;
      // NOLINTNEXTLINE(bugprone-suspicious-realloc-usage): a failure ends the test
      vector = static_cast<int32_t*>(std::realloc(vector, next * 4));
      REQUIRE(vector != nullptr);
      REQUIRE(std::memcmp(vector, before.data(), std::min(count, next) * 4) == 0);
      count = next;
    }
    std::free(vector);
    return report_of(TUTTI_OK, comm);
  });
}

// A sanitizer's malloc() maps and unmaps what has been freed when it likes: of its mappings only
// those of files count, as all of tutti's are.
size_t mappings_and_descriptors() {
  size_t all = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    all += !sanitized || line.find('/') != std::string::npos ? 1 : 0;
  for (int fd = 0; fd < 1000; ++fd) all += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return all;
}

// Vectors that are freed are given back, and a program that frees them again and again keeps them.
TEST(Adoption, DoesNotGrowWhereVectorsAreFreed) {
  run([](int rank, tutti_comm comm) {
    Report report;
    // So that each is mapped by itself, as glibc's limit would else grow with what is freed.
    REQUIRE(mallopt(M_MMAP_THRESHOLD, 128 << 10) == 1 || !adopts);
    Calls calls(rank, comm);
    constexpr size_t count = 100'000;
    size_t middle = 0;
    // The trial's second look, after some 1,000 calls, is in the first half.
    for (int round = 0; round < 800; ++round) {
      int32_t* const vector = allocate(count);
      for (int i = 0; i < 3; ++i) REQUIRE(calls.reduce(vector, vector, count));
      std::free(vector);
      if (round == 400) middle = mappings_and_descriptors();
    }
    REQUIRE(mappings_and_descriptors() < middle + 4);
    // It has been tried, and then no more.
    REQUIRE(!adopts || counters(comm).direct_calls < 20);
    return report_of(TUTTI_OK, comm);
  });
}

size_t adopted_mappings() {
  size_t all = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    all += line.find("tutti-adopted") != std::string::npos ? 1 : 0;
  return all;
}

TEST(Adoption, KeepsNoMemoryOfVectorsThatAreFreed) {
  run([](int rank, tutti_comm comm) {
    Report report;
    Calls calls(rank, comm);
    int32_t* const first = allocate(500'000);
    for (int i = 0; i < 10; ++i) REQUIRE(calls.reduce(first, first, 500'000));
    const size_t of_one = adopted_mappings();
    REQUIRE(!adopts || of_one > 0);
    int32_t* const second = allocate(300'000);
    for (int i = 0; i < 10; ++i) REQUIRE(calls.reduce(second, second, 300'000));
    REQUIRE(adopted_mappings() == 2 * of_one);
    if (rank == 0) std::free(first);  // that of one rank is enough
    for (int i = 0; i < 70; ++i) REQUIRE(calls.reduce(second, second, 300'000));
    // Of the other rank's nothing is left here but, where it lives on, its own pages.
    REQUIRE(adopted_mappings() == of_one + (rank == 0 || !adopts ? 0 : 1));
    if (rank == 1) std::free(first);
    std::free(second);
    return report_of(TUTTI_OK, comm);
  });
}

// Where one that is in flight fails nobody could give its vectors back in time.
TEST(Adoption, IsNotUsedByNonblockingCalls) {
  run([](int rank, tutti_comm comm) {
    Report report;
    Calls calls(rank, comm);
    constexpr size_t count = 300'000;
    int32_t* const vector = allocate(count);
    REQUIRE(calls.reduce_until_direct(vector, count, 70));
    for (size_t i = 0; i < count; ++i) vector[i] = int32_t(i);
    const uint64_t before = counters(comm).direct_calls;
    tutti_request request = nullptr;
    REQUIRE(tutti_iallreduce(TUTTI_IN_PLACE, vector, count, TUTTI_INT32, TUTTI_SUM, comm, nullptr,
                             &request) == TUTTI_OK);
    REQUIRE(tutti_wait(&request) == TUTTI_OK);
    for (size_t i = 0; i < count; ++i) REQUIRE(vector[i] == nranks * int32_t(i));
    REQUIRE(counters(comm).direct_calls == before);
    std::free(vector);
    return report_of(TUTTI_OK, comm);
  });
}

TEST(Adoption, LeavesChildrenTheirOwnCopy) {
  run([](int rank, tutti_comm comm) {
    Report report;
    Calls calls(rank, comm);
    constexpr size_t count = 300'000;
    int32_t* const vector = allocate(count);
    for (int i = 0; i < 10; ++i) REQUIRE(calls.reduce(vector, vector, count));
    const std::vector<int32_t> before(vector, vector + count);
    const pid_t child = fork();
    if (child == 0) {
      const bool same = std::memcmp(vector, before.data(), count * 4) == 0;
      std::memset(vector, 1, count * 4);
      std::free(vector);
      _exit(same ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    REQUIRE(status == 0);
    REQUIRE(std::memcmp(vector, before.data(), count * 4) == 0);
    for (int i = 0; i < 10; ++i) REQUIRE(calls.reduce(vector, vector, count));
    std::free(vector);
    return report_of(TUTTI_OK, comm);
  });
}

// Vectors of all ages and lengths, freed, grown, in place or not, with calls in flight and other
// collectives between: one rank's choices are not the other's.
TEST(Adoption, MixturesGiveTheRightResults) {
  run([](int rank, tutti_comm comm) {
    Report report;
    Calls calls(rank, comm);
    std::mt19937 alike(7), own(unsigned(rank) + 1);
    std::vector<std::vector<int32_t*>> pools(3);
    const size_t counts[] = {20'000, 70'000, 400'000};
    for (size_t kind = 0; kind < 3; ++kind) {
      for (int i = 0; i < 4; ++i) pools[kind].push_back(allocate(counts[kind]));
    }
    int32_t mine[1000], sums[1000];
    for (int round = 0; round < (sanitized ? 300 : 3000); ++round) {
      const size_t kind = alike() % 3, count = counts[kind];
      // Mostly the first two, so that they come back.
      const auto pick = [&] { return own() % 8 == 0 ? own() % 4 : own() % 2; };
      const size_t in = pick(), out = pick();
      const bool flies = alike() % 5 == 0;
      tutti_request request = nullptr;
      if (flies) {
        for (int i = 0; i < 1000; ++i) mine[i] = i + rank;
        REQUIRE(tutti_iallreduce(mine, sums, 1000, TUTTI_INT32, TUTTI_SUM, comm, nullptr,
                                 &request) == TUTTI_OK);
      }
      REQUIRE(calls.reduce(pools[kind][in], pools[kind][out], count));
      if (flies) {
        REQUIRE(tutti_wait(&request) == TUTTI_OK);
        for (int i = 0; i < 1000; ++i) REQUIRE(sums[i] == 2 * i + 1);
      }
      if (own() % 50 == 0) {
        int32_t*& one = pools[kind][own() % 4];
        std::free(one);
        one = allocate(count);
      }
    }
    for (const auto& pool : pools) {
      for (int32_t* const one : pool) std::free(one);
    }
    return report_of(TUTTI_OK, comm);
  });
}

// With two communicators the first that asks has it; the other goes as before.
TEST(Adoption, OfAVectorByTwoCommunicators) {
  run([](int rank, tutti_comm comm) {
    Report report;
    tutti_comm other = nullptr;
    REQUIRE(tutti_comm_dup(comm, &other) == TUTTI_OK);
    Calls calls(rank, comm), others(rank, other);
    constexpr size_t count = 300'000;
    int32_t* const vector = allocate(count);
    for (int i = 0; i < 80; ++i) {
      REQUIRE(calls.reduce(vector, vector, count));
      REQUIRE(others.reduce(vector, vector, count));
    }
    REQUIRE(tutti_comm_free(other) == TUTTI_OK);
    for (int i = 0; i < 10; ++i) REQUIRE(calls.reduce(vector, vector, count));
    std::free(vector);
    return report_of(TUTTI_OK, comm);
  });
}

// Whether it is in a mapping that other processes can have.
bool is_shared(const void* address) { return tutti::testing::mode_at(address) == "rw-s"; }

// A rank that is behind may write to what a failed call has of this one, not to what it has then.
TEST(Adoption, GivesBackTheVectorsOfACallThatFails) {
  run([](int rank, tutti_comm comm) {
    Report report;
    Calls calls(rank, comm);
    constexpr size_t count = 300'000;
    int32_t* const vector = allocate(count);
    int32_t* const other = allocate(count);
    for (int i = 0; i < 130; ++i) REQUIRE(calls.reduce(i % 2 == 0 ? vector : other, other, count));
    const char* const middle = reinterpret_cast<char*>(vector) + count * 2;
    REQUIRE(!adopts || is_shared(middle));
    if (rank == 1) return report_of(TUTTI_OK, comm);
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.timeout_ms = 300;
    vector[count / 2] = 77;
    const tutti_status failed =
        tutti_allreduce_with(vector, other, count, TUTTI_INT32, TUTTI_SUM, comm, &config);
    REQUIRE(failed != TUTTI_OK);
    REQUIRE(!is_shared(middle));
    REQUIRE(!is_shared(reinterpret_cast<char*>(other) + count * 2));
    REQUIRE(vector[count / 2] == 77);
    return report_of(TUTTI_OK, comm);
  });
}

// Ranks must go on knowing the same shared vectors, also where one alone has tried to call.
TEST(Adoption, StaysAsItWasWhereACallIsRefused) {
  run([](int rank, tutti_comm comm) {
    Report report;
    Calls calls(rank, comm);
    constexpr size_t count = 300'000, longer = 400'000;
    int32_t* const vector = allocate(count);
    int32_t* const next = allocate(longer);
    REQUIRE(calls.reduce_until_direct(vector, count, 70));
    if (rank == 0) {
      tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
      config.algorithm = "rign";
      REQUIRE(tutti_allreduce_with(TUTTI_IN_PLACE, vector, count, TUTTI_INT32, TUTTI_SUM, comm,
                                   &config) == TUTTI_INVALID);
    }
    REQUIRE(!adopts || is_shared(reinterpret_cast<char*>(vector) + count * 2));
    REQUIRE(calls.reduce_until_direct(next, longer, 70));
    std::free(vector);
    REQUIRE(calls.reduce_until_direct(next, longer, 130));
    std::free(next);
    return report_of(TUTTI_OK, comm);
  });
}

// What an earlier communicator has left is adopted again.
TEST(Adoption, AdoptsAgainWhatWasLeft) {
  run([](int rank, tutti_comm comm) {
    Report report;
    constexpr size_t count = 300'000;
    int32_t* const vector = allocate(count);
    for (int round = 0; round < 3; ++round) {
      tutti_comm other = nullptr;
      REQUIRE(tutti_comm_dup(comm, &other) == TUTTI_OK);
      Calls calls(rank, other);
      REQUIRE(calls.reduce_until_direct(vector, count, 70));
      REQUIRE(tutti_comm_free(other) == TUTTI_OK);
      REQUIRE(!adopts || is_shared(reinterpret_cast<char*>(vector) + count * 2));
    }
    std::free(vector);
    return report_of(TUTTI_OK, comm);
  });
}

TEST(Adoption, MustBeAskedForByAllRanks) {
  tutti_unique_id id{};
  ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK);
  const pid_t child = fork();
  setenv("TUTTI_ADOPT", child == 0 ? "never" : "auto", 1);
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  config.setup_ms = 10'000;
  tutti_comm comm = nullptr;
  const tutti_status status = tutti_comm_create_from_id(&id, child == 0 ? 1 : 0, 2, &config, &comm);
  const std::string text = tutti_last_error();
  const bool told =
      status == TUTTI_MISMATCH && text.find("TUTTI_ADOPT must be the same") != std::string::npos;
  if (child == 0) _exit(told ? 0 : 1);
  EXPECT_TRUE(told) << status << ": " << text;
  int ended = -1;
  waitpid(child, &ended, 0);
  EXPECT_EQ(ended, 0);
}

}  // namespace
