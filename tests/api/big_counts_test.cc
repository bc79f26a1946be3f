// More than 2^31 elements and more than 2^32 bytes. Memory that is only read and never written is
// not there: all its pages are the one page of zeros; so values are put in, and looked for, at
// places around every power of two at which a narrower count would go wrong.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/thread_comm.h"

namespace {

using tutti::testing::on_comm;
using tutti::testing::sentence;

constexpr size_t gib = size_t{1} << 30;
constexpr size_t count = (size_t{1} << 32) + 12'345;
constexpr size_t block = (size_t{1} << 31) + 77;

size_t available_bytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string name, unit; info >> name;) {
    size_t kib = 0;
    info >> kib;
    std::getline(info, unit);
    if (name == "MemAvailable:") return kib << 10;
  }
  return 0;
}

// Zeros, there as soon as they are written.
class Zeros {
 public:
  explicit Zeros(size_t bytes) : bytes_(bytes) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) data_ = static_cast<uint8_t*>(at);
  }
  Zeros(const Zeros&) = delete;
  ~Zeros() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  uint8_t* data() const { return data_; }
  uint8_t& operator[](size_t i) const { return data_[i]; }

 private:
  size_t bytes_;
  uint8_t* data_ = nullptr;
};

std::vector<size_t> places(size_t length) {
  std::vector<size_t> all = {0, 1, length / 3, length / 2, length - 1};
  for (const int bits : {30, 31, 32}) {
    for (const size_t at : {(size_t{1} << bits) - 1, size_t{1} << bits, (size_t{1} << bits) + 1}) {
      if (at < length) all.push_back(at);
    }
  }
  return all;
}

class BigCounts : public ::testing::Test {
 protected:
  // `bytes`: what all ranks write together.
  static bool has_room(size_t bytes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#else
    return available_bytes() > bytes + 3 * gib;
#endif
  }
};
#define NEEDS(bytes) \
  if (!has_room(bytes)) GTEST_SKIP() << "needs " << (bytes) / gib << " GiB of memory and some more"

class BigCountsLong : public BigCounts {};

// To touch so much memory for the first time takes long on some machines.
tutti_call_config patient(const char* algorithm = nullptr) {
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  config.timeout_ms = 300'000;
  config.algorithm = algorithm;
  return config;
}

void broadcast(const char* transport) {
  on_comm(2, transport, [](int rank, tutti_comm comm) {
    const Zeros data(count);
    ASSERT_NE(data.data(), nullptr);
    for (const size_t i : places(count)) data[i] = rank == 0 ? uint8_t(i % 251 + 1) : 0;
    const tutti_call_config config = patient();
    ASSERT_EQ(tutti_broadcast_with(data.data(), count, TUTTI_UINT8, 0, comm, &config), TUTTI_OK)
        << sentence(comm);
    for (const size_t i : places(count)) ASSERT_EQ(data[i], i % 251 + 1) << i;
  });
}

void allreduce(const char* transport, const char* algorithm, size_t length) {
  on_comm(2, transport, [&](int rank, tutti_comm comm) {
    const Zeros data(length);
    ASSERT_NE(data.data(), nullptr);
    for (const size_t i : places(length)) data[i] = uint8_t(i % 100 + size_t(rank));
    const tutti_call_config config = patient(algorithm);
    ASSERT_EQ(tutti_allreduce_with(TUTTI_IN_PLACE, data.data(), length, TUTTI_UINT8, TUTTI_SUM,
                                   comm, &config),
              TUTTI_OK)
        << sentence(comm);
    for (const size_t i : places(length)) ASSERT_EQ(data[i], 2 * (i % 100) + 1) << i;
  });
}

TEST_F(BigCounts, AreBroadcast) {
  NEEDS(count);
  broadcast("inproc");
}

TEST_F(BigCounts, AreReduced) {
  NEEDS(2 * block);
  allreduce("inproc", "auto", block);
}

TEST_F(BigCountsLong, AreBroadcastOverSockets) {
  NEEDS(count);
  broadcast("tcp");
}

TEST_F(BigCountsLong, AreReducedByARing) {
  NEEDS(3 * count);
  allreduce("shm", "ring", count);
}

TEST_F(BigCountsLong, AreReducedInOneGo) {
  NEEDS(3 * count);
  allreduce("inproc", "two-shot", count);
}

TEST_F(BigCountsLong, OfBlocksAreGatheredAndExchanged) {
  NEEDS(4 * block);
  on_comm(2, "shm", [](int rank, tutti_comm comm) {
    const Zeros in(2 * block), out(2 * block);
    ASSERT_NE(in.data(), nullptr);
    ASSERT_NE(out.data(), nullptr);
    const tutti_call_config config = patient();
    const auto value = [](int from, int to, size_t i) {
      return uint8_t(i % 60 + size_t(from) * 60 + size_t(to) * 120);
    };
    for (const size_t i : places(block)) {
      for (int to = 0; to < 2; ++to) in[size_t(to) * block + i] = value(rank, to, i);
    }
    ASSERT_EQ(tutti_alltoall_with(in.data(), out.data(), block, TUTTI_UINT8, comm, &config),
              TUTTI_OK)
        << sentence(comm);
    for (const size_t i : places(block)) {
      for (int from = 0; from < 2; ++from) {
        ASSERT_EQ(out[size_t(from) * block + i], value(from, rank, i)) << i;
      }
    }
    ASSERT_EQ(tutti_allgather_with(in.data(), out.data(), block, TUTTI_UINT8, comm, &config),
              TUTTI_OK)
        << sentence(comm);
    for (const size_t i : places(block)) {
      for (int from = 0; from < 2; ++from) {
        ASSERT_EQ(out[size_t(from) * block + i], value(from, 0, i)) << i;
      }
    }
    ASSERT_EQ(tutti_reduce_scatter_block_with(in.data(), out.data(), block, TUTTI_UINT8, TUTTI_MAX,
                                              comm, &config),
              TUTTI_OK)
        << sentence(comm);
    for (const size_t i : places(block)) ASSERT_EQ(out[i], value(1, rank, i)) << i;
    // Of different lengths.
    const size_t counts[2] = {3, block}, displs[2] = {0, block};
    ASSERT_EQ(tutti_allgatherv_with(in.data(), counts[rank], out.data(), counts, displs,
                                    TUTTI_UINT8, comm, &config),
              TUTTI_OK)
        << sentence(comm);
    for (const size_t i : places(block)) ASSERT_EQ(out[block + i], value(1, 0, i)) << i;
  });
}

TEST_F(BigCountsLong, AreSentAndReceived) {
  NEEDS(2 * count);
  for (const char* const transport : {"inproc", "tcp"}) {
    on_comm(2, transport, [](int rank, tutti_comm comm) {
      const Zeros mine(count), theirs(count);
      ASSERT_NE(mine.data(), nullptr);
      ASSERT_NE(theirs.data(), nullptr);
      const tutti_call_config config = patient();
      for (const size_t i : places(count)) mine[i] = uint8_t(i % 100 + size_t(rank) * 100);
      ASSERT_EQ(tutti_sendrecv_with(mine.data(), count, 1 - rank, 0, theirs.data(), count, 1 - rank,
                                    0, TUTTI_UINT8, comm, &config),
                TUTTI_OK)
          << sentence(comm);
      for (const size_t i : places(count)) {
        ASSERT_EQ(theirs[i], uint8_t(i % 100 + size_t(1 - rank) * 100)) << i;
      }
    });
  }
}

}  // namespace
