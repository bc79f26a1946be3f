#include "transports/tcp/tcp.h"

#include "lib/control/agree.h"
#include "transports/stream/mesh.h"
#include "transports/stream/stream_link.h"
#include "transports/tcp/stream.h"

namespace tutti {

Status open_tcp(const LinkSetup& setup, std::unique_ptr<Link>* out) {
  std::vector<tcp::Wires> wires;
  TUTTI_TRY(tcp::connect_mesh(setup, tcp::Needs::data_and_control, &wires));
  const int self = setup.exchange->rank();
  std::vector<tcp::Pair> pairs(wires.size());
  for (size_t rank = 0; rank < wires.size(); ++rank) {
    if (!wires[rank].data) continue;
    pairs[rank].data =
        std::make_unique<tcp::Stream>(std::move(wires[rank].data), setup.comm_id, self, int(rank));
    pairs[rank].control = std::move(wires[rank].control);
  }
  auto link = std::make_unique<tcp::StreamLink>("tcp", setup.comm_id, self, std::move(pairs));
  TUTTI_TRY(agree(*setup.exchange, link->prepare(), setup.deadline_ns));
  if (link->has_peers()) *out = std::move(link);
  return {};
}

}  // namespace tutti
