// TCP sockets as tutti wants them: non-blocking, closed on exec, bound to one address.
#pragma once

#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/status.h"
#include "lib/control/address.h"

namespace tutti {

// SYSTEM or NO_MEMORY, with the limit where a limit is what stopped it.
Status resource_error(const std::string& what, int error_number);

Status make_socket(const Address& like, Fd* out);
// Listens on the address; port 0: one of the system's choice. *address becomes the bound one.
Status listen_on(Address* address, Fd* out);
// What the socket is bound to, or talks to.
Address local_address(int fd);
// No delay, and a dead host is noticed: after `limit_ms` without an answer, also on an idle
// connection. 0: an unanswered write may wait as long as the kernel's own limit.
void tune(int fd, int limit_ms);
// Ends what is sent, and throws away what has come that nobody will take: the kernel would answer
// it with a reset, which can cut off what the peer has yet to get.
void close_in_order(int fd);

// One of the few places that sleep in the kernel: until an event, or until `until_ns`.
Status wait_for_events(std::vector<pollfd>& set, uint64_t until_ns);

}  // namespace tutti
