// The tcp transport: any two processes that reach each other by IP.
#include <ifaddrs.h>
#include <net/if.h>

#include <memory>

#include "lib/control/agree.h"
#include "transports/registry.h"
#include "transports/stream/mesh.h"
#include "transports/stream/stream_link.h"
#include "transports/tcp/stream.h"

namespace tutti {

namespace {

Status open_tcp(const LinkSetup& setup, std::unique_ptr<Link>* out) {
  std::vector<SecureSocket> control;
  tcp::Terms terms;
  TUTTI_TRY(tcp::connect_mesh(setup, &control, &terms));
  const int self = setup.exchange->rank();
  std::vector<tcp::Pair> pairs(control.size());
  for (size_t rank = 0; rank < control.size(); ++rank) {
    if (!control[rank]) continue;
    pairs[rank].data = std::make_unique<tcp::Stream>(setup.comm_id, self, int(rank), *setup.tuning);
    pairs[rank].control = std::move(control[rank]);
  }
  auto link = std::make_unique<tcp::StreamLink>("tcp", setup.comm_id, self, std::move(pairs),
                                                setup.heartbeat_ns);
  link->connect_at_first_use(std::move(terms));
  TUTTI_TRY(agree(*setup.exchange, link->prepare(), setup.deadline_ns));
  if (link->has_peers()) *out = std::move(link);
  return {};
}

Status usable() {
  ifaddrs* first = nullptr;
  const bool known = getifaddrs(&first) == 0;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  for (const ifaddrs* entry = known ? first : nullptr; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0 || entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6) return {};
  }
  return {TUTTI_UNSUPPORTED, "no network interface is up and has an address"};
}

}  // namespace

const Transport tcp_transport{
    .name = "tcp",
    .about = "any two processes that reach each other by IP",
    .reach = Transport::Reach::network,
    .raw_sockets = true,
    .open = open_tcp,
    .usable = usable,
};

}  // namespace tutti
