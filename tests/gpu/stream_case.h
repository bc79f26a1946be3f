// One stream-ordered call of any collective, made from numbers and compared with the kernels of the
// host, bit for bit.
#pragma once

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "lib/base/types.h"
#include "lib/reduce/reduce.h"
#include "lib/schedule/goal.h"
#include "tests/gpu/gpu_comm.h"

namespace tutti::testing {

// Where vectors lie, of processes: for threads all is the same.
enum class Where { plain, shared, mixed };  // mixed: registered on odd ranks only

struct StreamCase {
  Collective collective = Collective::allreduce;
  std::string algorithm = "auto";
  int nranks = 2;
  size_t count = 1;
  tutti_dtype dtype = TUTTI_INT32;
  tutti_op op = TUTTI_SUM;
  tutti_level level = TUTTI_LEVEL_DEFAULT;
  int root = 0;
  bool in_place = false;
  size_t offset = 0;  // bytes into the allocations
  uint32_t flags = 0;
  Where where = Where::plain;
};

inline std::ostream& operator<<(std::ostream& out, const StreamCase& c) {
  return out << collective_name(c.collective) << ", " << c.algorithm << ", " << c.nranks
             << " ranks, " << c.count << " " << dtype_name(c.dtype) << ", " << op_name(c.op)
             << ", level " << int(c.level) << ", root " << c.root
             << (c.in_place ? ", in place" : "") << ", offset " << c.offset << ", flags " << c.flags
             << ", where " << int(c.where);
}

using Bytes = std::vector<std::byte>;

// Block `block` of what `rank` puts in.
inline Bytes stream_input(const StreamCase& c, size_t rank, size_t block) {
  const size_t size = dtype_size(c.dtype);
  Bytes bytes(c.count * size);
  uint64_t state = rank * 0x9e3779b97f4a7c15u + block * 0xbf58476d1ce4e5b9u + c.count;
  const auto next = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
  };
  for (size_t i = 0; i < c.count; ++i) {
    std::byte* const at = bytes.data() + i * size;
    if (c.dtype == TUTTI_FLOAT32) {
      const float value = float(int64_t(next() % 200001) - 100000) / 1024.0f;
      std::memcpy(at, &value, size);
    } else if (c.dtype == TUTTI_FLOAT64) {
      const double value = double(int64_t(next() % 2000001) - 1000000) / 4096.0;
      std::memcpy(at, &value, size);
    } else if (c.dtype == TUTTI_BOOL) {
      at[0] = std::byte(next() & 1);
    } else if (c.dtype == TUTTI_INT64) {
      const uint64_t value = next();
      std::memcpy(at, &value, size);
    } else {
      for (size_t b = 0; b < size; ++b) at[b] = std::byte(next());
    }
  }
  return bytes;
}

// What `ranks` ranks' blocks give, as at the level.
inline Bytes combined(const StreamCase& c, size_t ranks, size_t block) {
  std::vector<Bytes> inputs;
  std::vector<const void*> operands;
  for (size_t r = 0; r < ranks; ++r) inputs.push_back(stream_input(c, r, block));
  for (const Bytes& input : inputs) operands.push_back(input.data());
  Kernels kernels;
  const tutti_level level =
      op_rounds(c.op, c.dtype) && c.level != TUTTI_LEVEL_DEFAULT ? c.level : TUTTI_LEVEL_FAST;
  expect_ok(find_kernels(c.dtype, c.op, level, &kernels));
  Bytes out(c.count * dtype_size(c.dtype));
  if (out.empty()) return out;
  if (ranks == 1 && gives_truth(c.op, c.dtype)) {
    find_kernels(c.dtype, TUTTI_LOR).reduce2(out.data(), operands[0], operands[0], c.count);
    return out;
  }
  kernels.reduce(out.data(), operands.data(), ranks, c.count);
  if (kernels.divide != nullptr && ranks > 1) {
    kernels.divide(out.data(), c.count, uint32_t(ranks));
  }
  return out;
}

// Makes the call; `stream` null: the blocking form.
inline tutti_status make_stream_call(const StreamCase& c, const void* send, void* recv,
                                     tutti_comm comm, void* stream) {
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
  config.algorithm = c.algorithm.c_str();
  config.level = c.level;
  config.flags = c.flags;
  const size_t n = c.count;
  switch (c.collective) {
    case Collective::allreduce:
      return tutti_allreduce_on(send, recv, n, c.dtype, c.op, comm, &config, stream);
    case Collective::reduce:
      return tutti_reduce_on(send, recv, n, c.dtype, c.op, c.root, comm, &config, stream);
    case Collective::broadcast:
      return tutti_broadcast_on(recv, n, c.dtype, c.root, comm, &config, stream);
    case Collective::allgather:
      return tutti_allgather_on(send, recv, n, c.dtype, comm, &config, stream);
    case Collective::gather:
      return tutti_gather_on(send, recv, n, c.dtype, c.root, comm, &config, stream);
    case Collective::scatter:
      return tutti_scatter_on(send, recv, n, c.dtype, c.root, comm, &config, stream);
    case Collective::reduce_scatter:
      return tutti_reduce_scatter_block_on(send, recv, n, c.dtype, c.op, comm, &config, stream);
    case Collective::alltoall:
      return tutti_alltoall_on(send, recv, n, c.dtype, comm, &config, stream);
    case Collective::scan:
      return tutti_scan_on(send, recv, n, c.dtype, c.op, comm, &config, stream);
    case Collective::exscan:
      return tutti_exscan_on(send, recv, n, c.dtype, c.op, comm, &config, stream);
    default:
      return TUTTI_INVALID;
  }
}

// The blocks of a rank's buffers, before and after.
struct StreamBuffers {
  std::vector<Bytes> send, recv, expected;
  bool in_place = false;  // at this rank
};

inline StreamBuffers stream_buffers(const StreamCase& c, size_t self) {
  const size_t n = size_t(c.nranks), root = size_t(c.root);
  const bool at_root = self == root;
  const Bytes blank(c.count * dtype_size(c.dtype), std::byte{0xa5});
  StreamBuffers b;
  b.in_place = c.in_place;
  const auto inputs = [&](size_t blocks) {
    std::vector<Bytes> all;
    for (size_t i = 0; i < blocks; ++i) all.push_back(stream_input(c, self, i));
    return all;
  };
  const auto begin_with = [&](std::vector<Bytes> send, size_t blocks_out) {
    b.send = std::move(send);
    b.recv.assign(blocks_out, blank);
  };
  switch (c.collective) {
    case Collective::allreduce:
    case Collective::reduce:
    case Collective::scan:
    case Collective::exscan: {
      const bool gets = c.collective != Collective::reduce || at_root;
      begin_with(inputs(1), gets ? 1 : 0);
      b.in_place = c.in_place && gets;
      if (b.in_place) b.recv = b.send;
      b.expected = b.recv;
      const size_t ranks = c.collective == Collective::scan     ? self + 1
                           : c.collective == Collective::exscan ? self
                                                                : n;
      if (gets && ranks != 0) b.expected[0] = combined(c, ranks, 0);
      break;
    }
    case Collective::broadcast:
      b.in_place = false;
      b.recv = {at_root ? stream_input(c, self, 0) : blank};
      b.expected = {stream_input(c, root, 0)};
      break;
    case Collective::allgather:
    case Collective::gather: {
      const bool gets = c.collective == Collective::allgather || at_root;
      b.in_place = c.in_place && gets;
      begin_with(inputs(1), gets ? n : 0);
      if (b.in_place) b.recv[self] = b.send[0];
      b.expected = b.recv;
      for (size_t r = 0; gets && r < n; ++r) b.expected[r] = stream_input(c, r, 0);
      break;
    }
    case Collective::scatter:
      b.in_place = c.in_place && at_root;
      begin_with(at_root ? inputs(n) : std::vector<Bytes>(), b.in_place ? 0 : 1);
      if (!b.in_place) b.expected = {stream_input(c, root, self)};
      break;
    case Collective::reduce_scatter:
      begin_with(inputs(n), 1);
      if (c.in_place) b.recv = b.send;
      b.expected = {combined(c, n, self)};
      break;
    case Collective::alltoall:
      begin_with(inputs(n), n);
      if (c.in_place) b.recv = b.send;
      b.expected.clear();
      for (size_t r = 0; r < n; ++r) b.expected.push_back(stream_input(c, r, self));
      break;
    default:
      break;
  }
  return b;
}

inline Bytes joined(const std::vector<Bytes>& blocks) {
  Bytes all;
  for (const Bytes& block : blocks) all.insert(all.end(), block.begin(), block.end());
  return all;
}

// Runs the case on this rank; its memory is registered as the case says. Empty if all is right.
inline std::string run_stream_case(const StreamCase& c, int rank, tutti_comm comm,
                                   const GpuStream& stream) {
  const StreamBuffers b = stream_buffers(c, size_t(rank));
  const Bytes sent = joined(b.send), before = joined(b.recv), expected = joined(b.expected);
  const size_t most = c.count * dtype_size(c.dtype) * size_t(c.nranks);
  GpuBuffer send(most, c.offset), recv(most, c.offset);
  const bool shares = c.where == Where::shared || (c.where == Where::mixed && rank % 2 == 1);
  // Registering is collective: who keeps out registers something else.
  GpuBuffer beside_send(64), beside_recv(64);
  std::vector<void*> registered;
  if (c.where != Where::plain) {
    registered = {(shares ? send : beside_send).allocation(),
                  (shares ? recv : beside_recv).allocation()};
  }
  for (void* const at : registered) {
    if (tutti_mem_register_device(comm, at, shares ? most + c.offset + 1 : 64) != TUTTI_OK) {
      return sentence(comm);
    }
  }
  copy_gpu(send.get(), sent.data(), sent.size());
  copy_gpu(recv.get(), before.data(), before.size());
  const void* from = b.in_place ? TUTTI_IN_PLACE : send.get();
  void* to = recv.get();
  if (c.collective == Collective::scatter && b.in_place) {
    from = send.get();
    to = const_cast<void*>(TUTTI_IN_PLACE);
  }
  if (make_stream_call(c, from, to, comm, stream) != TUTTI_OK) return sentence(comm);
  if (!stream.wait()) return "the stream did not come to rest";
  if (tutti_comm_device_status(comm) != TUTTI_OK) return sentence(comm);
  Bytes got(std::max(expected.size(), before.size()));
  copy_gpu(got.data(), recv.get(), got.size());
  for (void* const at : registered) {
    if (tutti_mem_deregister(comm, at) != TUTTI_OK) return sentence(comm);
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (got[i] == expected[i]) continue;
    return "rank " + std::to_string(rank) + ", byte " + std::to_string(i) + " of " +
           std::to_string(expected.size()) + ": got " + std::to_string(int(got[i])) +
           ", expected " + std::to_string(int(expected[i]));
  }
  return {};
}

}  // namespace tutti::testing
