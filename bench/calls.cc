#include "bench/calls.h"

#include <string>
#include <tuple>
#include <type_traits>

#include "bench/error.h"

namespace tutti::bench {
namespace {

struct Entry {
  const char* name;
  Calls calls;
};

template <auto on, class Arguments>
constexpr StreamFunction on_stream(Arguments) {
  if constexpr (std::is_null_pointer_v<decltype(on)>) {
    return nullptr;
  } else {
    return [](const Call& c, void* stream) {
      return std::apply(on, std::tuple_cat(Arguments{}(c), std::tuple(c.comm, c.config, stream)));
    };
  }
}

// All forms take the same arguments, then the communicator and the config; those with a request
// also its address. `Arguments` makes a tuple of the leading arguments.
template <auto plain, auto begin, auto init, auto on, class Arguments>
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
           },
           on_stream<on>(Arguments{})}};
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
    entry<tutti_allreduce_with, tutti_iallreduce, tutti_allreduce_init, tutti_allreduce_on>(
        "allreduce", reduces),
    entry<tutti_reduce_with, tutti_ireduce, tutti_reduce_init, tutti_reduce_on>("reduce",
                                                                                reduces_rooted),
    entry<tutti_broadcast_with, tutti_ibroadcast, tutti_broadcast_init, tutti_broadcast_on>(
        "broadcast", one_buffer),
    entry<tutti_allgather_with, tutti_iallgather, tutti_allgather_init, tutti_allgather_on>(
        "allgather", moves),
    entry<tutti_reduce_scatter_block_with, tutti_ireduce_scatter_block,
          tutti_reduce_scatter_block_init, tutti_reduce_scatter_block_on>("reduce_scatter",
                                                                          reduces),
    entry<tutti_alltoall_with, tutti_ialltoall, tutti_alltoall_init, tutti_alltoall_on>("alltoall",
                                                                                        moves),
    entry<tutti_gather_with, tutti_igather, tutti_gather_init, tutti_gather_on>("gather",
                                                                                moves_rooted),
    entry<tutti_scatter_with, tutti_iscatter, tutti_scatter_init, tutti_scatter_on>("scatter",
                                                                                    moves_rooted),
    entry<tutti_scan_with, tutti_iscan, tutti_scan_init, tutti_scan_on>("scan", reduces),
    entry<tutti_exscan_with, tutti_iexscan, tutti_exscan_init, tutti_exscan_on>("exscan", reduces),
    entry<tutti_barrier_with, tutti_ibarrier, tutti_barrier_init, tutti_barrier_on>("barrier",
                                                                                    nothing),
    entry<tutti_sendrecv_with, tutti_isendrecv, tutti_sendrecv_init, nullptr>("sendrecv",
                                                                              round_the_ring),
};

}  // namespace

Calls calls_of(const Collective& collective) {
  for (const Entry& entry : entries)
    if (std::string(entry.name) == collective.name) return entry.calls;
  throw Failure(std::string("no call of ") + collective.name);
}

}  // namespace tutti::bench
