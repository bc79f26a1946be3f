// What a call would run, and why.
#include "lib/api/checks.h"
#include "lib/api/guard.h"
#include "lib/api/sized.h"

namespace tutti::api {

namespace {

void fill(char* to, size_t size, std::string_view text) {
  const size_t length = std::min(size - 1, text.size());
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

void describe(const Explained& explained, const Communicator& c, tutti_explanation* out) {
  const Choice& choice = explained.choice;
  fill(out->algorithm, sizeof(out->algorithm), choice.algorithm->name);
  fill(out->path, sizeof(out->path), choice.fused() ? "fused" : "schedule");
  fill(out->transport, sizeof(out->transport), c.transport());
  fill(out->reason, sizeof(out->reason), choice.reason);
  out->predicted_us = choice.predicted_us;
  fill(out->tuning, sizeof(out->tuning), c.tuning().name());
  fill(out->way, sizeof(out->way), explained.way);
  fill(out->runner_up_way, sizeof(out->runner_up_way), explained.runner_up_way);
  out->measured_us = double(explained.measured_ns) / 1e3;
  out->runner_up_measured_us = double(explained.runner_up_measured_ns) / 1e3;
  if (choice.runner_up == nullptr) return;
  fill(out->runner_up, sizeof(out->runner_up), choice.runner_up->name);
  out->runner_up_us = choice.runner_up_us;
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
    if (checked.ok() && out == nullptr) {
      checked = {TUTTI_INVALID, "there is nowhere to put the explanation"};
    }
    if (checked.ok()) checked = api::check_size(out, "the explanation");
    if (!checked.ok()) return c.fail(std::move(checked));
    tutti_explanation found{};
    Explained explained;
    const tutti_status chosen = c.explain_allreduce(count, dtype, op, settings, &explained);
    if (chosen == TUTTI_OK) {
      api::describe(explained, c, &found);
    } else {
      api::fill(found.reason, sizeof(found.reason), c.last_error().text());
    }
    api::write_sized(found, out);
    return chosen;
  });
}

}  // extern "C"
