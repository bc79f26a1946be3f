// The data connections of a link, each made when its pair first uses it: the lower rank listens
// while it expects somebody, the higher one calls, behind the same handshake as when the
// communicator was made. Stepped by the link's waits; never blocks.
#pragma once

#include <poll.h>

#include <optional>
#include <vector>

#include "transports/stream/mesh.h"

namespace tutti::tcp {

class LateConnections {
 public:
  struct Made {
    int peer;
    SecureSocket socket;
  };

  explicit LateConnections(Terms terms) : terms_(std::move(terms)) {}

  bool is_listener(int peer) const { return terms_.self < peer; }
  bool is_busy() const { return !expected_.empty() || !callers_.empty(); }

  // This rank expects the higher one's call at *at.
  Status expect(int peer, Address* at);
  // Calls the lower one.
  void call(int peer, const Address& at);
  bool is_calling(int peer) const;
  // The peer will not call, and need not be called.
  void forget(int peer);

  // Goes as far as possible without waiting, and appends those that were made to *made.
  Status advance(uint64_t now_ns, std::vector<Made>* made);
  void watch(std::vector<pollfd>& set) const;
  uint64_t due_ns() const;
  void close();

 private:
  Status admit(Acceptor::Guest guest, std::vector<Made>* made);

  Terms terms_;
  Address at_;  // where it listens
  std::optional<Acceptor> acceptor_;
  std::vector<int> expected_;
  std::vector<Caller> callers_;
};

}  // namespace tutti::tcp
