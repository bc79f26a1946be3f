// Sums of the largest entries in the C API.
#include <cstring>
#include <limits>

#include "lib/api/compound.h"
#include "lib/sparse/allreduce.h"
#include "lib/sparse/topk.h"

namespace tutti::api {

namespace {

using sparse::TopK;

Status check_topk(const void* send, const void* recv, tutti_op op, const TopK* topk) {
  if (topk == nullptr) return {TUTTI_INVALID, "the top-k is NULL"};
  TUTTI_TRY(check_operator(op, topk->dtype()));
  if (op != TUTTI_SUM && op != TUTTI_AVG) {
    return {TUTTI_INVALID, std::string("a top-k has sum and avg only, not ") + op_name(op)};
  }
  return check_vectors(send, recv, topk->length(), topk->dtype());
}

Status run_topk(sparse::CompoundCall& call, const void* send, void* recv, tutti_op op, TopK& topk) {
  auto* const out = static_cast<std::byte*>(recv);
  const auto* const in = send == TUTTI_IN_PLACE ? out : static_cast<const std::byte*>(send);
  sparse::Arguments arguments = arguments_of(topk.length(), topk.dtype(), op);
  arguments.k = topk.k();
  sparse::Result result;
  TUTTI_TRY(sparse::allreduce(call, arguments, topk.pick(in), std::numeric_limits<uint64_t>::max(),
                              &result));
  if (topk.length() != 0) std::memset(out, 0, topk.length() * dtype_size(topk.dtype()));
  if (Status placed = result.scatter_to(out); !placed.ok()) {
    return call.broken_off(std::move(placed));
  }
  topk.commit();
  return {};
}

TopK* topk_of(tutti_topk topk) { return reinterpret_cast<TopK*>(topk); }

}  // namespace

}  // namespace tutti::api

using namespace tutti;

extern "C" {

tutti_status tutti_topk_create(size_t length, size_t k, tutti_dtype dtype, tutti_topk* out) {
  return api::guarded([&]() -> Status {
    if (out == nullptr) return {TUTTI_INVALID, "there is nowhere to put the top-k"};
    *out = nullptr;
    TUTTI_TRY(api::check_length(length, dtype));
    if (dtype != TUTTI_FLOAT32 && dtype != TUTTI_FLOAT64) {
      return {TUTTI_INVALID,
              std::string("a top-k is of float32 or float64, not of ") + dtype_name(dtype)};
    }
    if (k > length) {
      return {TUTTI_INVALID,
              "k is " + std::to_string(k) + ", more than the length, " + std::to_string(length)};
    }
    *out = reinterpret_cast<tutti_topk>(new sparse::TopK(length, k, dtype));
    return {};
  });
}

tutti_status tutti_topk_free(tutti_topk topk) {
  return api::guarded([&]() -> Status {
    delete api::topk_of(topk);
    return {};
  });
}

tutti_status tutti_topk_allreduce(const void* send, void* recv, tutti_op op, tutti_topk topk,
                                  tutti_comm comm) {
  return tutti_topk_allreduce_with(send, recv, op, topk, comm, nullptr);
}
tutti_status tutti_topk_allreduce_with(const void* send, void* recv, tutti_op op, tutti_topk topk,
                                       tutti_comm comm, const tutti_call_config* config) {
  return api::compound(
      comm, Compound::topk_allreduce, config, {send, recv},
      [&](tutti_level level) -> Status {
        TUTTI_TRY(api::check_topk(send, recv, op, api::topk_of(topk)));
        return api::check_held(level, TUTTI_LEVEL_LAYOUT, api::topk_of(topk)->dtype(), op);
      },
      [&](sparse::CompoundCall& call) {
        return api::run_topk(call, send, recv, op, *api::topk_of(topk));
      });
}

tutti_status tutti_topk_residual(tutti_topk topk, void** out) {
  return api::guarded([&]() -> Status {
    if (topk == nullptr || out == nullptr) return {TUTTI_INVALID, "an argument is NULL"};
    *out = api::topk_of(topk)->residual();
    return {};
  });
}

}  // extern "C"
