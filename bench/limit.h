// The limit of this machine, measured beside the algorithms: the least work that any implementation
// of the collective must do on the transport, without a library.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/live.h"
#include "bench/rank.h"
#include "bench/shared_map.h"

namespace tutti::bench {

class Limit {
 public:
  virtual ~Limit() = default;
  // Collective: once, with `bytes` in the longer buffer.
  virtual void run(size_t bytes) = 0;
  // What this rank gives and gets then.
  virtual Touched touched(size_t bytes) = 0;
};

// One way to reach the limit. The limit of a size is the fastest way's median.
struct LimitWay {
  std::string name;
  std::shared_ptr<Limit> limit;
  size_t least_bytes = 0;
  size_t most_bytes = SIZE_MAX;
};

// The call of which it is the limit.
struct LimitOf {
  std::string collective;
  int root = 0;
  bool in_place = false;
};

// Over memory that all ranks map. For allreduce every rank reads its share of each input and writes
// it to each output, between two exchanges of flags (with plain, with streaming stores, and copied
// from its own output); for small vectors one exchange carries the whole input.
std::vector<LimitWay> mapped_limits(const Rank& me, SharedMap& map, const LimitOf& what);
std::vector<LimitWay> allreduce_limits(const Rank& me, SharedMap& map, bool in_place);
// The same for the other collectives: inputs are read and outputs written once, and the work is
// divided among the ranks.
std::vector<LimitWay> copy_limits(const Rank& me, SharedMap& map, const LimitOf& what);

// Raw sockets round a ring: every rank sends to one neighbour what a rank of any implementation
// must send, while it receives from the other one what it must receive. Collective; none where the
// ranks do not share a loopback interface. `patience`: after so long without anything moving each
// wait throws Failure.
std::vector<LimitWay> socket_limits(
    const Rank& me, const LimitOf& what,
    std::chrono::milliseconds patience = std::chrono::milliseconds(30000));

// One sentence if there is no limit; "" if there is one for every size.
std::string undefined_limit(const std::string& collective, const std::string& transport,
                            int nranks);
// Below that many bytes there is no limit over shared memory: the ranks of a rooted collective or a
// scan need not wait for each other, and how far they may run ahead is arbitrary.
size_t least_mapped_bytes(const std::string& collective);
// Over sockets: whether a ring moves no more data than necessary.
bool has_socket_limit(const std::string& collective, int nranks);

}  // namespace tutti::bench
