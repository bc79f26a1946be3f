// Passes file descriptors among processes of one host, over a Unix socket in the abstract
// namespace. One of them hosts the meeting; its ticket, which is secret, must first reach the
// others over a trusted channel (an Exchange).
//
// Any step may fail on one rank alone, so nobody waits for a rank that may have failed: the others
// come to the meeting, then all agree() that they have, then the host shares, and closes the
// connections also where it cannot.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/status.h"

namespace tutti {

// The first third names the socket, the rest proves that its bearer took part in the exchange.
struct Ticket {
  uint8_t bytes[24] = {};
};

// The host's side.
class Meeting {
 public:
  // Opens the socket.
  static Status host(Meeting* out);
  const Ticket& ticket() const { return ticket_; }

  // Once all others have come, and only once. *out: the descriptors of all, by local index: the
  // host (0) gives `own`; a member (1 and up) that gave none has an empty Fd. `members` counts the
  // host too. PEER_FAILED, with a local index for its rank, if one has gone.
  Status share(size_t members, Fd own, std::vector<Fd>* out);

 private:
  Ticket ticket_;
  Fd listener_;
};

// A member's side.
class Visit {
 public:
  // Comes to the meeting, and gives `own` if that is a descriptor. Waits for nobody.
  static Status come(const Ticket& ticket, uint32_t self, const Fd& own, Visit* out);
  // What the host shares; PEER_FAILED of local index 0 if it does not.
  Status receive(size_t members, uint64_t deadline_ns, std::vector<Fd>* out);

 private:
  Fd host_;
};

}  // namespace tutti
