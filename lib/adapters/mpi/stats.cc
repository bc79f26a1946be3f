#include "lib/adapters/mpi/stats.h"

#include <cinttypes>
#include <cstdio>

namespace tutti::mpi {
namespace {

constexpr const char* names[] = {
#define ROW(id, name) #name,
    TUTTI_MPI_FUNCTIONS(ROW)
#undef ROW
};

constexpr const char* reasons[] = {
    "tutti takes no part",
    "freed communicator",
    "intercommunicator",
    "ranks of another job",
    "no communicator of tutti",
    "too few calls",
    "wrong arguments",
    "nothing to move",
    "operator or type with gaps",
    "nonblocking",
    "persistent",
    "nonblocking, own operator",
};
static_assert(std::size(reasons) == size_t(Why::count));

std::string line(const char* name, const Counters::OfFunction& f) {
  char text[128];
  std::snprintf(text, sizeof text, "tutti mpi: %-20s %12" PRIu64 " %16" PRIu64 "  ", name, f.calls,
                f.bytes);
  std::string out = text;
  bool first = true;
  for (size_t i = 0; i < f.by_host.size(); ++i) {
    if (f.by_host[i] == 0) continue;
    out += (first ? "" : ", ") + std::to_string(f.by_host[i]) + " " + reasons[i];
    first = false;
  }
  return out + (first ? "-\n" : "\n");
}

}  // namespace

void Counters::add(const Counters& other) {
  for (size_t i = 0; i < functions.size(); ++i) {
    functions[i].calls += other.functions[i].calls;
    functions[i].bytes += other.functions[i].bytes;
    for (size_t k = 0; k < functions[i].by_host.size(); ++k)
      functions[i].by_host[k] += other.functions[i].by_host[k];
  }
}

std::string describe(const Counters& counters, const std::string& off) {
  std::string out = "tutti mpi: calls of rank 0";
  out += off.empty() ? "\n" : "; tutti takes no part: " + off + "\n";
  char head[128];
  std::snprintf(head, sizeof head, "tutti mpi: %-20s %12s %16s  %s\n", "function", "carried",
                "bytes", "by the host MPI");
  out += head;
  Counters::OfFunction all;
  for (size_t i = 0; i < counters.functions.size(); ++i) {
    const Counters::OfFunction& f = counters.functions[i];
    uint64_t by_host = 0;
    for (size_t k = 0; k < f.by_host.size(); ++k) {
      by_host += f.by_host[k];
      all.by_host[k] += f.by_host[k];
    }
    all.calls += f.calls;
    all.bytes += f.bytes;
    if (f.calls + by_host > 0) out += line(names[i], f);
  }
  return out + line("all", all);
}

}  // namespace tutti::mpi
