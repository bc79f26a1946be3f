// Which parameter lies where in a rank's flat vector, and pieces of the vector and of the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/parallel/split.h"

namespace tutti::train {

// A part of the flat vector.
struct Range {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
};
template <class Real>
std::span<Real> slice(std::span<Real> vector, const Range& range) {
  return vector.subspan(range.begin, range.size());
}

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  size_t offset = 0;  // in the flat vector
  size_t count = 0;
  Division division;    // the part held here of a parameter that ranks divide
  bool counted = true;  // in sums over the model: true on one of the ranks that hold it
};

// The elements of a layout whose parameters lie one after the other.
inline size_t elements_of(const std::vector<Parameter>& layout) {
  return layout.empty() ? 0 : layout.back().offset + layout.back().count;
}

// Layers [begin, end) of a model.
struct LayerRange {
  size_t begin = 0, end = 0;
  bool operator==(const LayerRange&) const = default;
};

}  // namespace tutti::train
