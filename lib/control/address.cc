#include "lib/control/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

#include "lib/base/fd.h"
#include "lib/control/bytes.h"
#include "lib/control/socket.h"

namespace tutti {

namespace {

bool same_host(const Address& a, const Address& b) {
  if (a.any.sa_family != b.any.sa_family) return false;
  if (a.is_v4()) return a.v4.sin_addr.s_addr == b.v4.sin_addr.s_addr;
  return std::memcmp(&a.v6.sin6_addr, &b.v6.sin6_addr, 16) == 0;
}

bool parse_number(const std::string& text, Address* out) {
  Address address;
  const size_t percent = text.find('%');
  if (inet_pton(AF_INET, text.c_str(), &address.v4.sin_addr) == 1) {
    address.v4.sin_family = AF_INET;
  } else if (inet_pton(AF_INET6, text.substr(0, percent).c_str(), &address.v6.sin6_addr) == 1) {
    address.v6.sin6_family = AF_INET6;
    if (percent != std::string::npos) {
      address.v6.sin6_scope_id = if_nametoindex(text.c_str() + percent + 1);
    }
  } else {
    return false;
  }
  *out = address;
  return true;
}

// What the resolver is asked, and says. It cannot be told to stop: a thread asks, and has this as
// long as it takes.
struct Lookup {
  std::string host;
  Fd answered;
  int failed = 0;
  std::vector<Address> found;

  void ask() {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    failed = getaddrinfo(host.c_str(), nullptr, &hints, &list);
    if (failed == 0) {
      const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
      for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
        if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
        Address address;
        std::memcpy(&address.v6, one->ai_addr,
                    std::min<size_t>(one->ai_addrlen, sizeof(address.v6)));
        found.push_back(address);
      }
    }
    eventfd_write(answered.get(), 1);
  }
};

Status ask_resolver(const std::string& host, uint64_t deadline_ns, std::vector<Address>* out) {
  const auto lookup = std::make_shared<Lookup>();
  lookup->host = host;
  lookup->answered = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!lookup->answered) return resource_error("cannot make an eventfd", errno);
  try {
    std::thread([lookup] { lookup->ask(); }).detach();
  } catch (const std::system_error& error) {
    return system_error("cannot start a thread that finds the host \"" + host + "\"",
                        error.code().value());
  }
  std::vector<pollfd> set{{lookup->answered.get(), POLLIN, 0}};
  TUTTI_TRY(wait_for_events(set, deadline_ns));
  if (eventfd_t count = 0; eventfd_read(lookup->answered.get(), &count) != 0) {
    return {TUTTI_TIMEOUT, "the resolver did not find the host \"" + host + "\" in time"};
  }
  if (lookup->failed != 0) {
    return {TUTTI_INVALID,
            "cannot find the host \"" + host + "\": " + gai_strerror(lookup->failed)};
  }
  *out = lookup->found;
  return {};
}

std::string list_interfaces(const std::vector<Interface>& all) {
  std::string text;
  for (const Interface& one : all) {
    text += (text.empty() ? "" : ", ") + one.name + " (" + one.address.host() + ")";
  }
  return text;
}

}  // namespace

Address Address::loopback() {
  Address address;
  address.v4.sin_family = AF_INET;
  address.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool Address::is_loopback() const {
  if (is_v4()) return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

bool Address::is_wildcard() const {
  if (is_v4()) return v4.sin_addr.s_addr == 0;
  return IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
}

bool Address::is_link_local() const {
  return any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr);
}

std::string Address::host() const {
  char text[INET6_ADDRSTRLEN] = "?";
  if (is_v4()) {
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return text;
  }
  if (any.sa_family != AF_INET6) return "?";
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  std::string host = text;
  if (v6.sin6_scope_id != 0) host.append("%").append(std::to_string(v6.sin6_scope_id));
  return host;
}

std::string Address::text() const {
  std::string text = is_v4() ? "" : "[";
  text.append(host()).append(is_v4() ? ":" : "]:").append(std::to_string(port()));
  return text;
}

void Address::pack(uint8_t* at) const {
  std::memset(at, 0, packed_bytes);
  at[0] = is_v4() ? 4 : 6;
  put_le<uint16_t>(at + 2, port());
  if (is_v4()) {
    std::memcpy(at + 8, &v4.sin_addr, 4);
  } else {
    put_le<uint32_t>(at + 4, v6.sin6_scope_id);
    std::memcpy(at + 8, &v6.sin6_addr, 16);
  }
}

bool Address::unpack(const uint8_t* at, Address* out) {
  Address address;
  if (at[0] == 4) {
    address.v4.sin_family = AF_INET;
    std::memcpy(&address.v4.sin_addr, at + 8, 4);
  } else if (at[0] == 6) {
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_scope_id = get_le<uint32_t>(at + 4);
    std::memcpy(&address.v6.sin6_addr, at + 8, 16);
  } else {
    return false;
  }
  address.set_port(get_le<uint16_t>(at + 2));
  *out = address;
  return true;
}

Status interfaces(std::vector<Interface>* out) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return system_error("cannot list the network interfaces", errno);
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<Interface> all;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    Interface found;
    found.name = one->ifa_name;
    if (one->ifa_addr->sa_family == AF_INET) {
      std::memcpy(&found.address.v4, one->ifa_addr, sizeof(sockaddr_in));
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      std::memcpy(&found.address.v6, one->ifa_addr, sizeof(sockaddr_in6));
    } else {
      continue;
    }
    all.push_back(std::move(found));
  }
  const auto last = [](const Interface& one) {
    if (one.address.is_v4()) return 0;
    return one.address.is_link_local() ? 2 : 1;
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Interface& a, const Interface& b) { return last(a) < last(b); });
  *out = std::move(all);
  return {};
}

Status first_outward(Address* out) {
  std::vector<Interface> all;
  TUTTI_TRY(interfaces(&all));
  for (const Interface& one : all) {
    if (one.address.is_loopback()) continue;
    *out = one.address;
    out->set_port(0);
    return {};
  }
  return {TUTTI_UNSUPPORTED, "this host has no network interface but loopback"};
}

Status resolve_interface(const std::string& name, Address* out) {
  std::vector<Interface> all;
  TUTTI_TRY(interfaces(&all));
  Address number;
  const bool is_number = parse_number(name, &number);
  if (is_number && number.is_wildcard()) {
    return {TUTTI_INVALID, "tutti listens on one address only, not on " + name +
                               "; this host has: " + list_interfaces(all)};
  }
  for (const Interface& one : all) {
    const bool found = is_number ? same_host(one.address, number) : one.name == name;
    // All of 127.0.0.0/8 is this host's, though no interface lists it.
    if (!found && !(is_number && number.is_v4() && number.is_loopback())) continue;
    *out = is_number && number.is_v4() ? number : one.address;
    out->set_port(0);
    return {};
  }
  return {TUTTI_INVALID, "there is no network interface or address \"" + name +
                             "\" on this host; there are: " + list_interfaces(all)};
}

Status resolve_host(const std::string& host, uint16_t port, uint64_t deadline_ns, Address* out) {
  std::vector<Address> found(1);
  if (!parse_number(host, &found[0])) TUTTI_TRY(ask_resolver(host, deadline_ns, &found));
  if (found.empty()) return {TUTTI_INVALID, "the host \"" + host + "\" has no IP address"};
  const auto v4 = std::find_if(found.begin(), found.end(),
                               [](const Address& address) { return address.is_v4(); });
  *out = v4 != found.end() ? *v4 : found.front();
  out->set_port(port);
  return {};
}

}  // namespace tutti
