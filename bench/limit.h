// What this machine could do at all, measured beside the algorithms: the least work that any
// allreduce must do on the transport, without a library.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/rank.h"
#include "bench/shared_map.h"

namespace tutti::bench {

class Limit {
 public:
  virtual ~Limit() = default;
  // Collective: once, for vectors of `bytes` on every rank.
  virtual void run(size_t bytes) = 0;
};

// One way to reach the limit. The limit of a size is the fastest way's median.
struct LimitWay {
  std::string name;
  std::shared_ptr<Limit> limit;
  size_t least_bytes = 0;
  size_t most_bytes = SIZE_MAX;
};

// A loop over mapped buffers: every rank reads its share of each input and writes it to each
// output, between two exchanges of flags (with plain and with streaming stores); and for small
// vectors one exchange that carries the whole input.
std::vector<LimitWay> mapped_limits(const Rank& me, SharedMap& map);

// Raw sockets: every rank sends the bytes that the busiest rank of any allreduce must send to its
// neighbour while it receives as many from the other one. All ranks must be on one host.
std::vector<LimitWay> tcp_limits(const Rank& me);

}  // namespace tutti::bench
