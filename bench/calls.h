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
using StreamFunction = tutti_status (*)(const Call& call, void* stream);
using RequestFunction = tutti_status (*)(const Call& call, tutti_request* request);

// The forms of one collective.
struct Calls {
  CallFunction plain;
  RequestFunction begin;  // its i form
  RequestFunction init;   // for a request that is started again and again
  StreamFunction on;      // on a stream of the GPU; null where there is no such form
};

Calls calls_of(const Collective& collective);

}  // namespace tutti::bench
