// The collectives of the C API: argument checks, then the communicator. Each has one function that
// turns its arguments into a Call.
#include <cstring>

#include "lib/api/checks.h"
#include "lib/api/guard.h"
#include "lib/types.h"

namespace tutti::api {

namespace {

// What a function of the API was asked for.
struct Made {
  Call call;
  Blocks blocks;
  std::byte barrier[2];  // what a barrier moves
};

const std::byte* bytes(const void* at) { return static_cast<const std::byte*>(at); }
std::byte* bytes(void* at) { return static_cast<std::byte*>(at); }

// In place: a copy of what was just written field by field would cost more than the whole check.
void set_key(Made* made, Collective collective, uint64_t count, tutti_dtype dtype,
             tutti_op op = TUTTI_SUM, int root = 0) {
  CallKey& key = made->call.key;
  key.count = count;
  key.root = root;
  key.collective = collective;
  key.dtype = dtype;
  key.op = op;
}

// What all ranks must agree on about the lengths of blocks; never 0.
uint64_t digest_of(const Communicator& c, const size_t* counts) {
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (int r = 0; r < c.nranks(); ++r) {
    hash = (hash ^ counts[r]) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash | 1;
}

uint64_t sum_of(const Communicator& c, const size_t* counts) {
  uint64_t sum = 0;
  for (int r = 0; r < c.nranks(); ++r) sum += counts[r];
  return sum;
}

// Where, in elements, the block of this rank lies.
uint64_t own_place(const Communicator& c, const size_t* counts, const size_t* displs) {
  if (displs != nullptr) return displs[c.rank()];
  uint64_t at = 0;
  for (int r = 0; r < c.rank(); ++r) at += counts[r];
  return at;
}

Status only_root(int root, const char* does) {
  return {TUTTI_INVALID, "only the root, rank " + std::to_string(root) + ", " + does + " in place"};
}

// A vector in, one of the same length out: allreduce, scans, and the root of a reduce.
Status check_vectors(const void* send, const void* recv, uint64_t count, tutti_dtype dtype,
                     tutti_op op) {
  TUTTI_TRY(check_vector(count, dtype));
  TUTTI_TRY(check_operator(op, dtype));
  if (count == 0) return {};
  TUTTI_TRY(check_recv(recv, count));
  if (send == TUTTI_IN_PLACE) return {};
  TUTTI_TRY(check_send(send, count));
  return check_apart(send, count, recv, count, dtype);
}

// What nearly every call is, so that it passes with a few comparisons; else the checks say why not.
bool plainly_right(const void* send, const void* recv, uint64_t count, tutti_dtype dtype,
                   tutti_op op) {
  constexpr uint64_t plainly_fits = uint64_t{1} << 40;
  if (!builtin_supports(op, dtype) || count == 0 || count > plainly_fits) return false;
  if (send == nullptr || recv == nullptr || recv == TUTTI_IN_PLACE) return false;
  if (send == TUTTI_IN_PLACE) return true;
  const uintptr_t a = reinterpret_cast<uintptr_t>(send), b = reinterpret_cast<uintptr_t>(recv);
  const uint64_t bytes = count * builtin_size(dtype);
  return a >= b + bytes || b >= a + bytes;
}

Status make_vectors(Collective collective, const void* send, void* recv, uint64_t count,
                    tutti_dtype dtype, tutti_op op, Made* out) {
  if (!plainly_right(send, recv, count, dtype, op)) [[unlikely]]
    TUTTI_TRY(check_vectors(send, recv, count, dtype, op));
  set_key(out, collective, count, dtype, op);
  out->call.input = bytes(send == TUTTI_IN_PLACE ? recv : send);
  out->call.output = bytes(recv);
  return {};
}

Status make_allreduce(const Communicator&, const void* send, void* recv, size_t count,
                      tutti_dtype dtype, tutti_op op, Made* out) {
  return make_vectors(Collective::allreduce, send, recv, count, dtype, op, out);
}
Status make_scan(const Communicator&, const void* send, void* recv, size_t count, tutti_dtype dtype,
                 tutti_op op, Made* out) {
  return make_vectors(Collective::scan, send, recv, count, dtype, op, out);
}
Status make_exscan(const Communicator&, const void* send, void* recv, size_t count,
                   tutti_dtype dtype, tutti_op op, Made* out) {
  return make_vectors(Collective::exscan, send, recv, count, dtype, op, out);
}

Status make_reduce(const Communicator& c, const void* send, void* recv, size_t count,
                   tutti_dtype dtype, tutti_op op, int root, Made* out) {
  TUTTI_TRY(check_root(c, root));
  if (c.rank() == root) {
    TUTTI_TRY(make_vectors(Collective::reduce, send, recv, count, dtype, op, out));
  } else {
    TUTTI_TRY(check_vector(count, dtype));
    TUTTI_TRY(check_operator(op, dtype));
    if (send == TUTTI_IN_PLACE) return only_root(root, "reduces");
    TUTTI_TRY(check_send(send, count));
    out->call.input = bytes(send);
  }
  set_key(out, Collective::reduce, count, dtype, op, root);
  return {};
}

Status make_broadcast(const Communicator& c, void* buffer, size_t count, tutti_dtype dtype,
                      int root, Made* out) {
  TUTTI_TRY(check_vector(count, dtype));
  TUTTI_TRY(check_root(c, root));
  if (count != 0 && buffer == nullptr) return {TUTTI_INVALID, "the buffer is NULL"};
  set_key(out, Collective::broadcast, count, dtype, TUTTI_SUM, root);
  out->call.input = out->call.output = bytes(buffer);
  return {};
}

Status make_barrier(const Communicator&, Made* out) {
  // Runs as an allreduce of one byte, of which only that it comes matters.
  set_key(out, Collective::barrier, 1, TUTTI_UINT8, TUTTI_MAX);
  out->barrier[0] = {};
  out->call.input = &out->barrier[0];
  out->call.output = &out->barrier[1];
  return {};
}

Status make_allgather(const Communicator& c, const void* send, void* recv, size_t count,
                      tutti_dtype dtype, Made* out) {
  TUTTI_TRY(check_equal_blocks(c, count, dtype));
  TUTTI_TRY(check_recv(recv, count));
  if (send != TUTTI_IN_PLACE) {
    TUTTI_TRY(check_send(send, count));
    TUTTI_TRY(check_apart(send, count, recv, count * c.nranks(), dtype));
  }
  set_key(out, Collective::allgather, count, dtype);
  out->call.input = bytes(send);
  if (send == TUTTI_IN_PLACE) out->call.input = bytes(recv) + c.rank() * count * dtype_size(dtype);
  out->call.output = bytes(recv);
  return {};
}

Status make_allgatherv(const Communicator& c, const void* send, size_t send_count, void* recv,
                       const size_t* counts, const size_t* displs, tutti_dtype dtype, Made* out) {
  uint64_t span = 0;
  TUTTI_TRY(check_recv_blocks(c, counts, displs, dtype, &span));
  TUTTI_TRY(check_recv(recv, span));
  const size_t own = counts[c.rank()];
  out->call.input = bytes(send);
  if (send == TUTTI_IN_PLACE) {
    out->call.input = bytes(recv) + own_place(c, counts, displs) * dtype_size(dtype);
  } else {
    if (send_count != own) {
      return {TUTTI_INVALID, "send_count is " + std::to_string(send_count) + ", but counts[" +
                                 std::to_string(c.rank()) + "] is " + std::to_string(own)};
    }
    TUTTI_TRY(check_send(send, own));
    TUTTI_TRY(check_apart(send, own, recv, span, dtype));
  }
  out->blocks = {nullptr, nullptr, counts, displs, own};
  set_key(out, Collective::allgather, sum_of(c, counts), dtype);
  out->call.key.lengths = digest_of(c, counts);
  out->call.output = bytes(recv);
  return {};
}

Status make_gather(const Communicator& c, const void* send, void* recv, size_t count,
                   tutti_dtype dtype, int root, Made* out) {
  TUTTI_TRY(check_root(c, root));
  TUTTI_TRY(check_equal_blocks(c, count, dtype));
  const bool at_root = c.rank() == root;
  if (at_root) TUTTI_TRY(check_recv(recv, count));
  if (send == TUTTI_IN_PLACE && !at_root) return only_root(root, "gathers");
  out->call.input = bytes(send);
  if (send == TUTTI_IN_PLACE) {
    out->call.input = bytes(recv) + c.rank() * count * dtype_size(dtype);
  } else {
    TUTTI_TRY(check_send(send, count));
    if (at_root) TUTTI_TRY(check_apart(send, count, recv, count * c.nranks(), dtype));
  }
  set_key(out, Collective::gather, count, dtype, TUTTI_SUM, root);
  out->call.output = at_root ? bytes(recv) : nullptr;
  return {};
}

Status make_gatherv(const Communicator& c, const void* send, size_t send_count, void* recv,
                    const size_t* counts, const size_t* displs, tutti_dtype dtype, int root,
                    Made* out) {
  TUTTI_TRY(check_root(c, root));
  TUTTI_TRY(check_vector(send_count, dtype));
  const bool at_root = c.rank() == root;
  uint64_t span = 0;
  if (at_root) {
    TUTTI_TRY(check_recv_blocks(c, counts, displs, dtype, &span));
    TUTTI_TRY(check_recv(recv, span));
  }
  if (send == TUTTI_IN_PLACE && !at_root) return only_root(root, "gathers");
  out->call.input = bytes(send);
  out->blocks = {nullptr, nullptr, nullptr, nullptr, send_count};
  if (send == TUTTI_IN_PLACE) {
    out->blocks.own = counts[root];
    out->call.input = bytes(recv) + own_place(c, counts, displs) * dtype_size(dtype);
  } else {
    TUTTI_TRY(check_send(send, send_count));
    if (at_root) TUTTI_TRY(check_apart(send, send_count, recv, span, dtype));
  }
  if (at_root) {
    out->blocks.recv_counts = counts;
    out->blocks.recv_displs = displs;
    out->call.output = bytes(recv);
  }
  set_key(out, Collective::gather, 0, dtype, TUTTI_SUM, root);
  out->call.key.lengths = 1;
  return {};
}

Status make_scatter(const Communicator& c, const void* send, void* recv, size_t count,
                    tutti_dtype dtype, int root, Made* out) {
  TUTTI_TRY(check_root(c, root));
  TUTTI_TRY(check_equal_blocks(c, count, dtype));
  const bool at_root = c.rank() == root;
  if (at_root) TUTTI_TRY(check_send(send, count));
  if (recv == TUTTI_IN_PLACE && !at_root) return only_root(root, "scatters");
  out->call.output = bytes(recv);
  if (recv == TUTTI_IN_PLACE) {
    // Where it stays, so nothing is written there.
    out->call.output = const_cast<std::byte*>(bytes(send)) + c.rank() * count * dtype_size(dtype);
  } else {
    TUTTI_TRY(check_recv(recv, count));
    if (at_root) TUTTI_TRY(check_apart(send, count * c.nranks(), recv, count, dtype));
  }
  set_key(out, Collective::scatter, count, dtype, TUTTI_SUM, root);
  out->call.input = at_root ? bytes(send) : nullptr;
  return {};
}

Status make_scatterv(const Communicator& c, const void* send, const size_t* counts,
                     const size_t* displs, void* recv, size_t recv_count, tutti_dtype dtype,
                     int root, Made* out) {
  TUTTI_TRY(check_root(c, root));
  TUTTI_TRY(check_vector(recv_count, dtype));
  const bool at_root = c.rank() == root;
  uint64_t span = 0;
  if (at_root) {
    TUTTI_TRY(check_send_blocks(c, counts, displs, dtype, &span));
    TUTTI_TRY(check_send(send, span));
  }
  if (recv == TUTTI_IN_PLACE && !at_root) return only_root(root, "scatters");
  out->call.output = bytes(recv);
  out->blocks = {nullptr, nullptr, nullptr, nullptr, recv_count};
  if (recv == TUTTI_IN_PLACE) {
    out->blocks.own = counts[root];
    out->call.output =
        const_cast<std::byte*>(bytes(send)) + own_place(c, counts, displs) * dtype_size(dtype);
  } else {
    TUTTI_TRY(check_recv(recv, recv_count));
    if (at_root) TUTTI_TRY(check_apart(send, span, recv, recv_count, dtype));
  }
  if (at_root) {
    out->blocks.send_counts = counts;
    out->blocks.send_displs = displs;
    out->call.input = bytes(send);
  }
  set_key(out, Collective::scatter, 0, dtype, TUTTI_SUM, root);
  out->call.key.lengths = 1;
  return {};
}

// In place the result lies over the first block, which other ranks may still have to get.
void place_reduced(const Communicator& c, const void* send, void* recv, uint64_t own, Made* out) {
  out->call.input = bytes(send == TUTTI_IN_PLACE ? recv : send);
  out->call.output = bytes(recv);
  out->call.output_aside = send == TUTTI_IN_PLACE && c.rank() != 0;
  out->call.aside_count = own;
}

Status make_reduce_scatter_block(const Communicator& c, const void* send, void* recv, size_t count,
                                 tutti_dtype dtype, tutti_op op, Made* out) {
  TUTTI_TRY(check_equal_blocks(c, count, dtype));
  TUTTI_TRY(check_operator(op, dtype));
  TUTTI_TRY(check_recv(recv, count));
  if (send != TUTTI_IN_PLACE) {
    TUTTI_TRY(check_send(send, count));
    TUTTI_TRY(check_apart(send, count * c.nranks(), recv, count, dtype));
  }
  set_key(out, Collective::reduce_scatter, count, dtype, op);
  place_reduced(c, send, recv, count, out);
  return {};
}

Status make_reduce_scatter(const Communicator& c, const void* send, void* recv,
                           const size_t* counts, tutti_dtype dtype, tutti_op op, Made* out) {
  uint64_t span = 0;
  TUTTI_TRY(check_send_blocks(c, counts, nullptr, dtype, &span));
  TUTTI_TRY(check_operator(op, dtype));
  const size_t own = counts[c.rank()];
  TUTTI_TRY(check_recv(recv, send == TUTTI_IN_PLACE ? span : own));
  if (send != TUTTI_IN_PLACE) {
    TUTTI_TRY(check_send(send, span));
    TUTTI_TRY(check_apart(send, span, recv, own, dtype));
  }
  out->blocks = {counts, nullptr, nullptr, nullptr, own};
  set_key(out, Collective::reduce_scatter, span, dtype, op);
  out->call.key.lengths = digest_of(c, counts);
  place_reduced(c, send, recv, own, out);
  return {};
}

Status make_alltoall(const Communicator& c, const void* send, void* recv, size_t count,
                     tutti_dtype dtype, Made* out) {
  TUTTI_TRY(check_equal_blocks(c, count, dtype));
  TUTTI_TRY(check_recv(recv, count));
  const uint64_t all = count * c.nranks();
  if (send != TUTTI_IN_PLACE) {
    TUTTI_TRY(check_send(send, count));
    TUTTI_TRY(check_apart(send, all, recv, all, dtype));
  }
  set_key(out, Collective::alltoall, count, dtype);
  out->call.input = bytes(send == TUTTI_IN_PLACE ? recv : send);
  out->call.output = bytes(recv);
  out->call.input_aside = send == TUTTI_IN_PLACE;
  out->call.aside_count = all;
  return {};
}

Status make_alltoallv(const Communicator& c, const void* send, const size_t* send_counts,
                      const size_t* send_displs, void* recv, const size_t* recv_counts,
                      const size_t* recv_displs, tutti_dtype dtype, Made* out) {
  uint64_t sent = 0, received = 0;
  TUTTI_TRY(check_recv_blocks(c, recv_counts, recv_displs, dtype, &received));
  TUTTI_TRY(check_recv(recv, received));
  out->blocks = {send_counts, send_displs, recv_counts, recv_displs, 0};
  if (send == TUTTI_IN_PLACE) {
    out->blocks.send_counts = recv_counts;
    out->blocks.send_displs = recv_displs;
  } else {
    TUTTI_TRY(check_send_blocks(c, send_counts, send_displs, dtype, &sent));
    TUTTI_TRY(check_send(send, sent));
    TUTTI_TRY(check_apart(send, sent, recv, received, dtype));
    const size_t to_self = send_counts[c.rank()], from_self = recv_counts[c.rank()];
    if (to_self != from_self) {
      return {TUTTI_INVALID, "rank " + std::to_string(c.rank()) + " sends itself " +
                                 std::to_string(to_self) + " elements but expects " +
                                 std::to_string(from_self)};
    }
  }
  set_key(out, Collective::alltoall, 0, dtype);
  out->call.key.lengths = 1;
  out->call.input = bytes(send == TUTTI_IN_PLACE ? recv : send);
  out->call.output = bytes(recv);
  out->call.input_aside = send == TUTTI_IN_PLACE;
  out->call.aside_count = received;
  return {};
}

template <class Make>
tutti_status blocking(tutti_comm comm, const tutti_call_config* config, Make&& make) {
  return guarded(comm, [&](Communicator& c) {
    Made made;
    CallSettings settings;
    Status checked;
    if (config != nullptr) checked = read_config(config, &settings);
    if (checked.ok()) checked = make(c, &made);
    if (checked.ok() && c.in_group()) [[unlikely]]
      checked = {TUTTI_INVALID, "a collective call between tutti_group_begin() and _end()"};
    if (!checked.ok()) [[unlikely]]
      return c.fail(std::move(checked));
    made.call.key.unfused = settings.unfused;
    made.call.key.algorithm = settings.algorithm;
    made.call.timeout_ms = settings.timeout_ms;
    if (made.call.key.lengths != 0) made.call.blocks = &made.blocks;
    return c.run(made.call);
  });
}

}  // namespace

}  // namespace tutti::api

using namespace tutti;

extern "C" {

tutti_status tutti_allreduce(const void* send, void* recv, size_t count, tutti_dtype dtype,
                             tutti_op op, tutti_comm comm) {
  return tutti_allreduce_with(send, recv, count, dtype, op, comm, nullptr);
}
tutti_status tutti_allreduce_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                  tutti_op op, tutti_comm comm, const tutti_call_config* config) {
  return api::blocking(comm, config, [&](Communicator& c, api::Made* out) {
    return api::make_allreduce(c, send, recv, count, dtype, op, out);
  });
}

tutti_status tutti_reduce(const void* send, void* recv, size_t count, tutti_dtype dtype,
                          tutti_op op, int root, tutti_comm comm) {
  return tutti_reduce_with(send, recv, count, dtype, op, root, comm, nullptr);
}
tutti_status tutti_reduce_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                               tutti_op op, int root, tutti_comm comm,
                               const tutti_call_config* config) {
  return api::blocking(comm, config, [&](Communicator& c, api::Made* out) {
    return api::make_reduce(c, send, recv, count, dtype, op, root, out);
  });
}

tutti_status tutti_broadcast(void* buffer, size_t count, tutti_dtype dtype, int root,
                             tutti_comm comm) {
  return tutti_broadcast_with(buffer, count, dtype, root, comm, nullptr);
}
tutti_status tutti_broadcast_with(void* buffer, size_t count, tutti_dtype dtype, int root,
                                  tutti_comm comm, const tutti_call_config* config) {
  return api::blocking(comm, config, [&](Communicator& c, api::Made* out) {
    return api::make_broadcast(c, buffer, count, dtype, root, out);
  });
}

tutti_status tutti_allgather(const void* send, void* recv, size_t count, tutti_dtype dtype,
                             tutti_comm comm) {
  return tutti_allgather_with(send, recv, count, dtype, comm, nullptr);
}
tutti_status tutti_allgather_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                  tutti_comm comm, const tutti_call_config* config) {
  return api::blocking(comm, config, [&](Communicator& c, api::Made* out) {
    return api::make_allgather(c, send, recv, count, dtype, out);
  });
}

tutti_status tutti_allgatherv(const void* send, size_t send_count, void* recv, const size_t* counts,
                              const size_t* displs, tutti_dtype dtype, tutti_comm comm) {
  return tutti_allgatherv_with(send, send_count, recv, counts, displs, dtype, comm, nullptr);
}
tutti_status tutti_allgatherv_with(const void* send, size_t send_count, void* recv,
                                   const size_t* counts, const size_t* displs, tutti_dtype dtype,
                                   tutti_comm comm, const tutti_call_config* config) {
  return api::blocking(comm, config, [&](Communicator& c, api::Made* out) {
    return api::make_allgatherv(c, send, send_count, recv, counts, displs, dtype, out);
  });
}

tutti_status tutti_gather(const void* send, void* recv, size_t count, tutti_dtype dtype, int root,
                          tutti_comm comm) {
  return tutti_gather_with(send, recv, count, dtype, root, comm, nullptr);
}
tutti_status tutti_gather_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                               int root, tutti_comm comm, const tutti_call_config* config) {
  return api::blocking(comm, config, [&](Communicator& c, api::Made* out) {
    return api::make_gather(c, send, recv, count, dtype, root, out);
  });
}

tutti_status tutti_gatherv(const void* send, size_t send_count, void* recv, const size_t* counts,
                           const size_t* displs, tutti_dtype dtype, int root, tutti_comm comm) {
  return tutti_gatherv_with(send, send_count, recv, counts, displs, dtype, root, comm, nullptr);
}
tutti_status tutti_gatherv_with(const void* send, size_t send_count, void* recv,
                                const size_t* counts, const size_t* displs, tutti_dtype dtype,
                                int root, tutti_comm comm, const tutti_call_config* config) {
  return api::blocking(comm, config, [&](Communicator& c, api::Made* out) {
    return api::make_gatherv(c, send, send_count, recv, counts, displs, dtype, root, out);
  });
}

tutti_status tutti_scatter(const void* send, void* recv, size_t count, tutti_dtype dtype, int root,
                           tutti_comm comm) {
  return tutti_scatter_with(send, recv, count, dtype, root, comm, nullptr);
}
tutti_status tutti_scatter_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                int root, tutti_comm comm, const tutti_call_config* config) {
  return api::blocking(comm, config, [&](Communicator& c, api::Made* out) {
    return api::make_scatter(c, send, recv, count, dtype, root, out);
  });
}

tutti_status tutti_scatterv(const void* send, const size_t* counts, const size_t* displs,
                            void* recv, size_t recv_count, tutti_dtype dtype, int root,
                            tutti_comm comm) {
  return tutti_scatterv_with(send, counts, displs, recv, recv_count, dtype, root, comm, nullptr);
}
tutti_status tutti_scatterv_with(const void* send, const size_t* counts, const size_t* displs,
                                 void* recv, size_t recv_count, tutti_dtype dtype, int root,
                                 tutti_comm comm, const tutti_call_config* config) {
  return api::blocking(comm, config, [&](Communicator& c, api::Made* out) {
    return api::make_scatterv(c, send, counts, displs, recv, recv_count, dtype, root, out);
  });
}

tutti_status tutti_reduce_scatter_block(const void* send, void* recv, size_t count,
                                        tutti_dtype dtype, tutti_op op, tutti_comm comm) {
  return tutti_reduce_scatter_block_with(send, recv, count, dtype, op, comm, nullptr);
}
tutti_status tutti_reduce_scatter_block_with(const void* send, void* recv, size_t count,
                                             tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                             const tutti_call_config* config) {
  return api::blocking(comm, config, [&](Communicator& c, api::Made* out) {
    return api::make_reduce_scatter_block(c, send, recv, count, dtype, op, out);
  });
}

tutti_status tutti_reduce_scatter(const void* send, void* recv, const size_t* counts,
                                  tutti_dtype dtype, tutti_op op, tutti_comm comm) {
  return tutti_reduce_scatter_with(send, recv, counts, dtype, op, comm, nullptr);
}
tutti_status tutti_reduce_scatter_with(const void* send, void* recv, const size_t* counts,
                                       tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                       const tutti_call_config* config) {
  return api::blocking(comm, config, [&](Communicator& c, api::Made* out) {
    return api::make_reduce_scatter(c, send, recv, counts, dtype, op, out);
  });
}

tutti_status tutti_alltoall(const void* send, void* recv, size_t count, tutti_dtype dtype,
                            tutti_comm comm) {
  return tutti_alltoall_with(send, recv, count, dtype, comm, nullptr);
}
tutti_status tutti_alltoall_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                                 tutti_comm comm, const tutti_call_config* config) {
  return api::blocking(comm, config, [&](Communicator& c, api::Made* out) {
    return api::make_alltoall(c, send, recv, count, dtype, out);
  });
}

tutti_status tutti_alltoallv(const void* send, const size_t* send_counts, const size_t* send_displs,
                             void* recv, const size_t* recv_counts, const size_t* recv_displs,
                             tutti_dtype dtype, tutti_comm comm) {
  return tutti_alltoallv_with(send, send_counts, send_displs, recv, recv_counts, recv_displs, dtype,
                              comm, nullptr);
}
tutti_status tutti_alltoallv_with(const void* send, const size_t* send_counts,
                                  const size_t* send_displs, void* recv, const size_t* recv_counts,
                                  const size_t* recv_displs, tutti_dtype dtype, tutti_comm comm,
                                  const tutti_call_config* config) {
  return api::blocking(comm, config, [&](Communicator& c, api::Made* out) {
    return api::make_alltoallv(c, send, send_counts, send_displs, recv, recv_counts, recv_displs,
                               dtype, out);
  });
}

tutti_status tutti_scan(const void* send, void* recv, size_t count, tutti_dtype dtype, tutti_op op,
                        tutti_comm comm) {
  return tutti_scan_with(send, recv, count, dtype, op, comm, nullptr);
}
tutti_status tutti_scan_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                             tutti_op op, tutti_comm comm, const tutti_call_config* config) {
  return api::blocking(comm, config, [&](Communicator& c, api::Made* out) {
    return api::make_scan(c, send, recv, count, dtype, op, out);
  });
}

tutti_status tutti_exscan(const void* send, void* recv, size_t count, tutti_dtype dtype,
                          tutti_op op, tutti_comm comm) {
  return tutti_exscan_with(send, recv, count, dtype, op, comm, nullptr);
}
tutti_status tutti_exscan_with(const void* send, void* recv, size_t count, tutti_dtype dtype,
                               tutti_op op, tutti_comm comm, const tutti_call_config* config) {
  return api::blocking(comm, config, [&](Communicator& c, api::Made* out) {
    return api::make_exscan(c, send, recv, count, dtype, op, out);
  });
}

tutti_status tutti_barrier(tutti_comm comm) { return tutti_barrier_with(comm, nullptr); }
tutti_status tutti_barrier_with(tutti_comm comm, const tutti_call_config* config) {
  return api::blocking(comm, config,
                       [&](Communicator& c, api::Made* out) { return api::make_barrier(c, out); });
}

}  // extern "C"
