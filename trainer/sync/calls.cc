#include "trainer/sync/calls.h"

#include <algorithm>
#include <cstddef>

#include "trainer/common/call.h"
#include "trainer/common/timeline.h"

namespace tutti::train {
namespace {

bool all_equal(const std::vector<size_t>& counts) {
  return std::all_of(counts.begin(), counts.end(), [&](size_t n) { return n == counts.front(); });
}

}  // namespace

bool has_stream_calls(const communicator& comm, const Device& device) {
  if (!device.is_gpu() || comm.size() == 1) return false;
  const tutti_status status = tutti_barrier_on(comm.get(), nullptr, nullptr);
  if (status == TUTTI_UNSUPPORTED) return false;
  check(status, comm);
  return true;
}

// ---------------------------------------------------------------- one call

// Waits for the device's pending work on the vectors, or orders the stream after it: the call may
// read them at once.
void Way::settle() const {
  if (stream_)
    stream_->follow();
  else
    device_.wait();
}

void Way::must(tutti_status status) const { check(status, comm_); }

request Way::allreduce(void* vector, size_t count, tutti_dtype dtype,
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

request Way::reduce_scatter(const void* vector, void* part, const std::vector<size_t>& counts,
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
    must(tutti_ireduce_scatter(vector, part, counts.data(), dtype, TUTTI_SUM, comm_.get(), &config,
                               &begun));
  }
  return request(begun);
}

request Way::allgather(void* all, const std::vector<size_t>& counts, tutti_dtype dtype) const {
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

// ---------------------------------------------------------------- overlap with computation

Calls::Calls(const communicator& comm, bool beside, const Device& device)
    : comm_(comm.dup()), device_(device), beside_(beside && comm.size() > 1) {
  if (!device.is_gpu()) return;
  if (has_stream_calls(comm_, device))
    stream_ = std::make_unique<SideStream>();
  else
    beside_ = false;
}

Calls::~Calls() {
  if (ended_ < entries_.size()) comm_.abort("the trainer ends");
}

void Calls::start(Begin begin) {
  Entry& entry = entries_.emplace_back();
  entry.times.begin = now();
  if (beside_)
    this->begin(entry, begin);
  else
    entry.begin = std::move(begin);
}

void Calls::begin(Entry& entry, const Begin& how) {
  entry.call = how(Way(comm_, device_, stream_.get()));
  if (stream_) entry.end = stream_->mark();
}

bool Calls::has_ended(Entry& entry) {
  if (!stream_) return entry.call.test();
  if (!entry.end.passed()) return false;
  check(tutti_comm_device_status(comm_.get()), comm_);
  return true;
}

void Calls::look() {
  while (beside_ && ended_ < entries_.size() && has_ended(entries_[ended_])) end_next();
}

void Calls::wait(size_t number) {
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

void Calls::end_next() {
  Times& times = entries_[ended_].times;
  times.end = now();
  if (ended_ > 0) times.begin = std::max(times.begin, entries_[ended_ - 1].times.end);
  ++ended_;
}

void Calls::clear() {
  entries_.clear();
  ended_ = 0;
}

}  // namespace tutti::train
