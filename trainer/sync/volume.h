// Bytes and messages that are sent: as the library counts them, and those of the busiest rank of a
// collective by the formulas that `tutti verify` derives from the algorithms' schedules (README.md,
// "The algorithms").
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include "trainer/parallel/split.h"
#include "tutti/tutti.hpp"

namespace tutti::train {

// "1.23 MB".
std::string megabytes(double bytes);

inline constexpr Volume no_formula{std::numeric_limits<double>::quiet_NaN(),
                                   std::numeric_limits<double>::quiet_NaN()};
// Of an allreduce of `bytes` over `ranks` by the named algorithm, two-level in pairs.
Volume allreduce_volume(const std::string& algorithm, int ranks, double bytes);
// Of a reduce_scatter or an allgather of vectors of `bytes` in all; the messages those of direct.
Volume scatter_volume(int ranks, double bytes);
// Of tutti_topk_allreduce() of k values of 4 bytes from each rank, their indices spread evenly over
// the vector. An upper bound, reached where no two ranks send the same index.
Volume topk_volume(int ranks, size_t k);
// How many of `count` values --topk sends; at least one.
size_t largest_of(double fraction, size_t count);

// What a communicator has sent, by its counters.
class Meter {
 public:
  explicit Meter(const communicator& comm) : comm_(comm), before_(comm.counters()) {}
  // Sent since the last call of sent(), or since the meter was made.
  Volume sent() {
    const tutti_comm_counters now = comm_.counters();
    const Volume sent{double(now.bytes_sent - before_.bytes_sent),
                      double(now.messages_sent - before_.messages_sent)};
    before_ = now;
    return sent;
  }

 private:
  const communicator& comm_;
  tutti_comm_counters before_;
};

}  // namespace tutti::train
