// What the ranks of a communicator on GPUs tell each other through their hosts: how far they are,
// and whether they have failed or left. Each rank has a page that the others read, and sees whether
// the others' processes live. A GPU that waits for another one learns none of this.
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

  // Of this rank. The first failure is kept. Any thread, one at a time.
  void publish(uint64_t begun, uint64_t ended);
  void fail(const Status& why);
  void leave();

  struct Seen {
    uint64_t begun = 0, ended = 0;  // calls on the GPU, as of a few milliseconds ago
    bool left = false;              // has freed its communicator
    bool died = false;              // its process has ended, but has not left before
  };
  Seen look(int rank) const;
  // What a rank has failed with; OK if it has not.
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
  std::vector<Fd> processes_;  // pidfds of ranks in other processes
};

}  // namespace tutti
