// Collectives beside computation: begun in the same order on all ranks, moved on by the library's
// progress thread or in a stream of the GPU, waited for in that order.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "trainer/device/device.h"
#include "trainer/device/side_stream.h"
#include "tutti/tutti.hpp"

namespace tutti::train {

// Whether stream-ordered calls on the communicator can be had; on all ranks the same.
bool has_stream_calls(const communicator& comm, const Device& device);

// How a collective on a rank's vectors is begun, the same on the host and on a GPU. On the host it
// is nonblocking. On a GPU it is stream-ordered, `stream` not being null; where the library cannot
// do that it blocks. One that has nothing to wait for returns an empty request.
class Way {
 public:
  Way(const communicator& comm, const Device& device, const SideStream* stream)
      : comm_(comm), device_(device), stream_(stream) {}
  const communicator& comm() const { return comm_; }
  const Device& device() const { return device_; }

  request allreduce(void* vector, size_t count, tutti_dtype dtype,
                    const tutti_call_config& config) const;
  // Rank r gets counts[r] elements of the sum.
  request reduce_scatter(const void* vector, void* part, const std::vector<size_t>& counts,
                         tutti_dtype dtype, const tutti_call_config& config) const;
  // Of `all`, rank r has its counts[r] elements in their place, and gets the others.
  request allgather(void* all, const std::vector<size_t>& counts, tutti_dtype dtype) const;

 private:
  void settle() const;
  const communicator& comm_;
  const Device& device_;
  const SideStream* stream_;
};

class Calls {
 public:
  // Begins a call.
  using Begin = std::function<request(const Way&)>;
  // Collective: makes a communicator from `comm`, whose progress thread should be on. Unless
  // `beside`, a call begins when it is waited for.
  Calls(const communicator& comm, bool beside, const Device& device = {});
  // Calls that have not ended are aborted, on all ranks.
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // The call's number is that of calls since the last clear().
  void start(Begin begin);
  // Notes which have ended. Throws if one has failed.
  void look();
  // Until that call and all before it have ended. Throws if one has failed.
  void wait(size_t number);
  // From when the call could run, the one before it having ended, to when its end was noticed.
  struct Times {
    double begin = 0, end = 0;
  };
  Times times(size_t number) const { return entries_[number].times; }
  // All have been waited for.
  void clear();
  const communicator& comm() const { return comm_; }

 private:
  struct Entry {
    Begin begin;  // until it has begun
    request call;
    SideStream::Mark end;  // of a stream-ordered one
    Times times;
  };
  void begin(Entry& entry, const Begin& how);
  bool has_ended(Entry& entry);
  void end_next();

  communicator comm_;
  Device device_;
  std::unique_ptr<SideStream> stream_;
  bool beside_;
  std::deque<Entry> entries_;
  size_t ended_ = 0;
};

}  // namespace tutti::train
