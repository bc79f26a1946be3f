#include "lib/sparse/compound.h"

#include <algorithm>

#include "lib/base/clock.h"
#include "lib/base/types.h"
#include "lib/plan/blocks.h"

namespace tutti::sparse {

std::string Arguments::describe() const {
  const bool known = dtype < TUTTI_DTYPE_COUNT && op < TUTTI_OP_COUNT;
  std::string text = std::to_string(length) + " ";
  text += known ? dtype_name(tutti_dtype(dtype)) : "elements of an unknown type";
  if (known) text += std::string(", ") + op_name(tutti_op(op));
  if (k != 0) text += ", k " + std::to_string(k);
  if (codec[0] == 0) return text;
  text += ", codec ";
  for (const char c : codec) {
    if (c > ' ' && c < 0x7f) text += c;
  }
  return text + " (" + std::to_string(codec_bytes) + " bytes per " + std::to_string(codec_block) +
         ")";
}

CompoundCall::CompoundCall(Communicator& c, Compound kind, const CallSettings& settings)
    : c_(c),
      deadline_ns_(deadline_after_ms(settings.timeout_ms > 0 ? settings.timeout_ms
                                                             : c.settings().timeout_ms)) {
  key_.part_of = kind;
  key_.unfused = settings.unfused;
  key_.dtype = TUTTI_UINT8;
}

Status CompoundCall::run(Collective collective, uint64_t count, const void* input, void* output,
                         const Blocks* blocks, uint64_t lengths) {
  key_.collective = collective;
  key_.count = count;
  key_.lengths = lengths;
  Call call;
  call.key = key_;
  call.input = static_cast<const std::byte*>(input);
  call.output = static_cast<std::byte*>(output);
  call.blocks = blocks;
  call.lengths_agreed = true;
  const uint64_t now = now_ns();
  call.timeout_ms = int64_t((deadline_ns_ - std::min(now, deadline_ns_)) / 1'000'000u) + 1;
  if (c_.run(call) == TUTTI_OK) return {};
  return last_error();
}

// Not by the copy constructor, in which the analyzer sees a leak.
Status CompoundCall::last_error() const {
  const Status& last = c_.last_error();
  return {last.code(), last.text(), last.rank(), last.call()};
}

Status CompoundCall::broken_off(Status status) {
  c_.break_off(std::move(status), key_);
  return last_error();
}

Status CompoundCall::open(std::span<const Opening> mine, std::span<Opening> theirs) {
  TUTTI_TRY(run(Collective::alltoall, sizeof(Opening), mine.data(), theirs.data()));
  const Arguments& own = mine[size_t(rank())].arguments;
  for (size_t r = 0; r < theirs.size(); ++r) {
    const Arguments& other = theirs[r].arguments;
    if (other == own) continue;
    return broken_off({TUTTI_MISMATCH,
                       rank_name(r) + " was called with " + other.describe() + ", rank " +
                           std::to_string(rank()) + " with " + own.describe(),
                       int(r)});
  }
  return {};
}

Status CompoundCall::allgather(uint64_t mine, std::vector<uint64_t>* all) {
  all->resize(size_t(nranks()));
  return run(Collective::allgather, sizeof(mine), &mine, all->data());
}

Status CompoundCall::alltoall(const std::byte* send, size_t bytes, std::byte* recv) {
  return run(Collective::alltoall, bytes, send, recv);
}

Status CompoundCall::allgather(const std::byte* send, size_t bytes, std::byte* recv) {
  return run(Collective::allgather, bytes, send, recv);
}

Status CompoundCall::alltoallv(const std::byte* send, std::span<const size_t> sent, std::byte* recv,
                               std::span<const size_t> received) {
  const Blocks blocks{sent.data(), nullptr, received.data(), nullptr, 0};
  return run(Collective::alltoall, 0, send, recv, &blocks, 1);
}

Status CompoundCall::allgatherv(const std::byte* send, std::byte* recv,
                                std::span<const size_t> lengths) {
  const Blocks blocks{nullptr, nullptr, lengths.data(), nullptr, lengths[size_t(rank())]};
  return run(Collective::allgather, sum_of(lengths), send, recv, &blocks, digest_of(lengths));
}

}  // namespace tutti::sparse
