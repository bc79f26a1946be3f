// IP addresses and network interfaces.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace tutti {

// An IPv4 or IPv6 address with a port.
struct Address {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };

  Address() : v6{} {}
  static Address loopback();

  bool is_v4() const { return any.sa_family == AF_INET; }
  socklen_t length() const { return is_v4() ? sizeof(v4) : sizeof(v6); }
  uint16_t port() const { return ntohs(is_v4() ? v4.sin_port : v6.sin6_port); }
  void set_port(uint16_t port) { (is_v4() ? v4.sin_port : v6.sin6_port) = htons(port); }
  bool is_loopback() const;
  bool is_wildcard() const;
  bool is_link_local() const;  // IPv6's

  std::string host() const;  // "10.0.0.1", "fe80::1%2"; "?" for no address at all
  std::string text() const;  // "10.0.0.1:4711", "[::1]:4711"

  // 24 bytes: family, port, scope, address.
  static constexpr size_t packed_bytes = 24;
  void pack(uint8_t* at) const;
  static bool unpack(const uint8_t* at, Address* out);
};

struct Interface {
  std::string name;
  Address address;
};
// The addresses of the interfaces that are up, link-local IPv6 ones last.
Status interfaces(std::vector<Interface>* out);
// The first of them that is not loopback; the port is 0. UNSUPPORTED: there is none.
Status first_outward(Address* out);

// From an interface's name or an address of this host; the port is 0. INVALID, with a list of the
// interfaces, for anything else and for the wildcard address: tutti listens on one address only.
Status resolve_interface(const std::string& name, Address* out);

// The address of a host, given by name or number, from the system's resolver; IPv4 is preferred.
// TIMEOUT: the resolver, which may ask servers, has not answered.
Status resolve_host(const std::string& host, uint16_t port, uint64_t deadline_ns, Address* out);

}  // namespace tutti
