// What a communicator has sent, as the library's counters say.
#pragma once

#include "trainer/sync/volume.h"
#include "tutti/tutti.hpp"

namespace tutti::train {

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
