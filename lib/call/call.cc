#include "lib/call/call.h"

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

// Empty for the default level.
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

// MPI's names: of reduce_scatter the form with equal blocks has the longer name.
std::string name_of_call(Collective collective, bool v_form) {
  const std::string name = collective_name(collective);
  if (collective == Collective::reduce_scatter) return v_form ? name : name + "_block";
  return v_form ? name + "v" : name;
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
                                          "allreduce_coded", "memory to adopt"};
  const auto part_of = size_t((flags & compound_mask) >> compound_shift);
  const char* const whole = part_of < std::size(names) ? names[part_of] : "unknown";
  return *whole == 0 ? describe_alone() : std::string(whole) + " (" + describe_alone() + ")";
}

std::string CallSignature::describe_alone() const {
  if (uint32_t(collective) >= collective_count) {
    return "unknown call " + std::to_string(int(collective));
  }
  const bool v = (flags & v_form) != 0;
  if (collective == Collective::barrier) return "barrier" + algorithm_text(algorithm);
  const std::string elements = dtype_text(dtype, element_size);
  const std::string what = std::to_string(count) + " " + elements;
  if (collective == Collective::point_to_point) {
    return "message of " + what + ", tag " + std::to_string(root);
  }
  std::string text = name_of_call(collective, v) + " of ";
  text += v && lengths_are_private(collective) ? elements : what;
  if (v && !lengths_are_private(collective)) {
    char digest[16];
    std::snprintf(digest, sizeof(digest), "%08x", uint32_t(root));
    text += std::string(" in blocks of lengths #") + digest;
  }
  if (reduces(collective)) text += ", " + op_text(op) + level_text(level);
  if (is_rooted(collective)) {
    text += reduces(collective) ? ", " : " ";
    text += traits_of(collective).root == Root::target ? "to" : "from";
    text += " rank " + std::to_string(root);
  }
  return text + algorithm_text(algorithm);
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
  std::string text = "the result of call " + std::to_string(mark.epoch - 1) + " at " +
                     rank_name(differs->rank) + " differs from that ";
  text += most ? "of the other ranks" : "at " + rank_name(self);
  return {TUTTI_MISMATCH, std::move(text), differs->rank, mark.epoch};
}

}  // namespace tutti
