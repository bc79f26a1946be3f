// The additional columns and sentences of tables for vectors on GPUs.
#include <fmt/format.h>

#include "bench/table_parts.h"

namespace tutti::bench {

std::vector<Column> gpu_columns(const std::vector<const Result*>& best) {
  Column enqueue{"enqueue µs", false, {}}, empty{"empty µs", false, {}},
      times{"times empty", false, {}};
  for (const Result* r : best) {
    const bool known = r && r->gpu.empty_us > 0;
    enqueue.cells.push_back(r ? format_us(r->gpu.enqueue_us) : "-");
    empty.cells.push_back(known ? format_us(r->gpu.empty_us) : "-");
    times.cells.push_back(known ? fmt::format("{:.1f}", r->us.median / r->gpu.empty_us) : "-");
  }
  return {enqueue, empty, times};
}

std::string gpu_heading(const Result& r) {
  const OnGpu& g = r.gpu;
  return fmt::format(", {} on {} GPU{}{}", g.threads ? "threads" : "processes", g.gpus,
                     g.gpus == 1 ? "" : "s", g.graph ? ", graphs replayed" : "");
}

std::string about_gpu_limit(const Result& r) {
  return fmt::format(
      "limit: each input read once and each output written once at {:.0f} GB/s, the rate at which "
      "copies within the GPU's memory read and write; vectors that fit into its cache can be "
      "faster.",
      r.gpu.copy_GBs);
}

std::string about_gpu(const Result& r) {
  const OnGpu& g = r.gpu;
  std::string text =
      "enqueue: the host's time for a call. empty: two kernels and two waits that do nothing, the "
      "fewest that any short call needs.";
  if (g.hand_over_us <= 0) return text;
  text += fmt::format(" A flag of rank 0's lets a kernel of rank 1's begin within {} µs",
                      format_us(g.hand_over_us));
  if (g.threads || g.gpus > 1) return text + ".";
  return text + ", in which the GPU changes from one process to the other.";
}

}  // namespace tutti::bench
