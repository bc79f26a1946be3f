#include "lib/signature.h"

#include <cstdio>

#include "lib/types.h"

namespace tutti {

namespace {

// The numbers may come from a peer, so none is trusted to be a valid enumerator.
std::string dtype_text(uint8_t dtype) {
  const char* name =
      dtype < TUTTI_DTYPE_COUNT ? dtype_name(static_cast<tutti_dtype>(dtype)) : nullptr;
  return name != nullptr ? name : "elements of type " + std::to_string(dtype);
}

std::string op_text(uint8_t op) {
  const char* name = op < TUTTI_OP_COUNT ? op_name(static_cast<tutti_op>(op)) : nullptr;
  return name != nullptr ? name : "operator " + std::to_string(op);
}

std::string algorithm_text(uint16_t algorithm) {
  if (algorithm == 0xffff) return {};
  if (algorithm >= algorithms().size()) return ", algorithm " + std::to_string(algorithm);
  return std::string(", ") + algorithms()[algorithm].name;
}

}  // namespace

std::string CallSignature::describe() const {
  const std::string what = std::to_string(count) + " " + dtype_text(dtype);
  const std::string rank = std::to_string(root);
  if ((flags & v_form) != 0) return describe_v();
  switch (collective) {
    case Collective::allreduce:
    case Collective::scan:
    case Collective::exscan:
      return collective_name(collective) + (" of " + what) + ", " + op_text(op) +
             algorithm_text(algorithm);
    case Collective::reduce_scatter:
      return "reduce_scatter_block of " + what + ", " + op_text(op) + algorithm_text(algorithm);
    case Collective::reduce:
      return "reduce of " + what + ", " + op_text(op) + ", to rank " + rank +
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

// Collectives whose blocks have lengths of their own.
std::string CallSignature::describe_v() const {
  // MPI's names: of this one the form with equal blocks has the longer one.
  std::string text = collective_name(collective);
  if (collective != Collective::reduce_scatter) text += "v";
  if (is_rooted(collective)) {
    text += std::string(" of ") + dtype_text(dtype) +
            (collective == Collective::gather ? " to" : " from") + " rank " + std::to_string(root);
  } else if (collective == Collective::alltoall) {
    text += " of " + dtype_text(dtype);
  } else {
    char digest[16];
    std::snprintf(digest, sizeof(digest), "%08x", uint32_t(root));
    text += " of " + std::to_string(count) + " " + dtype_text(dtype) + " in blocks of lengths #" +
            digest;
    if (reduces(collective)) text += ", " + op_text(op);
  }
  return text + algorithm_text(algorithm);
}

}  // namespace tutti
