// What a call would run, and why.
#include "lib/api/checks.h"
#include "lib/api/guard.h"

namespace tutti::api {

namespace {

void fill(char* to, size_t size, std::string_view text) {
  const size_t length = std::min(size - 1, text.size());
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

}  // namespace

}  // namespace tutti::api

using namespace tutti;

extern "C" {

tutti_status tutti_allreduce_explain(size_t count, tutti_dtype dtype, tutti_op op, tutti_comm comm,
                                     const tutti_call_config* config, tutti_explanation* out) {
  return api::guarded(comm, [&](Communicator& c) {
    CallSettings settings;
    Status checked = api::read_config(config, &settings);
    if (checked.ok()) checked = api::check_vector(count, dtype);
    if (checked.ok()) checked = api::check_operator(op, dtype);
    if (checked.ok() && (out == nullptr || out->size < sizeof(tutti_explanation))) {
      checked = {TUTTI_INVALID, "the explanation is NULL or its size is not set"};
    }
    if (!checked.ok()) return c.fail(std::move(checked));
    *out = {};
    out->size = sizeof(tutti_explanation);
    Choice choice;
    const tutti_status chosen = c.explain_allreduce(count, dtype, op, settings, &choice);
    if (chosen != TUTTI_OK) {
      api::fill(out->reason, sizeof(out->reason), c.last_error().text());
      return chosen;
    }
    api::fill(out->algorithm, sizeof(out->algorithm), choice.algorithm->name);
    api::fill(out->path, sizeof(out->path), choice.path == Path::schedule ? "schedule" : "fused");
    api::fill(out->transport, sizeof(out->transport), c.transport());
    api::fill(out->reason, sizeof(out->reason), choice.reason);
    out->predicted_us = choice.predicted_us;
    if (choice.runner_up != nullptr) {
      api::fill(out->runner_up, sizeof(out->runner_up), choice.runner_up->name);
      out->runner_up_us = choice.runner_up_us;
    }
    return TUTTI_OK;
  });
}

}  // extern "C"
