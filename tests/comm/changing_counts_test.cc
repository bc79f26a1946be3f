// Calls whose counts change all the time: nothing is allocated for a count that was not seen
// before, and what is in flight keeps its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/thread_comm.h"

namespace {

thread_local uint64_t allocations = 0;

void* allocate(size_t bytes, size_t alignment) {
  ++allocations;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, rounded != 0 ? rounded : alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, size_t(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::aligned_alloc(
      __STDCPP_DEFAULT_NEW_ALIGNMENT__,
      (bytes / __STDCPP_DEFAULT_NEW_ALIGNMENT__ + 1) * __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

using tutti::testing::on_comm;
using tutti::testing::sentence;

constexpr size_t most = 700;  // elements of a block
constexpr int most_ranks = 3;

class Caller {
 public:
  Caller(int rank, int nranks, tutti_comm comm)
      : rank_(rank), n_(size_t(nranks)), comm_(comm), in_(most * most_ranks), out_(in_.size()) {}

  // `what` of so many elements; false where there are no more kinds of calls.
  bool call(int what, size_t count) {
    for (size_t i = 0; i < in_.size(); ++i) in_[i] = value(size_t(rank_), i);
    std::fill(out_.begin(), out_.end(), -1.0);
    // Of v forms: block r has r elements more, as far as there is room.
    for (size_t r = 0; r < n_; ++r) lengths_[r] = std::min(count + r, most);
    const size_t own = lengths_[rank_];
    std::fill(same_.begin(), same_.end(), count);
    tutti_status status = TUTTI_OK;
    const double *in = in_.data(), *none = nullptr;
    double* const out = out_.data();
    const auto type = TUTTI_FLOAT64;
    switch (what) {
      case 0:
        status = tutti_allreduce(in, out, count, type, TUTTI_SUM, comm_);
        break;
      case 1:
        status = tutti_reduce(in, out, count, type, TUTTI_SUM, 0, comm_);
        break;
      case 2:
        status = tutti_broadcast(rank_ == 1 ? in_.data() : out, count, type, 1, comm_);
        break;
      case 3:
        status = tutti_allgather(in, out, count, type, comm_);
        break;
      case 4:
        status = tutti_gather(in, out, count, type, 0, comm_);
        break;
      case 5:
        status = tutti_scatter(in, out, count, type, 0, comm_);
        break;
      case 6:
        status = tutti_alltoall(in, out, count, type, comm_);
        break;
      case 7:
        status = tutti_reduce_scatter_block(in, out, count, type, TUTTI_SUM, comm_);
        break;
      case 8:
        status = tutti_scan(in, out, count, type, TUTTI_SUM, comm_);
        break;
      case 9:
        status = tutti_exscan(in, out, count, type, TUTTI_SUM, comm_);
        break;
      case 10:
        status = tutti_allgatherv(in, own, out, lengths_, nullptr, type, comm_);
        break;
      case 11:
        status = tutti_gatherv(in, own, out, lengths_, nullptr, type, 0, comm_);
        break;
      case 12:
        status =
            tutti_scatterv(rank_ == 0 ? in : none, lengths_, nullptr, out, own, type, 0, comm_);
        break;
      case 13:
        status = tutti_reduce_scatter(in, out, lengths_, type, TUTTI_SUM, comm_);
        break;
      case 14:
        status =
            tutti_alltoallv(in, same_.data(), nullptr, out, same_.data(), nullptr, type, comm_);
        break;
      default:
        return false;
    }
    EXPECT_EQ(status, TUTTI_OK) << what << ", " << count << ": " << sentence(comm_);
    check(what, count);
    return true;
  }

 private:
  static double value(size_t rank, size_t i) { return double(1000 * (rank + 1) + i); }
  // Of ranks 0 to `ranks`, that one not included.
  static double sum(size_t ranks, size_t i) {
    double total = 0;
    for (size_t r = 0; r < ranks; ++r) total += value(r, i);
    return total;
  }
  size_t before(size_t rank) const { return std::accumulate(lengths_, lengths_ + rank, size_t{0}); }

  // The first and the last element of each block that this rank gets.
  void check(int what, size_t count) const {
    const auto rank = size_t(rank_);
    const bool first = rank_ == 0;
    for (const size_t i : {size_t{0}, count - 1}) {
      const auto is = [&](size_t at, double expected) {
        EXPECT_EQ(out_[at], expected) << what << ", " << count << ", element " << at;
      };
      for (size_t r = 0; r < n_; ++r) {
        if (what == 3 || (what == 4 && first)) is(r * count + i, value(r, i));
        if (what == 10 || (what == 11 && first)) is(before(r) + i, value(r, i));
        if (what == 6 || what == 14) is(r * count + i, value(r, rank * count + i));
      }
      if (what == 0 || (what == 1 && first)) is(i, sum(n_, i));
      if (what == 2 && rank_ != 1) is(i, value(1, i));
      if (what == 5) is(i, value(0, rank * count + i));
      if (what == 7) is(i, sum(n_, rank * count + i));
      if (what == 8) is(i, sum(rank + 1, i));
      if (what == 9 && !first) is(i, sum(rank, i));
      if (what == 12) is(i, value(0, before(rank) + i));
      if (what == 13) is(i, sum(n_, before(rank) + i));
    }
  }

  int rank_;
  size_t n_;
  tutti_comm comm_;
  std::vector<double> in_, out_;
  size_t lengths_[most_ranks] = {};
  std::array<size_t, most_ranks> same_{};
};

class ChangingCounts : public ::testing::TestWithParam<const char*> {};

// Over shared memory: a rank that runs ahead over sockets may make its queue of frames longer.
class Warm : public ::testing::TestWithParam<const char*> {};

TEST_P(Warm, CallsAllocateNothingForACountThatWasNotSeenBefore) {
  for (const int nranks : {2, 3}) {
    on_comm(nranks, GetParam(), [&](int rank, tutti_comm comm) {
      Caller caller(rank, nranks, comm);
      // The longest of each class, so that all scratch is there.
      for (size_t count = 1; count < most; count *= 2) {
        for (int what = 0; caller.call(what, std::min(count, most - 2)); ++what) continue;
      }
      for (int what = 0; caller.call(what, most - 2); ++what) continue;
      // A rank that has waited for long looks for a cycle of ranks, which may allocate: so there
      // are three tries, each of counts that none before it had.
      std::string made;
      int clean = 0;
      for (size_t attempt = 0; attempt < 3; ++attempt) {
        const uint64_t before = allocations;
        uint64_t now = before;
        for (size_t i = attempt; i < 300; i += 3) {
          const size_t count = 1 + i * 37 % (most - 3);
          for (int what = 0; caller.call(what, count); ++what) {
            if (allocations != now)
              made += std::to_string(what) + " of " + std::to_string(count) + "; ";
            now = allocations;
          }
          if (::testing::Test::HasFailure()) return;
        }
        clean += now == before;
      }
      EXPECT_GT(clean, 0) << made;
    });
  }
}

// Each is begun with another count while those before it are in flight.
TEST_P(ChangingCounts, InFlightTogetherAreAllRight) {
  constexpr size_t together = 24;
  on_comm(3, GetParam(), [&](int rank, tutti_comm comm) {
    std::vector<std::vector<uint64_t>> in(together), out(together);
    for (size_t round = 0; round < 40; ++round) {
      tutti_request requests[together] = {};
      for (size_t k = 0; k < together; ++k) {
        const size_t count = 65 + (round * 31 + k * 7) % 64;
        in[k].assign(count, 0);
        std::iota(in[k].begin(), in[k].end(), uint64_t(rank) * 1000 + k + round);
        out[k].assign(count, 0);
        ASSERT_EQ(tutti_iallreduce(in[k].data(), out[k].data(), count, TUTTI_UINT64, TUTTI_SUM,
                                   comm, nullptr, &requests[k]),
                  TUTTI_OK)
            << sentence(comm);
      }
      for (size_t k = 0; k < together; ++k) {
        ASSERT_EQ(tutti_wait(&requests[k]), TUTTI_OK) << sentence(comm);
        for (size_t i = 0; i < out[k].size(); ++i) {
          ASSERT_EQ(out[k][i], 3000 + 3 * (k + round + i)) << k << ", element " << i;
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Warm, ::testing::Values("inproc", "shm"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Transports, ChangingCounts, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
