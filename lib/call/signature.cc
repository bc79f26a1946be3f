#include "lib/call/signature.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "algorithms/registry.h"
#include "lib/base/types.h"
#include "lib/base/user_types.h"

namespace tutti {

namespace {

// The numbers may come from a peer, so none is trusted to be a valid enumerator.
std::string dtype_text(uint8_t dtype, uint16_t element_size) {
  if (dtype == CallSignature::user_dtype) {
    return "user-defined elements of " + std::to_string(element_size) + " bytes";
  }
  const char* name =
      dtype < TUTTI_DTYPE_COUNT ? dtype_name(static_cast<tutti_dtype>(dtype)) : nullptr;
  return name != nullptr ? name : "elements of type " + std::to_string(dtype);
}

std::string op_text(uint8_t op) {
  if (op == CallSignature::premul_sum) return "pre-multiplied sum";
  if (op == CallSignature::commutative_op) return "user operator";
  if (op == CallSignature::ordered_op) return "user operator that is not commutative";
  const char* name = op < TUTTI_OP_COUNT ? op_name(static_cast<tutti_op>(op)) : nullptr;
  return name != nullptr ? name : "operator " + std::to_string(op);
}

// What is so by default goes without saying.
std::string level_text(uint8_t level) {
  if (level == TUTTI_LEVEL_FAST) return {};
  const char* name =
      level < TUTTI_LEVEL_COUNT ? level_name(static_cast<tutti_level>(level)) : nullptr;
  return name != nullptr ? std::string(" at level ") + name : ", level " + std::to_string(level);
}

std::string algorithm_text(uint16_t algorithm) {
  if (algorithm == 0xffff) return {};
  if (algorithm >= algorithms().size()) return ", algorithm " + std::to_string(algorithm);
  return std::string(", ") + algorithms()[algorithm].name;
}

}  // namespace

void CallSignature::set_types(tutti_dtype type, tutti_op operation) {
  const bool own_type = unsigned(type) >= TUTTI_DTYPE_COUNT;
  dtype = own_type ? user_dtype : uint8_t(type);
  element_size = own_type ? uint16_t(dtype_size(type)) : 0;
  if (unsigned(operation) < TUTTI_OP_COUNT) {
    op = uint8_t(operation);
    return;
  }
  const UserOpTraits traits = user_op_traits(operation);
  op = traits.premultiplied ? premul_sum : traits.commutative ? commutative_op : ordered_op;
}

std::string CallSignature::describe() const {
  static constexpr const char* names[] = {"", "allreduce_sparse", "topk_allreduce",
                                          "allreduce_coded"};
  const char* const whole = names[(flags & compound_mask) >> compound_shift];
  return *whole == 0 ? describe_alone() : std::string(whole) + " (" + describe_alone() + ")";
}

std::string CallSignature::describe_alone() const {
  const std::string what = std::to_string(count) + " " + dtype_text(dtype, element_size);
  const std::string rank = std::to_string(root);
  if ((flags & v_form) != 0) return describe_v();
  switch (collective) {
    case Collective::allreduce:
    case Collective::scan:
    case Collective::exscan:
      return collective_name(collective) + (" of " + what) + ", " + op_text(op) +
             level_text(level) + algorithm_text(algorithm);
    case Collective::reduce_scatter:
      return "reduce_scatter_block of " + what + ", " + op_text(op) + level_text(level) +
             algorithm_text(algorithm);
    case Collective::reduce:
      return "reduce of " + what + ", " + op_text(op) + level_text(level) + ", to rank " + rank +
             algorithm_text(algorithm);
    case Collective::allgather:
    case Collective::alltoall:
      return collective_name(collective) + (" of " + what) + algorithm_text(algorithm);
    case Collective::broadcast:
    case Collective::scatter:
      return collective_name(collective) + (" of " + what) + " from rank " + rank +
             algorithm_text(algorithm);
    case Collective::gather:
      return "gather of " + what + " to rank " + rank + algorithm_text(algorithm);
    case Collective::barrier:
      return "barrier" + algorithm_text(algorithm);
    case Collective::point_to_point:
      return "message of " + what + ", tag " + std::to_string(root);
  }
  return "unknown call " + std::to_string(int(collective));
}

Status ResultMismatch::judge(const CallMark& mark, int self, std::span<const Announced> peers,
                             size_t nranks, uint64_t now_ns) {
  std::vector<Announced> all(peers.begin(), peers.end());
  all.push_back({self, mark.digest});
  const auto agree = [&](uint32_t digest) {
    return std::count_if(all.begin(), all.end(),
                         [=](const Announced& one) { return one.digest == digest; });
  };
  const auto usual = std::max_element(
      all.begin(), all.end(), [&](auto& a, auto& b) { return agree(a.digest) < agree(b.digest); });
  const bool most = 2 * size_t(agree(usual->digest)) > nranks;
  if (since_ns_ == 0) since_ns_ = now_ns;
  if (!most && all.size() < nranks && now_ns - since_ns_ < patience_ns && now_ns != 0) return {};
  const auto differs = std::find_if(all.begin(), all.end(), [&](const Announced& one) {
    return one.digest != (most ? usual->digest : mark.digest);
  });
  const auto rank = [](int r) { return "rank " + std::to_string(r); };
  std::string text = "the result of call " + std::to_string(mark.epoch - 1) + " at " +
                     rank(differs->rank) + " differs from that ";
  text += most ? "of the other ranks" : "at " + rank(self);
  return {TUTTI_MISMATCH, std::move(text), differs->rank, mark.epoch};
}

// Collectives whose blocks have lengths of their own.
std::string CallSignature::describe_v() const {
  // MPI's names: of this one the form with equal blocks has the longer one.
  std::string text = collective_name(collective);
  if (collective != Collective::reduce_scatter) text += "v";
  if (is_rooted(collective)) {
    text += std::string(" of ") + dtype_text(dtype, element_size) +
            (collective == Collective::gather ? " to" : " from") + " rank " + std::to_string(root);
  } else if (collective == Collective::alltoall) {
    text += " of " + dtype_text(dtype, element_size);
  } else {
    char digest[16];
    std::snprintf(digest, sizeof(digest), "%08x", uint32_t(root));
    text += " of " + std::to_string(count) + " " + dtype_text(dtype, element_size) +
            " in blocks of lengths #" + digest;
    if (reduces(collective)) text += ", " + op_text(op) + level_text(level);
  }
  return text + algorithm_text(algorithm);
}

}  // namespace tutti
