// Memory that the program has already, shared in place: the same content at the same address, the
// same bits as other memory whatever lies at its edges, private to parent and child, given back
// whole, and left alone where the program has unmapped it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/descriptors.h"
#include "tests/support/mappings.h"
#include "tests/support/processes.h"
#include "tests/support/require.h"
#include "tests/support/sanitized.h"
#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::mode_at;
using tutti::testing::on_comm;
using tutti::testing::Report;
using tutti::testing::report_of;
using tutti::testing::sanitized;
using tutti::testing::sentence;

constexpr size_t page = 4096;

uint64_t direct_calls(tutti_comm comm) { return tutti::testing::counters(comm).direct_calls; }

unsigned char* map_pages(size_t bytes, int flags = 0) {
  void* const made =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  EXPECT_NE(made, MAP_FAILED);
  return static_cast<unsigned char*>(made);
}

void fill(void* at, size_t bytes, int seed) {
  std::mt19937 random(unsigned(seed) + 1);
  for (size_t i = 0; i < bytes; ++i) static_cast<unsigned char*>(at)[i] = uint8_t(random());
}

// Ordinary memory of one rank, at an offset into a page, with a guard on both sides.
class Place {
 public:
  Place(size_t bytes, size_t offset)
      : bytes_(bytes), whole_(map_pages(2 * page + bytes + 2 * page)), at_(whole_ + page + offset) {
    std::memset(whole_, guard, 4 * page + bytes);
  }
  ~Place() {
    for (const unsigned char* p = whole_; p < at_; ++p) EXPECT_EQ(*p, guard);
    for (const unsigned char* p = at_ + bytes_; p < whole_ + 4 * page + bytes_; ++p)
      EXPECT_EQ(*p, guard);
    munmap(whole_, 4 * page + bytes_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  unsigned char* at() const { return at_; }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr unsigned char guard = 0xa7;
  size_t bytes_;
  unsigned char* whole_;
  unsigned char* at_;
};

class Adopted : public ::testing::TestWithParam<const char*> {
 protected:
  bool threads() const { return std::string(GetParam()) == "inproc"; }
  bool processes() const { return std::string(GetParam()) == "shm"; }
};

TEST_P(Adopted, KeepsContentAndAddressAndGetsThemBack) {
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    constexpr size_t bytes = 300'000;
    const Place place(bytes, rank == 0 ? 16 : 1000);
    std::vector<unsigned char> before(bytes);
    fill(before.data(), bytes, rank);
    std::memcpy(place.at(), before.data(), bytes);
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(tutti_mem_adopt(comm, place.at(), bytes), TUTTI_OK) << sentence(comm);
      EXPECT_EQ(mode_at(place.at() + page), processes() ? "rw-s" : "rw-p");
      EXPECT_EQ(mode_at(place.at()), "rw-p");  // the edge
      ASSERT_EQ(std::memcmp(place.at(), before.data(), bytes), 0);
      place.at()[round * 99'999] = before[size_t(round) * 99'999] = 77;
      ASSERT_EQ(tutti_mem_release(comm, place.at()), TUTTI_OK) << sentence(comm);
      EXPECT_EQ(mode_at(place.at() + page), "rw-p");
      ASSERT_EQ(std::memcmp(place.at(), before.data(), bytes), 0);
      EXPECT_EQ(tutti_mem_release(comm, place.at()), TUTTI_INVALID);
    }
  });
}

TEST_P(Adopted, IsGivenBackAtTheEndOfTheCommunicator) {
  std::vector<unsigned char*> all(2);
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    unsigned char* const memory = all[size_t(rank)] = map_pages(50 * page);
    fill(memory, 50 * page, rank);
    ASSERT_EQ(tutti_mem_adopt(comm, memory, 50 * page), TUTTI_OK) << sentence(comm);
  });
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<unsigned char> expected(50 * page);
    fill(expected.data(), expected.size(), rank);
    EXPECT_EQ(mode_at(all[size_t(rank)]), "rw-p");
    EXPECT_EQ(std::memcmp(all[size_t(rank)], expected.data(), expected.size()), 0);
    munmap(all[size_t(rank)], 50 * page);
  }
}

struct Case {
  tutti_dtype dtype;
  tutti_op op;
};

// Every rank's edges are of other lengths, and so is the place of its vectors within its memory.
TEST_P(Adopted, GivesTheBitsOfOtherMemory) {
  const Case cases[] = {{TUTTI_FLOAT32, TUTTI_SUM},
                        {TUTTI_FLOAT16, TUTTI_AVG},
                        {TUTTI_FLOAT64, TUTTI_PROD},
                        {TUTTI_COMPLEX128, TUTTI_SUM},
                        {TUTTI_INT8, TUTTI_MAX}};
  // The first ones may have nothing but edges.
  const size_t sizes[] = {4800, 9600, 16'384, 65'536, 70'000, 1'000'000};
  for (const int nranks : {2, 3}) {
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      for (const bool edges : {false, true}) {
        const size_t most = 1'000'000 + 4 * page;
        const size_t offset = !edges ? 0 : rank == 0 ? 16 : rank == 1 ? page - 64 : 1024;
        const Place in_place(edges ? most : 250 * page, offset);
        const Place out_place(edges ? most : 250 * page, edges ? offset / 32 * 16 : 0);
        ASSERT_EQ(tutti_mem_adopt(comm, in_place.at(), in_place.bytes()), TUTTI_OK)
            << sentence(comm);
        ASSERT_EQ(tutti_mem_adopt(comm, out_place.at(), out_place.bytes()), TUTTI_OK)
            << sentence(comm);
        std::vector<unsigned char> in(most), staged(most);
        fill(in.data(), in.size(), rank);
        for (const size_t bytes : sizes) {
          for (const Case& c : cases) {
            const size_t element = tutti_dtype_size(c.dtype), count = bytes / element;
            tutti_call_config schedule = TUTTI_CALL_CONFIG_INIT, chosen = TUTTI_CALL_CONFIG_INIT;
            schedule.algorithm = "two-shot";
            schedule.flags = TUTTI_CALL_UNFUSED;
            if (!processes() && !threads()) chosen.algorithm = "two-shot";
            ASSERT_EQ(tutti_allreduce_with(in.data(), staged.data(), count, c.dtype, c.op, comm,
                                           &schedule),
                      TUTTI_OK);
            for (const bool in_place_call : {false, true}) {
              // Somewhere within, up to the very end.
              const size_t room = out_place.bytes() - count * element;
              const size_t shift = std::min(room, edges ? size_t(rank) * 1040 : 0) / 16 * 16;
              unsigned char* const out = out_place.at() + shift;
              unsigned char* const from = in_place_call ? out : in_place.at() + shift;
              std::memset(out, 0xcb, count * element);
              std::memcpy(from, in.data(), count * element);
              const uint64_t before = direct_calls(comm);
              ASSERT_EQ(tutti_allreduce_with(in_place_call ? TUTTI_IN_PLACE : from, out, count,
                                             c.dtype, c.op, comm, &chosen),
                        TUTTI_OK)
                  << sentence(comm);
              ASSERT_EQ(std::memcmp(out, staged.data(), count * element), 0)
                  << bytes << " bytes, " << tutti_dtype_name(c.dtype) << ", in place "
                  << in_place_call << ", edges " << edges;
              if (!in_place_call) {
                ASSERT_EQ(std::memcmp(from, in.data(), count * element), 0);
              }
              if (processes() && bytes > 3 * page) {
                ASSERT_EQ(direct_calls(comm), before + 1) << bytes;
              }
            }
          }
        }
        ASSERT_EQ(tutti_mem_release(comm, in_place.at()), TUTTI_OK);
        ASSERT_EQ(tutti_mem_release(comm, out_place.at()), TUTTI_OK);
      }
    });
  }
}

// The same calls with all buffers in adopted memory and on the heap, one after the other.
TEST_P(Adopted, GoesThroughEveryCollective) {
  on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
    constexpr size_t most = 120'000;  // elements
    // Every rank's edges are of other lengths.
    const Place from(most * sizeof(float), 48 + 1040 * size_t(rank));
    const Place to(most * sizeof(float), 80 + 2064 * size_t(rank));
    ASSERT_EQ(tutti_mem_adopt(comm, from.at(), from.bytes()), TUTTI_OK) << sentence(comm);
    ASSERT_EQ(tutti_mem_adopt(comm, to.at(), to.bytes()), TUTTI_OK) << sentence(comm);
    std::vector<float> in(most), out(most);
    auto* const adopted_in = reinterpret_cast<float*>(from.at());
    auto* const adopted_out = reinterpret_cast<float*>(to.at());
    for (size_t count : {100u, 3000u, 20'000u, 40'000u}) {
      for (int which = 0; which < 6; ++which) {
        for (size_t i = 0; i < most; ++i) in[i] = float((i * 7 + size_t(rank) * 13) % 1001) / 3;
        std::memcpy(adopted_in, in.data(), most * sizeof(float));
        const auto call = [&](const float* a, float* b) {
          switch (which) {
            case 0:
              return tutti_allreduce(a, b, count, TUTTI_FLOAT32, TUTTI_SUM, comm);
            case 1:
              return tutti_reduce(a, b, count, TUTTI_FLOAT32, TUTTI_SUM, 1, comm);
            case 2:
              std::memcpy(b, a, count * sizeof(float));
              return tutti_broadcast(b, count, TUTTI_FLOAT32, 2, comm);
            case 3:
              return tutti_allgather(a, b, count, TUTTI_FLOAT32, comm);
            case 4:
              return tutti_reduce_scatter_block(a, b, count, TUTTI_FLOAT32, TUTTI_SUM, comm);
            default:
              return tutti_alltoall(a, b, count, TUTTI_FLOAT32, comm);
          }
        };
        std::memset(out.data(), 0x5a, most * sizeof(float));
        std::memset(adopted_out, 0x5a, most * sizeof(float));
        ASSERT_EQ(call(in.data(), out.data()), TUTTI_OK) << sentence(comm);
        const uint64_t before = direct_calls(comm);
        ASSERT_EQ(call(adopted_in, adopted_out), TUTTI_OK) << sentence(comm);
        // Calls with a root do so where that was faster, which is not tried here.
        const bool has_root = which == 1 || which == 2;
        if (processes() && !has_root && count * sizeof(float) > 4 * page) {
          ASSERT_EQ(direct_calls(comm), before + 1) << which << ", " << count << " elements";
        }
        const auto same = [](const auto* one, const auto* other) {
          return std::equal(reinterpret_cast<const std::byte*>(one),
                            reinterpret_cast<const std::byte*>(one + most),
                            reinterpret_cast<const std::byte*>(other));
        };
        ASSERT_TRUE(same(out.data(), adopted_out)) << which << ", " << count << " elements";
        ASSERT_TRUE(same(in.data(), adopted_in));
      }
    }
  });
}

// Adopted, symmetric and other memory, long and short, with other calls between, while memory is
// adopted and released.
TEST_P(Adopted, MixesWithOtherMemoryOfAnyRank) {
  on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
    constexpr size_t most = 100'000;
    const Place place(4 * most * sizeof(float), 16 * size_t(rank));
    auto* const adopted = reinterpret_cast<float*>(place.at());
    void* symmetric = nullptr;
    ASSERT_EQ(tutti_mem_alloc(comm, 2 * most * sizeof(float), &symmetric), TUTTI_OK);
    std::vector<float> heap(2 * most);
    bool held = false;
    constexpr int rounds = sanitized ? 60 : 300;
    for (int round = 0; round < rounds; ++round) {
      if (round % 20 == 0) {
        ASSERT_EQ(
            held ? tutti_mem_release(comm, adopted) : tutti_mem_adopt(comm, adopted, place.bytes()),
            TUTTI_OK)
            << sentence(comm);
        held = !held;
      }
      const size_t count = round % 3 == 0   ? 900 + size_t(round)
                           : round % 3 == 1 ? 2000 + 31 * size_t(round)
                                            : most - size_t(round);
      const int kind = (round / 2 + (round % 5 == 0 ? rank : 0)) % 3;
      float* const from = kind == 0   ? heap.data()
                          : kind == 1 ? static_cast<float*>(symmetric)
                                      : adopted + 4 * (round % 100);
      float* const to = kind == 2 ? adopted + 2 * most + 8 * (round % 77) : from + most;
      for (size_t i = 0; i < count; ++i) from[i] = float((i + size_t(rank + round)) % 1000);
      ASSERT_EQ(tutti_allreduce(from, to, count, TUTTI_FLOAT32, TUTTI_SUM, comm), TUTTI_OK)
          << sentence(comm);
      for (size_t i = 0; i < count; ++i) {
        float expected = 0;
        for (int r = 0; r < 3; ++r) expected += float((i + size_t(r + round)) % 1000);
        ASSERT_EQ(to[i], expected) << "round " << round << " element " << i;
      }
      if (round % 7 == 0) {
        ASSERT_EQ(tutti_broadcast(heap.data(), 5000, TUTTI_FLOAT32, 1, comm), TUTTI_OK);
      }
    }
    ASSERT_EQ(tutti_mem_free(comm, symmetric), TUTTI_OK);
  });
}

// ---------------------------------------------------------------- other threads

TEST_P(Adopted, IsReadByOtherThreadsAllTheWhile) {
  constexpr size_t bytes = 64 * page;
  const Place place(bytes, 16);
  fill(place.at(), bytes, 9);
  std::vector<unsigned char> expected(place.at(), place.at() + bytes);
  std::atomic<bool> over{false};
  std::atomic<uint64_t> wrong{0}, looks{0};
  const auto read = [&] {
    for (; !over; ++looks) wrong += std::memcmp(place.at(), expected.data(), bytes) != 0;
  };
  std::thread first(read), second(read);
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    unsigned char* const other = map_pages(bytes);
    unsigned char* const memory = rank == 0 ? place.at() : other;
    for (int round = 0; round < (sanitized ? 30 : 150); ++round) {
      ASSERT_EQ(tutti_mem_adopt(comm, memory, bytes), TUTTI_OK) << sentence(comm);
      ASSERT_EQ(tutti_mem_release(comm, memory), TUTTI_OK) << sentence(comm);
    }
    munmap(other, bytes);
  });
  over = true;
  first.join();
  second.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(looks, 0u);
}

// What shares a page with the edges is written all the while, and no write is lost.
TEST_P(Adopted, LeavesItsNeighboursToOtherThreads) {
  constexpr size_t bytes = 20 * page;
  unsigned char* const whole = map_pages(30 * page);
  unsigned char* const memory = whole + page + 2048;
  auto* const below = reinterpret_cast<std::atomic<uint64_t>*>(memory) - 1;
  auto* const above = reinterpret_cast<std::atomic<uint64_t>*>(memory + bytes);
  std::atomic<bool> over{false};
  uint64_t written = 0;
  std::thread writer([&] {
    for (; !over; ++written) {
      below->store(below->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      above->store(above->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
  });
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    unsigned char* const other = map_pages(bytes);
    auto* const mine = reinterpret_cast<int32_t*>(rank == 0 ? memory : other);
    constexpr size_t count = bytes / sizeof(int32_t);
    for (int round = 0; round < (sanitized ? 30 : 150); ++round) {
      ASSERT_EQ(tutti_mem_adopt(comm, mine, bytes), TUTTI_OK) << sentence(comm);
      for (size_t i = 0; i < count; ++i) mine[i] = int32_t(i) + round;
      ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, mine, count, TUTTI_INT32, TUTTI_SUM, comm),
                TUTTI_OK);
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(mine[i], 2 * (int32_t(i) + round));
      ASSERT_EQ(tutti_mem_release(comm, mine), TUTTI_OK) << sentence(comm);
    }
    munmap(other, bytes);
  });
  over = true;
  writer.join();
  EXPECT_EQ(*below, written);
  EXPECT_EQ(*above, written);
  munmap(whole, 30 * page);
}

INSTANTIATE_TEST_SUITE_P(Transports, Adopted, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

// ---------------------------------------------------------------- fork

// Forks; the child checks that it has got [at, at + bytes) as it was, that it does not see what the
// parent writes then, and writes itself; the parent checks the same. Then the child ends.
bool forks_apart(unsigned char* at, size_t bytes, bool exits) {
  std::vector<unsigned char> before(at, at + bytes);
  int to_child[2], to_parent[2];
  if (pipe(to_child) != 0 || pipe(to_parent) != 0) return false;
  const pid_t child = fork();
  char word = 0;
  close(child == 0 ? to_child[1] : to_child[0]);
  close(child == 0 ? to_parent[0] : to_parent[1]);  // the end of a child is the end of its words
  if (child == 0) {
    bool right = read(to_child[0], &word, 1) == 1 && std::memcmp(at, before.data(), bytes) == 0;
    std::memset(at, 0x11, bytes);
    right =
        write(to_parent[1], right ? "y" : "n", 1) == 1 && right && read(to_child[0], &word, 1) == 1;
    for (size_t i = 0; i < bytes; ++i) right = right && at[i] == 0x11;
    if (exits) exit(right ? 0 : 1);
    _exit(right ? 0 : 1);
  }
  std::memset(at, 0x22, bytes);
  bool right = write(to_child[1], "x", 1) == 1 && read(to_parent[0], &word, 1) == 1 && word == 'y';
  for (size_t i = 0; i < bytes; ++i) right = right && at[i] == 0x22;
  right = right && write(to_child[1], "x", 1) == 1;
  for (const int fd : {to_child[1], to_parent[0]}) close(fd);
  int status = -1;
  waitpid(child, &status, 0);
  std::memcpy(at, before.data(), bytes);
  return right && status == 0;
}

TEST(AdoptedProcesses, ForkApartInEveryState) {
  const auto children = tutti::testing::start(2, "shm", [](int rank, tutti_comm comm) {
    constexpr size_t bytes = 40 * page + 100, count = bytes / sizeof(int32_t);
    Report report;
    auto* const memory = static_cast<unsigned char*>(std::malloc(bytes));
    auto* const vector = reinterpret_cast<int32_t*>(memory);
    const auto reduce_directly = [&](bool direct) {
      for (size_t i = 0; i < count; ++i) vector[i] = int32_t(i) * (rank + 1);
      const uint64_t before = direct_calls(comm);
      if (tutti_allreduce(TUTTI_IN_PLACE, vector, count, TUTTI_INT32, TUTTI_SUM, comm) != TUTTI_OK)
        return false;
      for (size_t i = 0; i < count; ++i) {
        if (vector[i] != int32_t(i) * 3) return false;
      }
      return direct_calls(comm) == before + (direct ? 1 : 0);
    };
    fill(memory, bytes, rank);
    REQUIRE(forks_apart(memory, bytes, false));
    for (int round = 0; round < 3; ++round) {
      REQUIRE(tutti_mem_adopt(comm, memory, bytes) == TUTTI_OK);
      REQUIRE(forks_apart(memory, bytes, false));
      REQUIRE(reduce_directly(true));
      // One rank forks between calls, the other one does not.
      if (rank == round % 2) REQUIRE(forks_apart(memory, bytes, true));
      REQUIRE(reduce_directly(true));
      REQUIRE(tutti_mem_release(comm, memory) == TUTTI_OK);
      REQUIRE(forks_apart(memory, bytes, false));
      REQUIRE(reduce_directly(false));
    }
    // A child of a child, and memory that a child adopts by itself is for its own communicators.
    REQUIRE(tutti_mem_adopt(comm, memory, bytes) == TUTTI_OK);
    const pid_t child = fork();
    if (child == 0) _exit(forks_apart(memory, bytes, false) ? 0 : 1);
    int status = -1;
    waitpid(child, &status, 0);
    REQUIRE(status == 0);
    REQUIRE(reduce_directly(true));
    return report_of(TUTTI_OK, comm);
  });
  for (const auto& child : children) {
    Report report;
    ASSERT_TRUE(tutti::testing::finish(child, &report));
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
  }
}

// Another thread writes while this one forks; none of its writes may be lost.
TEST(AdoptedProcesses, ForkWhileAThreadWrites) {
  const auto children = tutti::testing::start(2, "shm", [](int, tutti_comm comm) {
    constexpr size_t bytes = 16 * page;
    Report report;
    auto* const words = reinterpret_cast<std::atomic<uint64_t>*>(map_pages(bytes));
    REQUIRE(tutti_mem_adopt(comm, words, bytes) == TUTTI_OK);
    std::atomic<bool> over{false};
    uint64_t written = 0;
    std::thread writer([&] {
      for (; !over; ++written) {
        for (size_t i = 0; i < bytes / 8; i += 64) words[i] = words[i] + 1;
      }
    });
    bool right = true;
    for (int round = 0; round < 50; ++round) {
      const pid_t child = fork();
      if (child == 0) _exit(0);
      int status = -1;
      waitpid(child, &status, 0);
      right = right && status == 0;
    }
    over = true;
    writer.join();
    REQUIRE(right);
    for (size_t i = 0; i < bytes / 8; i += 64) REQUIRE(words[i] == written);
    return report_of(TUTTI_OK, comm);
  });
  for (const auto& child : children) {
    Report report;
    ASSERT_TRUE(tutti::testing::finish(child, &report));
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
  }
}

// ---------------------------------------------------------------- unmapped while adopted

// Puts other memory, all of it or a part, in the place of adopted memory, and calls with that.
Report reduce_in_changed_memory(int rank, tutti_comm comm) {
  constexpr size_t bytes = 64 * page, count = bytes / sizeof(int32_t);
  Report report;
  struct Part {
    size_t begin, end;
  };
  for (const Part part : {Part{0, bytes}, Part{0, page}, Part{bytes - page, bytes}}) {
    unsigned char* const memory = map_pages(bytes);
    unsigned char* const output = map_pages(bytes);
    auto* const vector = reinterpret_cast<int32_t*>(memory);
    auto* const result = reinterpret_cast<int32_t*>(output);
    const auto reduce = [&](bool in_place, bool direct) {
      for (size_t i = 0; i < count; ++i) vector[i] = int32_t(i) * (rank + 1);
      const uint64_t before = direct_calls(comm);
      int32_t* const to = in_place ? vector : result;
      if (tutti_allreduce(in_place ? TUTTI_IN_PLACE : vector, to, count, TUTTI_INT32, TUTTI_SUM,
                          comm) != TUTTI_OK)
        return false;
      for (size_t i = 0; i < count; ++i) {
        if (to[i] != int32_t(i) * 3) return false;
      }
      return direct_calls(comm) == before + (direct ? 1 : 0);
    };
    REQUIRE(tutti_mem_adopt(comm, memory, bytes) == TUTTI_OK);
    REQUIRE(tutti_mem_adopt(comm, output, bytes) == TUTTI_OK);
    REQUIRE(reduce(false, true));
    if (rank == 1) {
      REQUIRE(munmap(memory + part.begin, part.end - part.begin) == 0);
      REQUIRE(mmap(memory + part.begin, part.end - part.begin, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
                   0) == memory + part.begin);
    }
    REQUIRE(reduce(false, false));
    REQUIRE(reduce(true, false));
    REQUIRE(forks_apart(memory, bytes, false));
    std::vector<unsigned char> content(memory, memory + bytes);
    REQUIRE(tutti_mem_release(comm, memory) == TUTTI_OK);
    REQUIRE(std::memcmp(memory, content.data(), bytes) == 0);
    REQUIRE(mode_at(memory + part.begin) == "rw-p");
    // What is there now can be adopted.
    REQUIRE(tutti_mem_adopt(comm, memory, bytes) == TUTTI_OK);
    REQUIRE(reduce(false, true));
    // Unmapped for good: nothing is put there.
    munmap(memory, bytes);
    REQUIRE(tutti_mem_release(comm, memory) == TUTTI_OK);
    REQUIRE(mode_at(memory).empty());
    REQUIRE(tutti_mem_release(comm, output) == TUTTI_OK);
    munmap(output, bytes);
  }
  return report_of(TUTTI_OK, comm);
}

TEST(AdoptedProcesses, UnmapItAndMapOtherMemoryThere) {
  const auto children = tutti::testing::start(2, "shm", reduce_in_changed_memory);
  for (const auto& child : children) {
    Report report;
    ASSERT_TRUE(tutti::testing::finish(child, &report));
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
  }
}

// The same as on Linux before 6.11: a filter has the kernel know no PROCMAP_QUERY.
TEST(AdoptedProcesses, UnmapItWhereTheKernelCannotTell) {
  const auto children = tutti::testing::start(2, "shm", [](int rank, tutti_comm comm) {
    constexpr uint32_t procmap_query = 0xc0686611;
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, procmap_query, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{sizeof(filter) / sizeof(filter[0]), filter};
    Report report;
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    return reduce_in_changed_memory(rank, comm);
  });
  for (const auto& child : children) {
    Report report;
    ASSERT_TRUE(tutti::testing::finish(child, &report));
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
  }
}

TEST(AdoptedProcesses, FreeItAndAllocateAgain) {
  const auto children = tutti::testing::start(2, "shm", [](int rank, tutti_comm comm) {
    Report report;
    uint64_t again = 0;
    for (int round = 0; round < 20; ++round) {
      const size_t bytes = size_t(round % 2 == 0 ? 4 << 20 : 100'000), count = bytes / 4;
      void* before = nullptr;
      for (int turn = 0; turn < 3; ++turn) {
        auto* const vector = static_cast<int32_t*>(std::calloc(count, 4));
        again += turn != 0 && vector == before;
        for (size_t i = 0; i < count; ++i) REQUIRE(vector[i] == 0);
        if (turn == 0) REQUIRE(tutti_mem_adopt(comm, vector, bytes) == TUTTI_OK);
        for (size_t i = 0; i < count; ++i) vector[i] = int32_t(i) * (rank + 1);
        REQUIRE(tutti_allreduce(TUTTI_IN_PLACE, vector, count, TUTTI_INT32, TUTTI_SUM, comm) ==
                TUTTI_OK);
        for (size_t i = 0; i < count; ++i) REQUIRE(vector[i] == int32_t(i) * 3);
        if (turn == 0) before = vector;
        std::free(vector);
      }
      REQUIRE(tutti_mem_release(comm, before) == TUTTI_OK);
    }
    REQUIRE(sanitized || again > 0);
    return report_of(TUTTI_OK, comm);
  });
  for (const auto& child : children) {
    Report report;
    ASSERT_TRUE(tutti::testing::finish(child, &report));
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
  }
}

// ---------------------------------------------------------------- refusals

// Rank 1 passes what cannot be adopted: no rank gets anything, all are told why, and go on.
void expect_refused(int rank, tutti_comm comm, void* memory, size_t bytes, tutti_status status,
                    const char* why) {
  SCOPED_TRACE(why);
  unsigned char* const good = map_pages(8 * page);
  good[5000] = 5;
  EXPECT_EQ(
      rank == 1 ? tutti_mem_adopt(comm, memory, bytes) : tutti_mem_adopt(comm, good, 8 * page),
      status);
  EXPECT_NE(sentence(comm).find(why), std::string::npos) << sentence(comm);
  if (rank != 1) {
    EXPECT_NE(sentence(comm).find("rank 1"), std::string::npos) << sentence(comm);
  }
  EXPECT_EQ(mode_at(good), "rw-p");
  EXPECT_EQ(good[5000], 5);
  EXPECT_EQ(tutti_mem_release(comm, good), TUTTI_INVALID);
  munmap(good, 8 * page);
}

TEST(AdoptedRefusals, SayWhy) {
  on_comm(2, "shm", [](int rank, tutti_comm comm) {
    const auto refused = [&](void* memory, size_t bytes, tutti_status status, const char* why) {
      expect_refused(rank, comm, memory, bytes, status, why);
    };
    constexpr size_t bytes = 8 * page;
    unsigned char* const plain = map_pages(bytes);

    refused(plain + 100, page, TUTTI_INVALID, "no whole page");
    mprotect(plain + 2 * page, page, PROT_READ);
    refused(plain, bytes, TUTTI_INVALID, "cannot be read and written");
    mprotect(plain + 2 * page, page, PROT_READ | PROT_WRITE);
    // Sanitizers replace mlock() by nothing.
    EXPECT_EQ(syscall(SYS_mlock, plain + 3 * page, page), 0);
    refused(plain, bytes, TUTTI_UNSUPPORTED, "is locked");
    syscall(SYS_munlock, plain + 3 * page, page);
    madvise(plain + page, page, MADV_DONTFORK);
    refused(plain, bytes, TUTTI_UNSUPPORTED, "children do not get a copy");
    madvise(plain + page, page, MADV_DOFORK);
    madvise(plain, page, MADV_WIPEONFORK);
    refused(plain, bytes, TUTTI_UNSUPPORTED, "children do not get a copy");
    madvise(plain, page, MADV_KEEPONFORK);
    madvise(plain + 7 * page, page, MADV_DONTDUMP);
    refused(plain, bytes, TUTTI_UNSUPPORTED, "special mapping (flag dd");
    madvise(plain + 7 * page, page, MADV_DODUMP);

    unsigned char* const holed = map_pages(bytes);
    munmap(holed + 4 * page, page);
    refused(holed, bytes, TUTTI_INVALID, "not all of it is mapped");
    munmap(holed, bytes);

    void* const shared =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    refused(shared, bytes, TUTTI_UNSUPPORTED, "shared with other processes");
    munmap(shared, bytes);

    const int fd = memfd_create("a-file", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(fd, bytes), 0);
    void* const file = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    refused(file, bytes, TUTTI_UNSUPPORTED, "of the file /memfd:a-file");
    munmap(file, bytes);
    close(fd);

    // Without reserved huge pages there is no such memory to be refused.
    void* const huge = mmap(nullptr, 2 << 20, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    static std::atomic<int> with_huge{0};
    with_huge = 0;
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
    with_huge += huge != MAP_FAILED ? 1 : 0;
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
    if (with_huge == 2) refused(huge, 2 << 20, TUTTI_UNSUPPORTED, "huge pages");
    if (huge != MAP_FAILED) munmap(huge, 2 << 20);

    // Adopted already, by this or another communicator.
    ASSERT_EQ(tutti_mem_adopt(comm, plain, bytes), TUTTI_OK) << sentence(comm);
    refused(plain, bytes, TUTTI_INVALID, "adopted already");
    refused(plain + 3 * page, 2 * page, TUTTI_INVALID, "adopted already");
    ASSERT_EQ(tutti_mem_release(comm, plain), TUTTI_OK);
    ASSERT_EQ(tutti_mem_adopt(comm, plain, bytes), TUTTI_OK) << sentence(comm);

    EXPECT_EQ(tutti_mem_adopt(comm, plain, 0), TUTTI_INVALID);
    EXPECT_EQ(tutti_mem_adopt(comm, nullptr, bytes), TUTTI_INVALID);
    munmap(plain, bytes);
  });
}

TEST(AdoptedRefusals, TakeNoStack) {
  const auto children = tutti::testing::start(2, "shm", [](int rank, tutti_comm comm) {
    constexpr size_t bytes = 16 * page;
    unsigned char own[bytes];
    own[0] = 1;
    expect_refused(rank, comm, own, bytes, TUTTI_UNSUPPORTED, "part of a stack");
    // Of a thread that waits, and of one that runs.
    for (const bool runs : {false, true}) {
      std::atomic<unsigned char*> stack{nullptr};
      std::atomic<bool> over{false};
      std::thread other([&] {
        unsigned char local[bytes];
        local[0] = 1;
        stack = local;
        while (!over) {
          if (!runs) usleep(1000);
        }
      });
      while (stack == nullptr) usleep(1000);
      expect_refused(rank, comm, stack, bytes, TUTTI_UNSUPPORTED, "part of a thread's stack");
      expect_refused(rank, comm, stack - 1'000'000, bytes, TUTTI_UNSUPPORTED,
                     "part of a thread's stack");
      // Memory beside stacks is not taken for one.
      unsigned char* const beside = map_pages(1 << 20);
      EXPECT_EQ(tutti_mem_adopt(comm, beside, 1 << 20), TUTTI_OK) << sentence(comm);
      EXPECT_EQ(tutti_mem_release(comm, beside), TUTTI_OK) << sentence(comm);
      over = true;
      other.join();
    }
    const bool failed = ::testing::Test::HasFailure();
    Report report = report_of(failed ? TUTTI_INTERNAL : TUTTI_OK, comm);
    return report;
  });
  for (const auto& child : children) {
    Report report;
    ASSERT_TRUE(tutti::testing::finish(child, &report));
    EXPECT_EQ(report.status, TUTTI_OK) << report.text;
  }
}

// ---------------------------------------------------------------- growth

struct Size {
  size_t descriptors = 0, mappings = 0, pages = 0;
};

Size measure() {
  Size size;
  size.descriptors = tutti::testing::open_descriptors();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++size.mappings;
  std::ifstream memory("/proc/self/statm");
  memory >> size.pages >> size.pages;
  return size;
}

void adopt_and_release(int rounds) {
  Size before, after;
  on_comm(2, "shm", [&](int rank, tutti_comm comm) {
    const Place place(20 * page, 64 * size_t(rank + 1));
    fill(place.at(), place.bytes(), rank);
    for (int round = 0; round < rounds; ++round) {
      ASSERT_EQ(tutti_mem_adopt(comm, place.at(), place.bytes()), TUTTI_OK) << sentence(comm);
      if (round % 8 == 0) {
        ASSERT_EQ(tutti_allreduce(TUTTI_IN_PLACE, place.at(), place.bytes(), TUTTI_UINT8,
                                  TUTTI_BXOR, comm),
                  TUTTI_OK);
      }
      ASSERT_EQ(tutti_mem_release(comm, place.at()), TUTTI_OK) << sentence(comm);
      if (round != rounds / 2 && round != rounds - 1) continue;
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
      if (rank == 0) (round == rounds - 1 ? after : before) = measure();
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
    }
  });
  EXPECT_EQ(before.descriptors, after.descriptors);
  EXPECT_EQ(before.mappings, after.mappings);
  // A sanitizer keeps what was freed, and looks for leaks itself.
  if (!sanitized) EXPECT_LT(after.pages, before.pages + 256);
}

TEST(AdoptedMemory, ComesAndGoesWithoutGrowth) { adopt_and_release(sanitized ? 200 : 1000); }
TEST(AdoptedMemory, LongComesAndGoesAHundredThousandTimes) { adopt_and_release(100'000); }

}  // namespace
