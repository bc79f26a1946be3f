#include "transports/registry.h"

#include "transports/inproc/inproc.h"
#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"
#include "transports/ucx/ucx.h"

namespace tutti {

namespace {

const Transport table[] = {
    {"inproc", "threads of one process",
     [](const HostRecord& a, const HostRecord& b) { return a.same_process(b); }, open_inproc},
    {"shm", "processes of one host, through shared memory",
     [](const HostRecord& a, const HostRecord& b) { return a.same_host(b); }, open_shm},
    {"ucx", "any two processes, through UCX: over RDMA, shared memory or IP",
     [](const HostRecord& a, const HostRecord& b) { return a.takes_ucx && b.takes_ucx; }, open_ucx},
    {"tcp", "any two processes that reach each other by IP",
     [](const HostRecord&, const HostRecord&) { return true; }, open_tcp},
};

const Transport* find(const std::string& name) {
  for (const Transport& transport : table) {
    if (name == transport.name) return &transport;
  }
  return nullptr;
}

}  // namespace

std::span<const Transport> transports() { return table; }

int transport_for(const std::vector<std::string>& allowed, const HostRecord& a,
                  const HostRecord& b) {
  for (size_t i = 0; i < allowed.size(); ++i) {
    const Transport* transport = find(allowed[i]);
    if (transport != nullptr && transport->joins(a, b)) return int(i);
  }
  return -1;
}

Status open_transport(const std::string& name, const LinkSetup& setup, std::unique_ptr<Link>* out) {
  const Transport* transport = find(name);
  if (transport == nullptr) return {TUTTI_INVALID, "there is no transport " + name};
  return transport->open(setup, out);
}

}  // namespace tutti
