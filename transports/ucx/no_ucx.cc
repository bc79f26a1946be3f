// For a build without UCX's headers.
#include "lib/control/agree.h"
#include "transports/registry.h"
#include "transports/ucx/ucx.h"

namespace tutti {

namespace {

Status absent() { return {TUTTI_UNSUPPORTED, "ucx: this build of tutti has no UCX"}; }

// Other ranks may have UCX and wait for this one in agree().
Status open_ucx(const LinkSetup& setup, std::unique_ptr<Link>*) {
  return agree(*setup.exchange, absent(), setup.deadline_ns);
}

}  // namespace

Status find_ucx(UcxFound*) { return absent(); }

Status ucx_moves_gpu_memory() { return absent(); }

uint32_t ucx_threads() { return 0; }

bool ucx_may_use_rdma() { return false; }

const Transport ucx_transport{
    .name = "ucx",
    .about = "any two processes, through UCX: over RDMA, shared memory or IP",
    .reach = Transport::Reach::network,
    .open = open_ucx,
    .usable = absent,
    .worthwhile = ucx_may_use_rdma,
    .moves_gpu_memory = absent,
};

}  // namespace tutti
