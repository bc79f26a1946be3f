#include "trainer/report/footprint.h"

#include <algorithm>

#include "trainer/sync/buckets.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {
namespace {

// The part of a layout that belongs to these layers.
std::vector<Parameter> of_layers(const std::vector<Parameter>& layout,
                                 const std::vector<std::string>& layers) {
  std::vector<Parameter> kept;
  size_t offset = 0;
  for (Parameter p : layout) {
    const std::string layer = p.name.substr(0, p.name.find('.'));
    if (std::find(layers.begin(), layers.end(), layer) == layers.end()) continue;
    p.offset = offset;
    offset += p.count;
    kept.push_back(std::move(p));
  }
  return kept;
}

// What rank `copy` of the `copies` ranks with this layout holds.
Footprint footprint_of(const Options& o, const std::vector<Parameter>& layout, int copies,
                       int copy) {
  Footprint footprint;
  size_t optimized = 0;
  for (const Bucket& bucket : buckets_of(layout, o)) {
    footprint.parameters += bucket.count;
    optimized += o.zero ? share_of(bucket, copies, copy).size() : bucket.count;
  }
  if (!o.has_servers()) footprint.state = moments_of(o) * optimized;
  return footprint;
}

}  // namespace

std::vector<std::vector<Parameter>> divided_layouts(const Options& o, const Shape& shape,
                                                    const Data& data) {
  std::vector<std::vector<Parameter>> layouts;
  layouts.reserve(size_t(o.tp));
  for (int part = 0; part < o.tp; ++part) {
    const Split split = split_of(o, {nullptr, part, o.tp, TUTTI_CALL_CONFIG_INIT});
    layouts.push_back(Replica(shape, data, o.seed, split).layout());
  }
  return layouts;
}

std::vector<Footprint> footprints_of(const Options& o, const Mesh& mesh,
                                     const std::vector<std::vector<Parameter>>& layouts,
                                     const std::vector<std::vector<std::string>>& stages) {
  std::vector<Footprint> footprints;
  footprints.reserve(size_t(mesh.ranks()));
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const auto& all = layouts[size_t(mesh.at(rank, Axis::tensor))];
    const auto& own = stages.empty() ? all : of_layers(all, stages[size_t(mesh.stage(rank))]);
    const std::vector<int> holders = mesh.holders(rank);
    const auto place = std::find(holders.begin(), holders.end(), rank) - holders.begin();
    footprints.push_back(footprint_of(o, own, int(holders.size()), int(place)));
  }
  return footprints;
}

}  // namespace tutti::train
