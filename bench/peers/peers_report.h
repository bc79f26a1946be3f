// The comparison as a table and as JSON.
#pragma once

#include <string>
#include <vector>

#include "bench/collectives.h"
#include "bench/live.h"
#include "bench/peers/compare.h"
#include "bench/peers/contenders.h"

namespace tutti::bench {

struct PeerInfo {
  std::string name;
  std::string version;
  std::string settings;
  std::string binding;  // CPUs of each rank
  Role role = Role::peer;
  std::string failure;  // "": none
};

// Median of the best contender of that role divided by the median of contender `own`. 0 where there
// is none.
double ratio_to_best(const std::vector<PeerInfo>& peers, const PeerRow& row, Role role, size_t own);

std::string render_peers(const Collective& collective, const std::vector<PeerInfo>& peers,
                         const std::vector<PeerRow>& rows, int nranks, Data data,
                         const std::vector<std::string>& notes, size_t width);

// One object, on a line of its own, for each contender at this size.
std::string peers_json(const Collective& collective, const std::vector<PeerInfo>& peers,
                       const PeerRow& row, int nranks, Data data);

}  // namespace tutti::bench
