// The parts of a rank's link over slots, of ranks that all have one segment mapped in one process.
#pragma once

#include <memory>
#include <numeric>
#include <utility>

#include "lib/base/mapping.h"
#include "lib/slots/slot_link.h"

namespace tutti::testing {

// `watch` null: nobody dies.
inline slots::SlotLinkParts slot_parts(const Mapping& mapping, const slots::Geometry& geometry,
                                       uint32_t nranks, uint32_t rank,
                                       std::unique_ptr<slots::DeathWatch> watch = nullptr) {
  slots::SlotLinkParts parts;
  parts.name = "simulated";
  parts.segment = slots::Segment(mapping.base, geometry);
  parts.mapping = mapping.owner;
  parts.watch = std::move(watch);
  parts.ranks.resize(nranks);
  std::iota(parts.ranks.begin(), parts.ranks.end(), 0);
  parts.self = rank;
  parts.comm_nranks = nranks;
  return parts;
}

}  // namespace tutti::testing
