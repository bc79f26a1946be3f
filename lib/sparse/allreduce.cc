#include "lib/sparse/allreduce.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lib/base/types.h"
#include "lib/plan/blocks.h"
#include "lib/sparse/merge.h"

namespace tutti::sparse {

namespace {

// One rank's part in one call.
class Allreduce {
 public:
  Allreduce(CompoundCall& call, const Arguments& arguments, const Entries& mine)
      : call_(call),
        arguments_(arguments),
        mine_(mine),
        n_(size_t(call.nranks())),
        dtype_(tutti_dtype(arguments.dtype)),
        op_(tutti_op(arguments.op)),
        value_size_(dtype_size(dtype_)) {
    for (size_t r = 0; r < n_; ++r) parts_.push_back(part_of(arguments.length, int(r), int(n_)));
  }

  // The entries of this rank, by owner.
  std::vector<Entries> split() const {
    std::vector<Entries> by_owner;
    const uint32_t* const end = mine_.indices + mine_.count;
    const uint32_t* at = mine_.indices;
    for (const Part& part : parts_) {
      const uint32_t* const until =
          std::lower_bound(at, end, part.end, [](uint32_t i, uint64_t bound) { return i < bound; });
      const uint64_t count = uint64_t(until - at), before = uint64_t(at - mine_.indices);
      by_owner.push_back({at, mine_.values + before * value_size_, count});
      at = until;
    }
    return by_owner;
  }

  // Sends entries to their owners and merges those that this rank receives as an owner.
  Status reduce(std::span<const Entries> by_owner, std::span<const Opening> openings,
                Entries* out) {
    std::vector<PieceShape> sent, received;
    for (size_t r = 0; r < n_; ++r) {
      sent.emplace_back(parts_[r], by_owner[r].count, value_size_);
      if (openings[r].entries > own().size()) return call_.broken_off(too_many(r));
      received.emplace_back(own(), openings[r].entries, value_size_);
    }
    const std::vector<size_t> sent_bytes = lengths_of(sent), received_bytes = lengths_of(received);
    std::byte* const outgoing = call_.memory(Buffer::outgoing, sum_of(sent_bytes));
    std::byte* const incoming = call_.memory(Buffer::incoming, sum_of(received_bytes));
    std::byte* to = outgoing;
    for (size_t r = 0; r < n_; to += sent_bytes[r++]) sent[r].pack(by_owner[r], to);
    TUTTI_TRY(call_.alltoallv(outgoing, sent_bytes, incoming, received_bytes));
    return merge_pieces(openings, received, incoming, out);
  }

  // Sends this owner's merged entries to all ranks.
  Status gather(const Entries& merged, std::span<const uint64_t> counts,
                std::vector<PieceShape>* shapes, const std::byte** pieces) {
    for (size_t r = 0; r < n_; ++r) {
      if (counts[r] > parts_[r].size()) return call_.broken_off(too_many(r));
      shapes->emplace_back(parts_[r], counts[r], value_size_);
    }
    const std::vector<size_t> lengths = lengths_of(*shapes);
    const PieceShape& shape = (*shapes)[size_t(call_.rank())];
    std::byte* const piece = call_.memory(Buffer::outgoing, shape.bytes());
    shape.pack(merged, piece);
    std::byte* const all = call_.memory(Buffer::result, sum_of(lengths));
    *pieces = all;
    return call_.allgatherv(piece, all, lengths);
  }

 private:
  const Part& own() const { return parts_[size_t(call_.rank())]; }

  static std::vector<size_t> lengths_of(std::span<const PieceShape> shapes) {
    std::vector<size_t> lengths;
    for (const PieceShape& shape : shapes) lengths.push_back(shape.bytes());
    return lengths;
  }

  static Status too_many(size_t rank) {
    return {TUTTI_CORRUPT, rank_name(rank) + " has more entries than indices", int(rank)};
  }

  Status merge_pieces(std::span<const Opening> openings, std::span<const PieceShape> shapes,
                      const std::byte* pieces, Entries* out) {
    uint64_t total = 0;
    for (const Opening& opening : openings) total += opening.entries;
    std::vector<Entries> lists;
    auto* to = call_.memory<uint32_t>(Buffer::operands, total);
    for (size_t r = 0; r < n_; ++r) {
      if (Status unpacked = shapes[r].unpack_indices(pieces, to); !unpacked.ok()) {
        return call_.broken_off(std::move(unpacked));
      }
      lists.push_back({to, pieces + shapes[r].values_at(), openings[r].entries});
      to += openings[r].entries;
      pieces += shapes[r].bytes();
    }
    const Kernels kernels = find_kernels(dtype_, op_);
    auto* const indices = call_.memory<uint32_t>(Buffer::indices, total);
    std::byte* const values = call_.memory(Buffer::values, total * value_size_);
    const uint64_t count = merge(lists, kernels, value_size_, indices, values);
    // Logical values become 0 or 1 also where only one rank has an entry.
    if (gives_truth(op_, dtype_)) {
      find_kernels(dtype_, TUTTI_LOR).reduce2(values, values, values, count);
    }
    if (kernels.divide != nullptr) kernels.divide(values, count, uint32_t(n_));
    *out = {indices, values, count};
    return {};
  }

  CompoundCall& call_;
  const Arguments& arguments_;
  const Entries& mine_;
  const size_t n_;
  const tutti_dtype dtype_;
  const tutti_op op_;
  const size_t value_size_;
  std::vector<Part> parts_;
};

}  // namespace

Status allreduce(CompoundCall& call, const Arguments& arguments, const Entries& mine, uint64_t room,
                 Result* out) {
  Allreduce work(call, arguments, mine);
  const std::vector<Entries> by_owner = work.split();
  std::vector<Opening> openings, theirs(by_owner.size());
  for (const Entries& entries : by_owner) openings.push_back({arguments, entries.count, room});
  TUTTI_TRY(call.open(openings, theirs));
  Entries merged;
  TUTTI_TRY(work.reduce(by_owner, theirs, &merged));
  std::vector<uint64_t> counts;
  TUTTI_TRY(call.allgather(merged.count, &counts));
  out->value_size_ = dtype_size(tutti_dtype(arguments.dtype));
  out->entries_ = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  // Computed from values that all ranks have, so all decide alike.
  const auto least =
      std::min_element(theirs.begin(), theirs.end(),
                       [](const Opening& a, const Opening& b) { return a.room < b.room; });
  if (out->entries_ > least->room) {
    const auto rank = int(least - theirs.begin());
    return {TUTTI_INVALID,
            "the result has " + std::to_string(out->entries_) + " entries, but rank " +
                std::to_string(rank) + " has room for " + std::to_string(least->room),
            rank};
  }
  return work.gather(merged, counts, &out->shapes_, &out->pieces_);
}

Status Result::copy_to(uint32_t* indices, std::byte* values) const {
  const std::byte* piece = pieces_;
  for (const PieceShape& shape : shapes_) {
    TUTTI_TRY(shape.unpack_indices(piece, indices));
    const size_t bytes = shape.count() * value_size_;
    if (bytes != 0) std::memcpy(values, piece + shape.values_at(), bytes);
    indices += shape.count();
    values += bytes;
    piece += shape.bytes();
  }
  return {};
}

Status Result::scatter_to(std::byte* vector) const {
  const std::byte* piece = pieces_;
  std::vector<uint32_t> indices;
  for (const PieceShape& shape : shapes_) {
    indices.resize(shape.count());
    TUTTI_TRY(shape.unpack_indices(piece, indices.data()));
    const std::byte* value = piece + shape.values_at();
    for (const uint32_t index : indices) {
      copy_value(vector + index * value_size_, value, value_size_);
      value += value_size_;
    }
    piece += shape.bytes();
  }
  return {};
}

}  // namespace tutti::sparse
