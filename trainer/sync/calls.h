// Collectives that overlap with computation: started in the same order on all ranks, advanced by
// the library's progress thread or in a stream of the GPU, waited for in that order.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "trainer/device/device.h"
#include "trainer/device/side_stream.h"
#include "tutti/tutti.hpp"

namespace tutti::train {

// Whether the communicator supports stream-ordered calls; the same on all ranks.
bool has_stream_calls(const communicator& comm, const Device& device);

// Starts a collective on a rank's vectors, on the host or on a GPU. On the host it is nonblocking.
// On a GPU it is stream-ordered if `stream` is not null, and blocking where the library cannot do
// that. A call with nothing to wait for returns an empty request.
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
  // Rank r's counts[r] elements are already in their place in `all`; it receives the others.
  request allgather(void* all, const std::vector<size_t>& counts, tutti_dtype dtype) const;

 private:
  void settle() const;
  void must(tutti_status status) const;
  const communicator& comm_;
  const Device& device_;
  const SideStream* stream_;
};

class Calls {
 public:
  // Starts a call.
  using Begin = std::function<request(const Way&)>;
  // Collective: makes a communicator from `comm`, whose progress thread should be on. Unless
  // `beside`, a call starts when it is waited for.
  Calls(const communicator& comm, bool beside, const Device& device = {});
  // Aborts calls that have not ended, on all ranks.
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // The first call after clear() has number 0, the next one 1, and so on.
  void start(Begin begin);
  // Records which calls have ended, without waiting. Throws if one has failed.
  void look();
  // Waits until that call and all before it have ended. Throws if one has failed.
  void wait(size_t number);
  // From when the call could run, the one before it having ended, to when its end was noticed.
  struct Times {
    double begin = 0, end = 0;
  };
  Times times(size_t number) const { return entries_[number].times; }
  // Only when all calls have been waited for.
  void clear();
  const communicator& comm() const { return comm_; }

 private:
  struct Entry {
    Begin begin;  // until the call starts
    request call;
    SideStream::Mark end;  // of a stream-ordered call
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
