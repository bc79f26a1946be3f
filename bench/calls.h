// tutti's call of each collective.
#pragma once

#include "bench/collectives.h"
#include "tutti/tutti.h"

namespace tutti::bench {

struct Call {
  const void* send;
  void* recv;
  size_t count;
  tutti_dtype dtype;
  tutti_op op;
  int root;
  int rank, nranks;
  tutti_comm comm;
  const tutti_call_config* config;
};

using CallFunction = tutti_status (*)(const Call& call);

CallFunction call_of(const Collective& collective);

}  // namespace tutti::bench
