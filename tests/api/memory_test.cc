// Symmetric memory: the same bits as staged, whoever passes what, and errors that reach all ranks.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <vector>

#include "tests/support/descriptors.h"
#include "tests/support/sanitized.h"
#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::on_comm;
using tutti::testing::open_descriptors;
using tutti::testing::sanitized;
using tutti::testing::sentence;

uint64_t direct_calls(tutti_comm comm) { return tutti::testing::counters(comm).direct_calls; }

void fill(void* at, size_t bytes, int rank) {
  std::mt19937 random(unsigned(rank) + 1);
  for (size_t i = 0; i < bytes; ++i) static_cast<unsigned char*>(at)[i] = uint8_t(random());
}

// Two buffers of one rank in shared memory.
struct Vectors {
  Vectors(tutti_comm comm, size_t bytes) : comm(comm) {
    EXPECT_EQ(tutti_mem_alloc(comm, 2 * bytes, &memory), TUTTI_OK) << sentence(comm);
    in = static_cast<unsigned char*>(memory);
    out = in + bytes;
  }
  ~Vectors() { EXPECT_EQ(tutti_mem_free(comm, memory), TUTTI_OK); }
  tutti_comm comm;
  void* memory = nullptr;
  unsigned char* in = nullptr;
  unsigned char* out = nullptr;
};

class Memory : public ::testing::TestWithParam<const char*> {
 protected:
  bool shared() const { return std::string(GetParam()) != "tcp"; }
  // Where bits depend on the algorithm, it must be the one that direct access implements.
  tutti_call_config two_shot(uint32_t flags) const {
    tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
    config.flags = flags;
    config.algorithm = flags != 0 || !shared() ? "two-shot" : nullptr;
    return config;
  }
  bool threads() const { return std::string(GetParam()) == "inproc"; }
};

TEST_P(Memory, GivesTheBitsOfHeapBuffers) {
  struct Case {
    tutti_dtype dtype;
    tutti_op op;
  };
  const Case cases[] = {{TUTTI_FLOAT32, TUTTI_SUM},  {TUTTI_FLOAT16, TUTTI_AVG},
                        {TUTTI_BFLOAT16, TUTTI_SUM}, {TUTTI_INT8, TUTTI_PROD},
                        {TUTTI_FLOAT64, TUTTI_MAX},  {TUTTI_UINT64, TUTTI_BXOR}};
  const size_t sizes[] = {8, 4096, 4104, 20'000, 65'536, 300'008, 2'000'000};
  for (const int nranks : {2, 3, 5}) {
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      Vectors symmetric(comm, sizes[6]);
      std::vector<unsigned char> in(sizes[6]), staged(sizes[6]);
      fill(in.data(), in.size(), rank);
      uint64_t direct = 0;
      for (const size_t bytes : sizes) {
        for (const Case& c : cases) {
          const size_t count = bytes / tutti_dtype_size(c.dtype);
          const tutti_call_config schedule = two_shot(TUTTI_CALL_UNFUSED), chosen = two_shot(0);
          ASSERT_EQ(
              tutti_allreduce_with(in.data(), staged.data(), count, c.dtype, c.op, comm, &schedule),
              TUTTI_OK);
          for (const bool in_place : {false, true}) {
            std::memset(symmetric.out, 0xcb, bytes);
            std::memcpy(in_place ? symmetric.out : symmetric.in, in.data(), bytes);
            ASSERT_EQ(tutti_allreduce_with(in_place ? TUTTI_IN_PLACE : symmetric.in, symmetric.out,
                                           count, c.dtype, c.op, comm, &chosen),
                      TUTTI_OK)
                << sentence(comm);
            direct += shared() && bytes > 4096;
            ASSERT_EQ(std::memcmp(symmetric.out, staged.data(), bytes), 0)
                << bytes << " bytes, " << tutti_dtype_name(c.dtype) << " in place " << in_place;
            ASSERT_EQ(direct_calls(comm), direct);
          }
        }
      }
    });
  }
}

// What goes direct is decided by all: one rank with other memory makes everybody stage.
TEST_P(Memory, MixesWithHeapBuffersOfAnyRank) {
  on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
    constexpr size_t most = 400'000;
    Vectors symmetric(comm, 4 * most + 16'384);
    std::vector<float> in(most), out(most);
    const uint64_t before = direct_calls(comm);
    constexpr int rounds = sanitized ? 40 : 200;
    for (int round = 0; round < rounds; ++round) {
      const size_t count = round % 2 == 0 ? 3000 + size_t(round) : most - size_t(round);
      // In some rounds nobody, in others a changing rank, passes heap memory.
      const bool heap = round % 4 != 0 && round % 3 == rank;
      float* from = heap ? in.data() : reinterpret_cast<float*>(symmetric.in);
      float* to = heap ? out.data() : reinterpret_cast<float*>(symmetric.out) + 16 * (round + rank);
      for (size_t i = 0; i < count; ++i) from[i] = float((i + size_t(rank + round)) % 1000);
      ASSERT_EQ(tutti_allreduce(from, to, count, TUTTI_FLOAT32, TUTTI_SUM, comm), TUTTI_OK)
          << sentence(comm);
      for (size_t i = 0; i < count; ++i) {
        float expected = 0;
        for (int r = 0; r < 3; ++r) expected += float((i + size_t(r + round)) % 1000);
        ASSERT_EQ(to[i], expected) << "round " << round << " element " << i;
      }
    }
    const uint64_t direct = direct_calls(comm) - before;
    EXPECT_EQ(direct, threads() ? uint64_t(rounds) : shared() ? uint64_t(rounds / 4) : 0u);
  });
}

// Each rank's input is read where it lies if that is known there, whatever the others pass.
TEST_P(Memory, OfEveryCollectiveMixesWithHeapBuffersOfAnyRank) {
  for (const int nranks : {2, 3}) {
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      constexpr size_t most = 50'000;
      const auto n = size_t(nranks);
      Vectors symmetric(comm, 4 * n * most);
      std::vector<int32_t> in(n * most), out(n * most);
      constexpr size_t counts[] = {1'500, 2'049, 20'000, most};
      constexpr int rounds = sanitized ? 120 : 480;
      for (int round = 0; round < rounds; ++round) {
        const size_t count = counts[round / 5 % 4];
        const int which = round % 5, root = round % nranks;
        // In some rounds nobody, in others some or all pass heap memory.
        const bool heap = (round / 20 >> rank & 1) != 0;
        int32_t* const from = heap ? in.data() : reinterpret_cast<int32_t*>(symmetric.in);
        int32_t* const to = heap ? out.data() : reinterpret_cast<int32_t*>(symmetric.out);
        const auto value = [&](size_t r, size_t i) {
          return int32_t((i * 7 + r * 1013 + size_t(round)) % 4099);
        };
        for (size_t i = 0; i < n * count; ++i) from[i] = value(size_t(rank), i);
        std::fill(to, to + n * count, -1);
        const auto sum = [&](size_t i) {
          int32_t all = 0;
          for (size_t r = 0; r < n; ++r) all += value(r, i);
          return all;
        };
        const auto check = [&](size_t length, auto&& wanted) {
          size_t right = 0;
          while (right < length && to[right] == wanted(right)) ++right;
          ASSERT_EQ(right, length) << "round " << round << " of " << nranks << " ranks";
        };
        if (which == 0) {
          ASSERT_EQ(tutti_allgather(from, to, count, TUTTI_INT32, comm), TUTTI_OK);
          check(n * count, [&](size_t i) { return value(i / count, i % count); });
        } else if (which == 1) {
          ASSERT_EQ(tutti_alltoall(from, to, count, TUTTI_INT32, comm), TUTTI_OK);
          check(n * count,
                [&](size_t i) { return value(i / count, size_t(rank) * count + i % count); });
        } else if (which == 2) {
          ASSERT_EQ(tutti_reduce_scatter_block(from, to, count, TUTTI_INT32, TUTTI_SUM, comm),
                    TUTTI_OK);
          check(count, [&](size_t i) { return sum(size_t(rank) * count + i); });
        } else if (which == 3) {
          ASSERT_EQ(tutti_reduce(from, to, count, TUTTI_INT32, TUTTI_SUM, root, comm), TUTTI_OK);
          if (rank == root) check(count, sum);
        } else {
          ASSERT_EQ(tutti_broadcast(from, count, TUTTI_INT32, root, comm), TUTTI_OK);
          std::copy(from, from + count, to);
          check(count, [&](size_t i) { return value(size_t(root), i); });
        }
      }
    });
  }
}

TEST_P(Memory, TakesMappingsOfTheCaller) {
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    constexpr size_t bytes = 1 << 20, offset = 8192;
    const int fd = memfd_create("mine", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(fd, 2 * bytes + offset), 0);
    void* base = mmap(nullptr, 2 * bytes + offset, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ASSERT_NE(base, MAP_FAILED);
    auto* mine = static_cast<unsigned char*>(base) + offset;
    ASSERT_EQ(tutti_mem_register(comm, mine, 2 * bytes, fd, offset), TUTTI_OK) << sentence(comm);
    close(fd);
    auto* in = reinterpret_cast<int32_t*>(mine);
    for (size_t i = 0; i < bytes / 4; ++i) in[i] = int32_t(i) * (rank + 1);
    auto* out = reinterpret_cast<int32_t*>(mine + bytes);
    ASSERT_EQ(tutti_allreduce(in, out, bytes / 4, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK);
    for (size_t i = 0; i < bytes / 4; ++i) ASSERT_EQ(out[i], int32_t(i) * 3);
    EXPECT_EQ(direct_calls(comm), shared() ? 1u : 0u);
    EXPECT_EQ(tutti_mem_deregister(comm, mine), TUTTI_OK);
    EXPECT_EQ(tutti_mem_deregister(comm, mine), TUTTI_INVALID);
    ASSERT_EQ(tutti_allreduce(in, out, bytes / 4, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK);
    EXPECT_EQ(direct_calls(comm), threads() ? 2u : shared() ? 1u : 0u);
    munmap(base, 2 * bytes + offset);
  });
}

// One rank's mapping is not what it says: nobody gets a region, and the communicator goes on.
TEST_P(Memory, RefusesWhatIsNotTheMappingOfItsDescriptor) {
  on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
    constexpr size_t bytes = 64 << 10;
    const int fd = memfd_create("mine", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(fd, bytes), 0);
    const int wrong = memfd_create("other", MFD_CLOEXEC);
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ASSERT_EQ(tutti_mem_register(comm, base, bytes, rank == 1 ? wrong : fd, 0), TUTTI_INVALID);
    EXPECT_NE(sentence(comm).find("not a shared mapping"), std::string::npos) << sentence(comm);
    if (rank != 1) {
      EXPECT_NE(sentence(comm).find("rank 1"), std::string::npos);
    }
    ASSERT_EQ(tutti_mem_register(comm, base, bytes, fd, rank == 2 ? 4096 : 0), TUTTI_INVALID);
    ASSERT_EQ(tutti_mem_register(comm, base, bytes, rank == 0 ? -1 : fd, 0), TUTTI_INVALID);
    ASSERT_EQ(tutti_mem_register(comm, base, bytes, fd, 0), TUTTI_OK) << sentence(comm);
    EXPECT_EQ(tutti_mem_alloc(comm, 0, &base), TUTTI_INVALID);
    EXPECT_EQ(tutti_mem_free(comm, &base), TUTTI_INVALID);
    EXPECT_EQ(tutti_mem_free(comm, nullptr), TUTTI_OK);
    ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
    close(fd);
    close(wrong);
  });
}

TEST(SharedMemory, FreedByOneOnlyIsAMismatchForAll) {
  on_comm(2, "shm", [&](int rank, tutti_comm comm) {
    constexpr size_t bytes = 64 << 10;
    void *first = nullptr, *second = nullptr;
    ASSERT_EQ(tutti_mem_alloc(comm, 2 * bytes, &first), TUTTI_OK);
    ASSERT_EQ(tutti_mem_alloc(comm, 2 * bytes, &second), TUTTI_OK);
    if (rank == 1) {
      ASSERT_EQ(tutti_mem_free(comm, first), TUTTI_OK);
    }
    auto* in = static_cast<unsigned char*>(rank == 0 ? first : second);
    EXPECT_EQ(tutti_allreduce(in, in + bytes, bytes, TUTTI_UINT8, TUTTI_SUM, comm), TUTTI_MISMATCH);
    EXPECT_NE(sentence(comm).find("rank 0 passed symmetric memory that rank 1 has freed"),
              std::string::npos)
        << sentence(comm);
  });
}

// Threads reach any buffer of each other; when a call ends at its deadline the buffers may be gone
// at once, however far the others are.
TEST(ThreadsMemory, IsLeftAloneAfterACallHasFailed) {
  constexpr size_t bytes = 8 << 20;
  int failed = 0;
  for (int round = 0; round < (sanitized ? 20 : 60); ++round) {
    on_comm(2, "inproc", [&](int rank, tutti_comm comm) {
      void* memory = mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
      ASSERT_NE(memory, MAP_FAILED);
      auto* in = static_cast<unsigned char*>(memory);
      tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
      config.timeout_ms = rank == 0 ? 1 : 10'000;
      // The first rank's deadline may have passed before the second has left the barrier.
      const tutti_status met = tutti_barrier(comm);
      if (rank == 0) {
        ASSERT_EQ(met, TUTTI_OK);
      } else {
        ASSERT_TRUE(met == TUTTI_OK || met == TUTTI_TIMEOUT) << sentence(comm);
      }
      if (rank == 1) usleep(unsigned(round % 20) * 100);  // up to twice the other's patience
      const tutti_status status =
          tutti_allreduce_with(in, in + bytes, bytes, TUTTI_UINT8, TUTTI_SUM, comm, &config);
      munmap(memory, 2 * bytes);
      if (rank == 0) failed += status != TUTTI_OK;
    });
  }
  EXPECT_GT(failed, 0) << "no call ran into its deadline: the test has not tested";
}

TEST_P(Memory, ComesAndGoesWithoutGrowth) {
  size_t before = 0, after = 0;
  on_comm(2, GetParam(), [&](int rank, tutti_comm comm) {
    for (int round = 0; round < 300; ++round) {
      void* memory = nullptr;
      ASSERT_EQ(tutti_mem_alloc(comm, 3 << 20, &memory), TUTTI_OK) << sentence(comm);
      static_cast<unsigned char*>(memory)[round] = 1;
      ASSERT_EQ(tutti_mem_free(comm, memory), TUTTI_OK);
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
      if (rank == 0) (round == 10 ? before : after) = open_descriptors();
      ASSERT_EQ(tutti_barrier(comm), TUTTI_OK);
    }
  });
  EXPECT_EQ(before, after);
}

INSTANTIATE_TEST_SUITE_P(Transports, Memory, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
