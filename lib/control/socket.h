// TCP sockets as tutti wants them: non-blocking, closed on exec, bound to one address.
#pragma once

#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/status.h"
#include "lib/control/address.h"
#include "lib/control/heartbeat.h"

namespace tutti {

// SYSTEM or NO_MEMORY; the text names the limit that was reached, if one was.
Status resource_error(const std::string& what, int error_number);

// After `error_number`: whether it was for want of descriptors and the process's limit has been
// raised to the most that it may have, so that another try is worth it. *tried: false at the first.
bool raise_descriptor_limit(int error_number, bool* tried);

// Takes so many descriptors (copies of `fd`) for what will be opened later, and raises the
// process's limit to the most that it may have where that is needed. SYSTEM names `what` and the
// limit.
Status reserve_descriptors(int fd, size_t count, const std::string& what, std::vector<Fd>* out);

Status make_socket(const Address& like, Fd* out);
// Listens on the address; port 0: one of the system's choice. *address becomes the bound one.
Status listen_on(Address* address, Fd* out);
// The address that the socket is bound to.
Address local_address(int fd);
// The address at the other end; none ("?") where it is not connected.
Address peer_address(int fd);
// Whether both ends are on this host: then nothing can come between them.
bool is_within_host(int fd);
// Of what was sent on a TCP connection.
int unacknowledged_bytes(int fd);
// What the kernel knows of the other end of a TCP connection.
Contact contact_of(int fd);
// TCP_NODELAY, and a dead host is noticed: after `limit_s` without an answer, also on an idle
// connection; probes go out four times in that time. 0: it need not be noticed here. Nor is it
// within one host, where it cannot be and probes of thousands of connections would be a load.
void tune(int fd, int limit_s);
// A limit for tune(): after a heartbeat (heartbeat.h) has found the host lost, and `least_s` at
// least.
int later_than_beats_s(uint64_t heartbeat_ns, int least_s);
// Ends the sending side and discards what was received but not read: closing with such bytes makes
// the kernel send a reset, which can discard what the peer has not yet read.
void close_in_order(int fd);

// One of the few places that sleep in the kernel: until an event, or until `until_ns`.
Status wait_for_events(std::vector<pollfd>& set, uint64_t until_ns);

}  // namespace tutti
