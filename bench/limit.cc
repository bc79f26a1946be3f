#include "bench/limit.h"

#include <fmt/format.h>

#include "bench/collectives.h"
#include "bench/sizes.h"
#include "bench/transports.h"

namespace tutti::bench {
namespace {

constexpr size_t flags_hardly_matter_from = size_t(64) << 10;

bool is_scan(const std::string& collective) {
  return collective == "scan" || collective == "exscan";
}

}  // namespace

size_t least_mapped_bytes(const std::string& collective) {
  const bool runs_ahead =
      find_collective(collective).rooted || is_scan(collective) || collective == "sendrecv";
  return runs_ahead ? flags_hardly_matter_from : 0;
}

bool has_socket_limit(const std::string& collective, int nranks) {
  return nranks == 2 || (collective != "gather" && collective != "scatter");
}

std::string undefined_limit(const std::string& collective, const std::string& transport,
                            int nranks) {
  if (over_raw_sockets(transport)) {
    if (has_socket_limit(collective, nranks)) return "";
    return fmt::format("It is not measured for {} over {} among more than two ranks.", collective,
                       transport);
  }
  const size_t least = least_mapped_bytes(collective);
  if (least == 0) return "";
  return fmt::format("Below {} there is none: ranks need not wait for each other there.",
                     format_bytes(least));
}

std::vector<LimitWay> mapped_limits(const Rank& me, SharedMap& map, const LimitOf& what) {
  return what.collective == "allreduce" ? allreduce_limits(me, map, what.in_place)
                                        : copy_limits(me, map, what);
}

}  // namespace tutti::bench
