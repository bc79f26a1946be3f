#include "bench/calls.h"

#include <string>
#include <tuple>

#include "bench/error.h"

namespace tutti::bench {
namespace {

struct Entry {
  const char* name;
  Calls calls;
};

// All forms take the same arguments, then the communicator and the settings; those with a request
// its place, too. `Arguments` makes a tuple of what comes first.
template <auto plain, auto begin, auto init, class Arguments>
constexpr Entry entry(const char* name, Arguments) {
  return {name,
          {[](const Call& c) {
             return std::apply(plain, std::tuple_cat(Arguments{}(c), std::tuple(c.comm, c.config)));
           },
           [](const Call& c, tutti_request* request) {
             return std::apply(
                 begin, std::tuple_cat(Arguments{}(c), std::tuple(c.comm, c.config, request)));
           },
           [](const Call& c, tutti_request* request) {
             return std::apply(
                 init, std::tuple_cat(Arguments{}(c), std::tuple(c.comm, c.config, request)));
           }}};
}

constexpr auto moves = [](const Call& c) { return std::tuple(c.send, c.recv, c.count, c.dtype); };
constexpr auto moves_rooted = [](const Call& c) {
  return std::tuple(c.send, c.recv, c.count, c.dtype, c.root);
};
constexpr auto reduces = [](const Call& c) {
  return std::tuple(c.send, c.recv, c.count, c.dtype, c.op);
};
constexpr auto reduces_rooted = [](const Call& c) {
  return std::tuple(c.send, c.recv, c.count, c.dtype, c.op, c.root);
};
constexpr auto one_buffer = [](const Call& c) {
  return std::tuple(c.recv, c.count, c.dtype, c.root);
};
constexpr auto nothing = [](const Call&) { return std::tuple(); };
constexpr auto round_the_ring = [](const Call& c) {
  return std::tuple(c.send, c.count, (c.rank + 1) % c.nranks, 0, c.recv, c.count,
                    (c.rank + c.nranks - 1) % c.nranks, 0, c.dtype);
};

constexpr Entry entries[] = {
    entry<tutti_allreduce_with, tutti_iallreduce, tutti_allreduce_init>("allreduce", reduces),
    entry<tutti_reduce_with, tutti_ireduce, tutti_reduce_init>("reduce", reduces_rooted),
    entry<tutti_broadcast_with, tutti_ibroadcast, tutti_broadcast_init>("broadcast", one_buffer),
    entry<tutti_allgather_with, tutti_iallgather, tutti_allgather_init>("allgather", moves),
    entry<tutti_reduce_scatter_block_with, tutti_ireduce_scatter_block,
          tutti_reduce_scatter_block_init>("reduce_scatter", reduces),
    entry<tutti_alltoall_with, tutti_ialltoall, tutti_alltoall_init>("alltoall", moves),
    entry<tutti_gather_with, tutti_igather, tutti_gather_init>("gather", moves_rooted),
    entry<tutti_scatter_with, tutti_iscatter, tutti_scatter_init>("scatter", moves_rooted),
    entry<tutti_scan_with, tutti_iscan, tutti_scan_init>("scan", reduces),
    entry<tutti_exscan_with, tutti_iexscan, tutti_exscan_init>("exscan", reduces),
    entry<tutti_barrier_with, tutti_ibarrier, tutti_barrier_init>("barrier", nothing),
    entry<tutti_sendrecv_with, tutti_isendrecv, tutti_sendrecv_init>("sendrecv", round_the_ring),
};

}  // namespace

Calls calls_of(const Collective& collective) {
  for (const Entry& entry : entries)
    if (std::string(entry.name) == collective.name) return entry.calls;
  throw Failure(std::string("no call of ") + collective.name);
}

}  // namespace tutti::bench
