#include "bench/calls.h"

#include <string>

#include "bench/error.h"

namespace tutti::bench {
namespace {

struct Entry {
  const char* name;
  CallFunction call;
};

constexpr Entry entries[] = {
    {"allreduce",
     [](const Call& c) {
       return tutti_allreduce_with(c.send, c.recv, c.count, c.dtype, c.op, c.comm, c.config);
     }},
    {"reduce",
     [](const Call& c) {
       return tutti_reduce_with(c.send, c.recv, c.count, c.dtype, c.op, c.root, c.comm, c.config);
     }},
    {"broadcast",
     [](const Call& c) {
       return tutti_broadcast_with(c.recv, c.count, c.dtype, c.root, c.comm, c.config);
     }},
    {"allgather",
     [](const Call& c) {
       return tutti_allgather_with(c.send, c.recv, c.count, c.dtype, c.comm, c.config);
     }},
    {"reduce_scatter",
     [](const Call& c) {
       return tutti_reduce_scatter_block_with(c.send, c.recv, c.count, c.dtype, c.op, c.comm,
                                              c.config);
     }},
    {"alltoall",
     [](const Call& c) {
       return tutti_alltoall_with(c.send, c.recv, c.count, c.dtype, c.comm, c.config);
     }},
    {"gather",
     [](const Call& c) {
       return tutti_gather_with(c.send, c.recv, c.count, c.dtype, c.root, c.comm, c.config);
     }},
    {"scatter",
     [](const Call& c) {
       return tutti_scatter_with(c.send, c.recv, c.count, c.dtype, c.root, c.comm, c.config);
     }},
    {"scan",
     [](const Call& c) {
       return tutti_scan_with(c.send, c.recv, c.count, c.dtype, c.op, c.comm, c.config);
     }},
    {"exscan",
     [](const Call& c) {
       return tutti_exscan_with(c.send, c.recv, c.count, c.dtype, c.op, c.comm, c.config);
     }},
    {"barrier", [](const Call& c) { return tutti_barrier_with(c.comm, c.config); }},
    {"sendrecv",
     [](const Call& c) {
       return tutti_sendrecv_with(c.send, c.count, (c.rank + 1) % c.nranks, 0, c.recv, c.count,
                                  (c.rank + c.nranks - 1) % c.nranks, 0, c.dtype, c.comm, c.config);
     }},
};

}  // namespace

CallFunction call_of(const Collective& collective) {
  for (const Entry& entry : entries)
    if (std::string(entry.name) == collective.name) return entry.call;
  throw Failure(std::string("no call of ") + collective.name);
}

}  // namespace tutti::bench
