// What the ranks of a communicator on GPUs tell each other by way of their hosts: how far they are,
// that one has failed, that one has gone. A page of each rank's, which the others read; and whether
// their processes live. Where a rank's GPU waits for another's, nothing else would say.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/status.h"
#include "lib/control/exchange.h"

namespace tutti {

class PeerStatusPage {
 public:
  // Collective; all ranks are on one host.
  static Status open(Exchange& exchange, uint64_t deadline_ns,
                     std::unique_ptr<PeerStatusPage>* out);
  ~PeerStatusPage();

  // Of this rank. The first failure stays. Any thread, one at a time.
  void publish(uint64_t begun, uint64_t ended);
  void fail(const Status& why);
  void leave();

  struct Seen {
    uint64_t begun = 0, ended = 0;  // calls on the GPU, as of a few milliseconds ago
    bool left = false;              // has freed its communicator
    bool dead = false;              // its process has ended
  };
  Seen look(int rank) const;
  // What a rank has failed with; OK.
  Status failure_of(int rank) const;

  int rank() const { return rank_; }
  int nranks() const { return int(pages_.size()); }

 private:
  struct Page;
  struct Introduction;
  PeerStatusPage() = default;
  Status make_own(Fd* memory);
  Status map(int rank, const Introduction& other);

  int rank_ = 0;
  std::vector<Page*> pages_;
  std::vector<Fd> processes_;  // of the ranks that live in others
};

}  // namespace tutti
