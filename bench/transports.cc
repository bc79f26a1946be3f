#include "bench/transports.h"

#include "transports/registry.h"

namespace tutti::bench {

std::string default_transport() {
  for (const Transport* const transport : transports())
    if (transport->reach != Transport::Reach::process) return transport->name;
  return "";
}

std::string thread_transport() { return transports().front()->name; }

bool joins_threads_only(const std::string& transport) {
  const Transport* const found = find_transport(transport);
  return found != nullptr && found->reach == Transport::Reach::process;
}

bool over_raw_sockets(const std::string& transport) {
  const Transport* const found = find_transport(transport);
  return found != nullptr && found->raw_sockets;
}

}  // namespace tutti::bench
