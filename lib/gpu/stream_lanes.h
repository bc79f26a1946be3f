// Plans on the memory of GPUs: the two lanes of a plan become two streams, forked from the caller's
// and joined with it. A message goes in slices through two slots that its receiver keeps for its
// sender; where a record waits for the other lane its stream waits for an event. So any algorithm
// runs there, step by step.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/gpu/stream_kernels.h"
#include "lib/plan/plan.h"

namespace tutti::plan {

class StreamLanes {
 public:
  static Status open(const StreamKernels& kernels, std::unique_ptr<StreamLanes>* out);
  ~StreamLanes();  // its streams must be idle

  // For calls that the program gives no stream.
  device::Stream outgoing_stream() const { return outgoing_.stream; }

  // `binding` must be bound. `scratch`: as many bytes as it asks for. `stream` may be that of a
  // lane.
  Status enqueue(const StreamCall& call, const Binding& binding, Address scratch,
                 device::Stream stream);

 private:
  // How much of a lane's work has been enqueued.
  struct Progress {
    uint32_t records = 0;
    uint64_t bytes = 0;  // of the next one
    bool operator==(const Progress&) const = default;
    bool operator<(const Progress& other) const {
      return records < other.records || (records == other.records && bytes < other.bytes);
    }
  };
  struct Lane {
    device::Stream stream = nullptr;
    const std::vector<Record>* records = nullptr;
    const BoundRecord* places = nullptr;
    Progress now;
    Progress nothing;                   // up to here there was nothing to do
    Progress awaited;                   // how far the other lane's stream waits for this one
    std::vector<Progress> marks;        // where it was at each of the call's events
    std::vector<device::Event> events;  // kept; grow to what the plans need
    // Of the current message, which may be several records on either side: the bytes left, the size
    // of the slice for the current slot, and how much of that slice has been enqueued.
    uint64_t message = 0, slice = 0, filled = 0;
    // Slices so far, by peer: which slot comes next.
    std::array<uint8_t, device::most_ranks> slices{};

    bool ended() const { return now.records == records->size(); }
  };

  explicit StreamLanes(const StreamKernels& kernels) : kernels_(kernels) {}
  Status begin(const StreamCall& call, const Binding& binding, Address scratch,
               device::Stream stream);
  // Joins the lanes; then divides averages, or makes logical values 0 or 1.
  Status end(device::Stream stream);
  // Enqueues the next slice of a lane, if the other one is far enough.
  Status step(Lane* lane, Lane* other, bool* moved);
  uint64_t most_bytes(const Record& record, const BoundRecord& place, const Lane& other) const;
  // Makes the stream wait until the other lane has got to where the record may be done up to
  // `upto`.
  Status follow(Lane* other, const Record& record, uint64_t upto, device::Stream stream);
  Status mark(Lane* lane);
  void begin_slice(Lane* lane) const;
  void count(Lane* lane, uint32_t peer, uint64_t bytes) const;
  Status send(const Record& record, Address from, uint64_t bytes);
  Status receive(const Record& record, const BoundRecord& place, uint64_t done, uint64_t bytes);
  Status work(const Record& record, const BoundRecord& place, uint64_t done, uint64_t bytes);
  Address at(Memory memory, uint64_t offset) const { return bases_[size_t(memory)] + offset; }

  const StreamKernels& kernels_;
  Lane outgoing_, incoming_;
  device::Event forked_ = nullptr, joined_ = nullptr;
  // Of the call that is being enqueued.
  const StreamCall* call_ = nullptr;
  const Binding* binding_ = nullptr;
  Address bases_[4] = {};
};

}  // namespace tutti::plan
