#include <filesystem>
#include <iterator>

#include "tools/launcher/launcher.h"
#include "trainer/common/error.h"
#include "trainer/launch.h"

namespace tutti::train {
bool can_fork_ranks(bool uses_gpu) {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return !uses_gpu && std::distance(begin(threads), end(threads)) == 1;
}

int fork_ranks(int nranks, const std::string& transport, bool keep_going,
               const std::function<int()>& rank) {
  LocalJob job;
  job.nranks = nranks;
  job.transports = transport;
  job.function = rank;
  job.keep_going = keep_going;
  job.stop_ms = 600'000;  // a step, a checkpoint and a report; a second signal ends them at once
  int exit_status = 0;
  const Status status = run_local(job, &exit_status);
  if (status.code() == TUTTI_INVALID) throw BadInput(status.text());
  if (!status.ok()) throw Failure("cannot start ranks: " + status.text());
  return exit_status;
}

}  // namespace tutti::train
