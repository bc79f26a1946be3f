#include "bench/cores.h"

#include <sched.h>

#include <fstream>
#include <string>

namespace tutti::bench {
namespace {

cpu_set_t current_set() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  return set;
}

// Whether the processor is the first of its core's hardware threads.
bool first_of_core(int cpu) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                     "/topology/thread_siblings_list");
  int first = cpu;
  file >> first;
  return first == cpu;
}

std::vector<int> find_cores() {
  const cpu_set_t before = current_set();
  std::vector<int> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (first_of_core(cpu) && bind_to_cpu(cpu)) cores.push_back(cpu);
  sched_setaffinity(0, sizeof before, &before);
  return cores;
}

}  // namespace

const std::vector<int>& usable_cores() {
  static const std::vector<int> cores = find_cores();
  return cores;
}

bool bind_to_cpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

void bind_rank(int rank, int nranks) {
  const auto& cores = usable_cores();
  const size_t shared = size_t(rank) * cores.size() / size_t(nranks);
  bind_to_cpu(cores[size_t(nranks) <= cores.size() ? size_t(rank) : shared]);
}

std::vector<int> bound_cpus() {
  const cpu_set_t set = current_set();
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

}  // namespace tutti::bench
