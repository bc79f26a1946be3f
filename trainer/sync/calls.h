// Collectives that overlap with computation: started in the same order on all ranks, advanced by
// the library's progress thread or in a stream of the GPU, waited for in that order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "trainer/common/call.h"
#include "trainer/common/timeline.h"
#include "trainer/device/device.h"
#include "trainer/device/side_stream.h"
#include "tutti/tutti.hpp"

namespace tutti::train {

// Whether the communicator supports stream-ordered calls; the same on all ranks.
inline bool has_stream_calls(const communicator& comm, const Device& device) {
  if (!device.is_gpu() || comm.size() == 1) return false;
  const tutti_status status = tutti_barrier_on(comm.get(), nullptr, nullptr);
  if (status == TUTTI_UNSUPPORTED) return false;
  check(status, comm);
  return true;
}

inline bool all_equal(const std::vector<size_t>& counts) {
  return std::all_of(counts.begin(), counts.end(), [&](size_t n) { return n == counts.front(); });
}

class Calls {
 public:
  // Starts a call, by one of the three below.
  using Begin = std::function<request()>;
  // Collective: makes a communicator from `comm`, whose progress thread should be on. Unless
  // `beside`, a call starts when it is waited for.
  Calls(const communicator& comm, bool beside, const Device& device = {})
      : comm_(comm.dup()), device_(device), beside_(beside && comm.size() > 1) {
    if (!device.is_gpu()) return;
    if (has_stream_calls(comm_, device))
      stream_ = std::make_unique<SideStream>();
    else
      beside_ = false;
  }
  // Aborts calls that have not ended, on all ranks.
  ~Calls() {
    if (ended_ < entries_.size()) comm_.abort("the trainer ends");
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // The first call after clear() has number 0, the next one 1, and so on.
  void start(Begin begin) {
    Entry& entry = entries_.emplace_back();
    entry.times.begin = now();
    if (beside_)
      this->begin(entry, begin);
    else
      entry.begin = std::move(begin);
  }
  // Records which calls have ended, without waiting. Throws if one has failed.
  void look() {
    while (beside_ && ended_ < entries_.size() && has_ended(entries_[ended_])) end_next();
  }
  // Waits until that call and all before it have ended. Throws if one has failed.
  void wait(size_t number) {
    while (ended_ <= number) {
      Entry& entry = entries_[ended_];
      if (entry.begin) {
        entry.times.begin = now();
        begin(entry, entry.begin);
      }
      if (stream_) {
        entry.end.wait();
        check(tutti_comm_device_status(comm_.get()), comm_);
      } else {
        entry.call.wait();
      }
      end_next();
    }
  }
  // From when the call could run, the one before it having ended, to when its end was noticed.
  struct Times {
    double begin = 0, end = 0;
  };
  Times times(size_t number) const { return entries_[number].times; }
  // Only when all calls have been waited for.
  void clear() {
    entries_.clear();
    ended_ = 0;
  }
  const communicator& comm() const { return comm_; }
  const Device& device() const { return device_; }

  // To be called by a Begin: starts a collective on a rank's vectors, on the host or on a GPU. On
  // the host it is nonblocking. On a GPU it is stream-ordered, or blocking where the library cannot
  // do that. A call with nothing to wait for returns an empty request.
  request allreduce(void* vector, size_t count, tutti_dtype dtype,
                    const tutti_call_config& config) const {
    tutti_request begun = nullptr;
    settle();
    if (stream_)
      must(tutti_allreduce_on(TUTTI_IN_PLACE, vector, count, dtype, TUTTI_SUM, comm_.get(), &config,
                              stream_->handle()));
    else if (device_.is_gpu())
      must(tutti_allreduce_with(TUTTI_IN_PLACE, vector, count, dtype, TUTTI_SUM, comm_.get(),
                                &config));
    else
      must(tutti_iallreduce(TUTTI_IN_PLACE, vector, count, dtype, TUTTI_SUM, comm_.get(), &config,
                            &begun));
    return request(begun);
  }
  // Rank r gets counts[r] elements of the sum.
  request reduce_scatter(const void* vector, void* part, const std::vector<size_t>& counts,
                         tutti_dtype dtype, const tutti_call_config& config) const {
    tutti_request begun = nullptr;
    settle();
    if (stream_ && all_equal(counts)) {
      must(tutti_reduce_scatter_block_on(vector, part, counts[0], dtype, TUTTI_SUM, comm_.get(),
                                         &config, stream_->handle()));
    } else if (stream_) {
      // Parts of different lengths have no stream-ordered form: one reduce to each rank instead.
      tutti_call_config each = config;
      each.algorithm = nullptr;
      const auto* from = static_cast<const std::byte*>(vector);
      for (int r = 0; r < comm_.size(); ++r) {
        const size_t count = counts[size_t(r)];
        must(tutti_reduce_on(from, part, count, dtype, TUTTI_SUM, r, comm_.get(), &each,
                             stream_->handle()));
        from += count * tutti_dtype_size(dtype);
      }
    } else if (device_.is_gpu()) {
      must(tutti_reduce_scatter_with(vector, part, counts.data(), dtype, TUTTI_SUM, comm_.get(),
                                     &config));
    } else {
      must(tutti_ireduce_scatter(vector, part, counts.data(), dtype, TUTTI_SUM, comm_.get(),
                                 &config, &begun));
    }
    return request(begun);
  }
  // Rank r's counts[r] elements are already in their place in `all`; it receives the others.
  request allgather(void* all, const std::vector<size_t>& counts, tutti_dtype dtype) const {
    tutti_request begun = nullptr;
    settle();
    if (stream_ && all_equal(counts)) {
      must(tutti_allgather_on(TUTTI_IN_PLACE, all, counts[0], dtype, comm_.get(), nullptr,
                              stream_->handle()));
    } else if (stream_) {
      auto* at = static_cast<std::byte*>(all);  // as above: one broadcast from each rank
      for (int r = 0; r < comm_.size(); ++r) {
        const size_t count = counts[size_t(r)];
        must(tutti_broadcast_on(at, count, dtype, r, comm_.get(), nullptr, stream_->handle()));
        at += count * tutti_dtype_size(dtype);
      }
    } else if (device_.is_gpu()) {
      must(tutti_allgatherv(TUTTI_IN_PLACE, 0, all, counts.data(), nullptr, dtype, comm_.get()));
    } else {
      must(tutti_iallgatherv(TUTTI_IN_PLACE, 0, all, counts.data(), nullptr, dtype, comm_.get(),
                             nullptr, &begun));
    }
    return request(begun);
  }

 private:
  struct Entry {
    Begin begin;  // until the call starts
    request call;
    SideStream::Mark end;  // of a stream-ordered call
    Times times;
  };
  void begin(Entry& entry, const Begin& how) {
    entry.call = how();
    if (stream_) entry.end = stream_->mark();
  }
  bool has_ended(Entry& entry) {
    if (!stream_) return entry.call.test();
    if (!entry.end.passed()) return false;
    check(tutti_comm_device_status(comm_.get()), comm_);
    return true;
  }
  void end_next() {
    Times& times = entries_[ended_].times;
    times.end = now();
    if (ended_ > 0) times.begin = std::max(times.begin, entries_[ended_ - 1].times.end);
    ++ended_;
  }

  // Waits for the device's pending work on the vectors, or orders the stream after it: the call may
  // read them at once.
  void settle() const {
    if (stream_)
      stream_->follow();
    else
      device_.wait();
  }
  void must(tutti_status status) const { check(status, comm_); }
  communicator comm_;
  Device device_;
  std::unique_ptr<SideStream> stream_;
  bool beside_;
  std::deque<Entry> entries_;
  size_t ended_ = 0;
};

}  // namespace tutti::train
