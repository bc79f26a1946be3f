#include "transports/tcp/tcp.h"

#include "lib/control/agree.h"
#include "transports/tcp/mesh.h"
#include "transports/tcp/tcp_link.h"

namespace tutti {

Status open_tcp(const LinkSetup& setup, std::unique_ptr<Link>* out) {
  std::vector<tcp::Wires> wires;
  TUTTI_TRY(tcp::connect_mesh(setup, &wires));
  auto link =
      std::make_unique<tcp::TcpLink>(setup.comm_id, setup.exchange->rank(), std::move(wires));
  TUTTI_TRY(agree(*setup.exchange, link->prepare(), setup.deadline_ns));
  if (link->has_peers()) *out = std::move(link);
  return {};
}

}  // namespace tutti
