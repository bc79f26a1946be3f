// What the ranks of a trial do: a random sequence of calls, every result of which is checked.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::testing {

inline int32_t value(int call, int rank, size_t i) {
  return int32_t(uint32_t(call) * 7919u + uint32_t(rank) * 104'729u + uint32_t(i) * 31u);
}

// One rank's part of the sequence, which is the same on all.
class Job {
 public:
  // `counts`: of the elements of a call.
  Job(tutti_comm comm, int rank, int nranks, uint64_t seed,
      const std::array<size_t, 4>& counts = {1, 100, 5'000, 60'000})
      : comm_(comm), rank_(rank), nranks_(nranks), random_(seed), counts_(counts) {}

  // False once a result is wrong.
  bool right() const { return right_; }

  tutti_status make(int call) {
    call_ = call;
    const size_t n = counts_[random_() % counts_.size()];
    const auto kind = random_() % 9;
    const int root = int(random_() % uint64_t(nranks_));
    const auto blocks = size_t(nranks_);
    const int32_t* const in = fill(n * (kind == 3 || kind == 6 ? blocks : 1));
    int32_t* const out = clear(n * blocks);
    switch (kind) {
      case 0:
        return checked(tutti_allreduce(in, out, n, TUTTI_INT32, TUTTI_SUM, comm_), n,
                       [&](size_t i) { return sum(i); });
      case 1: {
        std::copy_n(in, n, out);
        return checked(tutti_broadcast(out, n, TUTTI_INT32, root, comm_), n,
                       [&](size_t i) { return value(call_, root, i); });
      }
      case 2:
        return checked(tutti_allgather(in, out, n, TUTTI_INT32, comm_), n * blocks,
                       [&](size_t i) { return value(call_, int(i / n), i % n); });
      case 3:
        return checked(tutti_reduce_scatter_block(in, out, n, TUTTI_INT32, TUTTI_SUM, comm_), n,
                       [&](size_t i) { return sum(size_t(rank_) * n + i); });
      case 4: {
        const int from = (rank_ + nranks_ - 1) % nranks_;
        return checked(tutti_sendrecv(in, n, (rank_ + 1) % nranks_, call_, out, n, from, call_,
                                      TUTTI_INT32, comm_),
                       n, [&](size_t i) { return value(call_, from, i); });
      }
      case 5:
        return nonblocking(in, out, n, root);
      case 6:
        return checked(tutti_alltoall(in, out, n, TUTTI_INT32, comm_), n * blocks, [&](size_t i) {
          return value(call_, int(i / n), size_t(rank_) * n + i % n);
        });
      case 7:
        return from_any(in, out, n, root);
      default:
        return tutti_barrier(comm_);
    }
  }

 private:
  const int32_t* fill(size_t n) {
    in_.resize(n);
    for (size_t i = 0; i < n; ++i) in_[i] = value(call_, rank_, i);
    return in_.data();
  }
  int32_t* clear(size_t n) {
    out_.assign(n, -1);
    return out_.data();
  }
  int32_t sum(size_t i) const {
    uint32_t all = 0;
    for (int rank = 0; rank < nranks_; ++rank) all += uint32_t(value(call_, rank, i));
    return int32_t(all);
  }
  template <class Expected>
  tutti_status checked(tutti_status status, size_t n, Expected&& expected, size_t from = 0) {
    for (size_t i = 0; status == TUTTI_OK && i < n; ++i)
      right_ = right_ && out_[from + i] == expected(i);
    return status;
  }
  // All have ended afterwards.
  tutti_status wait_for(std::vector<tutti_request>& requests, tutti_status begun) {
    const tutti_status ended = tutti_waitall(requests.size(), requests.data());
    return begun != TUTTI_OK ? begun : ended;
  }

  tutti_status nonblocking(const int32_t* in, int32_t* out, size_t n, int root) {
    std::vector<tutti_request> requests(2);
    tutti_status begun =
        tutti_iallreduce(in, out, n, TUTTI_INT32, TUTTI_SUM, comm_, nullptr, &requests[0]);
    std::copy_n(in, n, out + n);
    if (begun == TUTTI_OK) {
      begun = tutti_ibroadcast(out + n, n, TUTTI_INT32, root, comm_, nullptr, &requests[1]);
    }
    const tutti_status status = wait_for(requests, begun);
    checked(status, n, [&](size_t i) { return sum(i); });
    return checked(
        status, n, [&](size_t i) { return value(call_, root, i); }, n);
  }

  tutti_status from_any(const int32_t* in, int32_t* out, size_t n, int root) {
    if (rank_ != root) return tutti_send(in, n, TUTTI_INT32, root, call_, comm_);
    std::vector<tutti_request> requests(size_t(nranks_) - 1);
    std::vector<int> sources(requests.size(), -1);
    tutti_status begun = TUTTI_OK;
    for (size_t k = 0; k < requests.size() && begun == TUTTI_OK; ++k)
      begun = tutti_irecv_any(out + k * n, n, TUTTI_INT32, call_, &sources[k], comm_, nullptr,
                              &requests[k]);
    const tutti_status status = wait_for(requests, begun);
    for (size_t k = 0; k < requests.size(); ++k)
      checked(
          status, n, [&](size_t i) { return value(call_, sources[k], i); }, k * n);
    std::sort(sources.begin(), sources.end());
    if (status == TUTTI_OK) {
      right_ = right_ && std::adjacent_find(sources.begin(), sources.end()) == sources.end();
    }
    return status;
  }

  tutti_comm comm_;
  int rank_, nranks_;
  std::mt19937_64 random_;
  std::array<size_t, 4> counts_;
  int call_ = 0;
  bool right_ = true;
  std::vector<int32_t> in_, out_;
};

}  // namespace tutti::testing
