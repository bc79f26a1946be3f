// Passing descriptors among processes of one host, over a Unix socket in the abstract namespace.
// One of them hosts the meeting; its ticket, which is secret, must first reach the others over a
// trusted channel (an Exchange).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/status.h"

namespace tutti {

// The first third names the socket, the rest proves that its bearer took part in the exchange.
struct Ticket {
  uint8_t bytes[24] = {};
};

class Meeting {
 public:
  // The host's side: opens the socket.
  static Status host(Meeting* out);
  const Ticket& ticket() const { return ticket_; }

  // *out: the descriptors of all, by local index: the host (0) gives `own`; a member (1 and up)
  // that gave none has an empty Fd. `members` counts the host too. `look(local)` looks for a reason
  // why that member does not come.
  Status share(size_t members, Fd own, uint64_t deadline_ns,
               const std::function<Status(uint32_t)>& look, std::vector<Fd>* out);

 private:
  Status admit(std::vector<Fd>* callers, std::vector<Fd>* given, uint64_t deadline_ns);

  Ticket ticket_;
  Fd listener_;
};

// A member's side.
Status share(const Ticket& ticket, size_t members, uint32_t self, const Fd& own,
             uint64_t deadline_ns, std::vector<Fd>* out);

}  // namespace tutti
