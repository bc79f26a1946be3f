// The ucx transport: data through UCX, over whatever the hosts have (RDMA, shared memory, tcp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace tutti {

// The UCX that this process can load, and what it can use; UNSUPPORTED, with why, if there is none.
struct UcxFound {
  std::string version;
  std::vector<std::string> resources;  // "tcp/eth0", "rc_mlx5/mlx5_0:1"
  bool moves_gpu_memory = false;
};
Status find_ucx(UcxFound* out);

// OK: UCX sends from memory of this process's GPUs and receives into it; UNSUPPORTED, with why.
Status ucx_moves_gpu_memory();

// How many threads run in this process because of the transport, including UCX's own.
uint32_t ucx_threads();

// Whether this host has an RDMA device and a UCX that can be loaded. Cheap where there is none.
bool ucx_may_use_rdma();

}  // namespace tutti
