// The part of a rank's state that a checkpoint holds.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/device/device.h"
#include "trainer/parallel/layout.h"
#include "trainer/parallel/optimizer.h"

namespace tutti::train {

// A vector over these ranges of the flat vector; the parameters are one, too.
struct StateVector {
  enum class Placement {
    replicated,  // all ranks have it
    sharded,     // no other rank has this part
    local        // every rank has its own, of the whole vector
  };
  std::string name;
  Placement placement = Placement::replicated;
  std::vector<Range> ranges;
  std::vector<std::span<std::byte>> values;  // of each range, in the type of the parameters
  Device device = {};                        // where the values are
};
// All `count` parameters.
inline StateVector parameter_state(std::span<std::byte> parameters, size_t count,
                                   StateVector::Placement placement, const Device& device = {}) {
  return {"parameters", placement, {{0, count}}, {parameters}, device};
}
// The optimizer's.
template <class Real>
void add_state(BasicOptimizer<Real>& optimizer, StateVector::Placement placement,
               std::vector<StateVector>& all) {
  for (auto& [name, values] : optimizer.state()) {
    StateVector vector{name, placement, optimizer.owned(), {}, optimizer.device()};
    std::span<Real> rest = values.span();
    for (const Range& range : vector.ranges) {
      vector.values.push_back(std::as_writable_bytes(rest.first(range.size())));
      rest = rest.subspan(range.size());
    }
    all.push_back(std::move(vector));
  }
}

// The parameters of the one range that the optimizer has, and its own state.
template <class Real>
std::vector<StateVector> state_of(std::span<Real> parameters, BasicOptimizer<Real>& optimizer,
                                  StateVector::Placement placement) {
  std::vector<StateVector> all{{"parameters",
                                placement,
                                optimizer.owned(),
                                {std::as_writable_bytes(parameters)},
                                optimizer.device()}};
  add_state(optimizer, placement, all);
  return all;
}

}  // namespace tutti::train
