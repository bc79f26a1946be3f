#include "lib/api/make_call.h"

#include "lib/plan/blocks.h"

namespace tutti::api {

namespace {

std::span<const size_t> lengths_of(const Communicator& c, const size_t* counts) {
  return {counts, size_t(c.nranks())};
}

// The offset of this rank's block, in elements.
uint64_t own_place(const Communicator& c, const size_t* counts, const size_t* displs) {
  if (displs != nullptr) return displs[c.rank()];
  return sum_of({counts, size_t(c.rank())});
}

// Of the two lengths of a root's own block. Several ranks compare them, and all others, in the
// call.
Status check_lone_length(const Communicator& c, uint64_t own, const size_t* counts) {
  if (c.nranks() > 1 || own == counts[0]) return {};
  return {TUTTI_INVALID, "the only rank's own length is " + std::to_string(own) +
                             ", but counts[0] is " + std::to_string(counts[0])};
}

Status only_root(int root, const char* does) {
  return {TUTTI_INVALID, "only the root, rank " + std::to_string(root) + ", " + does + " in place"};
}

}  // namespace

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

Status make_scan(const Communicator&, const void* send, void* recv, size_t count, tutti_dtype dtype,
                 tutti_op op, MadeCall* out) {
  return make_vectors(Collective::scan, send, recv, count, dtype, op, out);
}
Status make_exscan(const Communicator&, const void* send, void* recv, size_t count,
                   tutti_dtype dtype, tutti_op op, MadeCall* out) {
  return make_vectors(Collective::exscan, send, recv, count, dtype, op, out);
}

// Of a rank that is not the root.
static Status check_reduced_vector(const void* send, uint64_t count, tutti_dtype dtype, tutti_op op,
                                   int root) {
  TUTTI_TRY(check_vector(count, dtype));
  TUTTI_TRY(check_operator(op, dtype));
  if (send == TUTTI_IN_PLACE) return only_root(root, "reduces");
  return check_send(send, count);
}

Status make_reduce(const Communicator& c, const void* send, void* recv, size_t count,
                   tutti_dtype dtype, tutti_op op, int root, MadeCall* out) {
  TUTTI_TRY(check_root(c, root));
  if (c.rank() == root) {
    TUTTI_TRY(make_vectors(Collective::reduce, send, recv, count, dtype, op, out));
  } else {
    if (send == nullptr || send == TUTTI_IN_PLACE || plain_element_bytes(count, dtype, op) == 0)
        [[unlikely]]
      TUTTI_TRY(check_reduced_vector(send, count, dtype, op, root));
    out->call.input = bytes(send);
  }
  set_key(out, Collective::reduce, count, dtype, op, root);
  return {};
}

Status make_barrier(const Communicator&, MadeCall* out) {
  // Runs as an allreduce of one byte, whose value does not matter.
  set_key(out, Collective::barrier, 1, TUTTI_UINT8, TUTTI_MAX);
  out->barrier[0] = {};
  out->call.input = &out->barrier[0];
  out->call.output = &out->barrier[1];
  return {};
}

Status make_allgather(const Communicator& c, const void* send, void* recv, size_t count,
                      tutti_dtype dtype, MadeCall* out) {
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
                       const size_t* counts, const size_t* displs, tutti_dtype dtype,
                       MadeCall* out) {
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
  set_key(out, Collective::allgather, sum_of(lengths_of(c, counts)), dtype);
  out->call.key.lengths = digest_of(lengths_of(c, counts));
  out->call.output = bytes(recv);
  return {};
}

Status make_gather(const Communicator& c, const void* send, void* recv, size_t count,
                   tutti_dtype dtype, int root, MadeCall* out) {
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
                    MadeCall* out) {
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
    TUTTI_TRY(check_lone_length(c, out->blocks.own, counts));
    out->blocks.recv_counts = counts;
    out->blocks.recv_displs = displs;
    out->call.output = bytes(recv);
  }
  set_key(out, Collective::gather, 0, dtype, TUTTI_SUM, root);
  out->call.key.lengths = 1;
  return {};
}

Status make_scatter(const Communicator& c, const void* send, void* recv, size_t count,
                    tutti_dtype dtype, int root, MadeCall* out) {
  TUTTI_TRY(check_root(c, root));
  TUTTI_TRY(check_equal_blocks(c, count, dtype));
  const bool at_root = c.rank() == root;
  if (at_root) TUTTI_TRY(check_send(send, count));
  if (recv == TUTTI_IN_PLACE && !at_root) return only_root(root, "scatters");
  out->call.output = bytes(recv);
  if (recv == TUTTI_IN_PLACE) {
    // The block is in place already, so nothing is written there.
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
                     int root, MadeCall* out) {
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
    TUTTI_TRY(check_lone_length(c, out->blocks.own, counts));
    out->blocks.send_counts = counts;
    out->blocks.send_displs = displs;
    out->call.input = bytes(send);
  }
  set_key(out, Collective::scatter, 0, dtype, TUTTI_SUM, root);
  out->call.key.lengths = 1;
  return {};
}

// In place the result overwrites the first block, which other ranks may still need.
static void place_reduced(const Communicator& c, const void* send, void* recv, uint64_t own,
                          MadeCall* out) {
  out->call.input = bytes(send == TUTTI_IN_PLACE ? recv : send);
  out->call.output = bytes(recv);
  out->call.output_aside = send == TUTTI_IN_PLACE && c.rank() != 0;
  out->call.aside_count = own;
}

static Status check_reduced_block(const Communicator& c, const void* send, const void* recv,
                                  size_t count, tutti_dtype dtype, tutti_op op) {
  TUTTI_TRY(check_equal_blocks(c, count, dtype));
  TUTTI_TRY(check_operator(op, dtype));
  TUTTI_TRY(check_recv(recv, count));
  if (send == TUTTI_IN_PLACE) return {};
  TUTTI_TRY(check_send(send, count));
  return check_apart(send, count * c.nranks(), recv, count, dtype);
}

Status make_reduce_scatter_block(const Communicator& c, const void* send, void* recv, size_t count,
                                 tutti_dtype dtype, tutti_op op, MadeCall* out) {
  // As if the result were as long as the input: what passes so is right.
  if (count > plainly_fits || !plainly_right(send, recv, count * c.nranks(), dtype, op))
      [[unlikely]]
    TUTTI_TRY(check_reduced_block(c, send, recv, count, dtype, op));
  set_key(out, Collective::reduce_scatter, count, dtype, op);
  place_reduced(c, send, recv, count, out);
  return {};
}

Status make_reduce_scatter(const Communicator& c, const void* send, void* recv,
                           const size_t* counts, tutti_dtype dtype, tutti_op op, MadeCall* out) {
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
  out->call.key.lengths = digest_of(lengths_of(c, counts));
  place_reduced(c, send, recv, own, out);
  return {};
}

Status make_alltoall(const Communicator& c, const void* send, void* recv, size_t count,
                     tutti_dtype dtype, MadeCall* out) {
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
                      const size_t* recv_displs, tutti_dtype dtype, MadeCall* out) {
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
      return {TUTTI_INVALID, rank_name(c.rank()) + " sends itself " + std::to_string(to_self) +
                                 " elements but expects " + std::to_string(from_self)};
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

}  // namespace tutti::api
