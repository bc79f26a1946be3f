// Ranks as a grid of three axes: copies of the model that share the data, stages of its layers, and
// ranks that share the work of every layer. Pure, but for Grid at the end.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "trainer/common/error.h"
#include "trainer/common/stage_widths.h"
#include "tutti/tutti.hpp"

namespace tutti::train {

enum class Axis { data, pipeline, tensor };
inline constexpr std::array<Axis, 3> axes = {Axis::data, Axis::pipeline, Axis::tensor};
// As in --dp, --pp, --tp and in --grid-order.
inline const char* short_name(Axis axis) { return std::array{"dp", "pp", "tp"}[size_t(axis)]; }

class Mesh {
 public:
  // Numbers of ranks along the axes, each at least 1. `order` has the three short names, outermost
  // first: ranks that are neighbours on the last axis have consecutive numbers. Throws BadInput for
  // any other order.
  Mesh(int dp, int pp, int tp, const std::string& order)
      : Mesh(dp, StageWidths(std::vector(size_t(pp), 1)), tp, order) {}
  // The same where several ranks may hold a stage: each has a coordinate of its own on the pipeline
  // axis.
  Mesh(int dp, StageWidths widths, int tp, const std::string& order)
      : widths_(std::move(widths)), sizes_{dp, widths_.ranks(), tp}, strides_{0, 0, 0} {
    std::string rest = order;
    for (int stride = 1; !rest.empty();) {
      const size_t comma = rest.rfind(',');
      const std::string last = rest.substr(comma == std::string::npos ? 0 : comma + 1);
      rest.resize(comma == std::string::npos ? 0 : comma);
      for (const Axis axis : axes)
        if (last == short_name(axis) && strides_[size_t(axis)] == 0) {
          strides_[size_t(axis)] = stride;
          stride *= size(axis);
        }
    }
    if (order.size() != 8 || std::count(strides_.begin(), strides_.end(), 0) > 0)
      throw BadInput(fmt::format(
          "--grid-order {}: must be dp, pp and tp in any order, dp,pp,tp for example", order));
  }

  int ranks() const { return sizes_[0] * sizes_[1] * sizes_[2]; }
  int size(Axis axis) const { return sizes_[size_t(axis)]; }
  // The rank's coordinate on the axis.
  int at(int rank, Axis axis) const { return rank / strides_[size_t(axis)] % sizes_[size_t(axis)]; }
  // The rank at these coordinates.
  int rank(int data, int pipeline, int tensor) const {
    return data * strides_[0] + pipeline * strides_[1] + tensor * strides_[2];
  }
  // The ranks that differ from `rank` on these axes only, `rank` included, ascending. On one axis
  // that is the order of their coordinates.
  std::vector<int> group(int rank, std::initializer_list<Axis> differ) const {
    std::vector<int> members;
    for (int other = 0; other < ranks(); ++other)
      if (std::all_of(axes.begin(), axes.end(), [&](Axis axis) {
            return at(other, axis) == at(rank, axis) ||
                   std::find(differ.begin(), differ.end(), axis) != differ.end();
          }))
        members.push_back(other);
    return members;
  }

  const StageWidths& widths() const { return widths_; }
  int copy(int rank) const { return at(rank, Axis::data); }
  int stage(int rank) const { return widths_.stage(at(rank, Axis::pipeline)); }
  int replica(int rank) const { return widths_.replica(at(rank, Axis::pipeline)); }
  // The ranks that hold the same part of the model, in the order of the shards of a step that they
  // compute.
  std::vector<int> holders(int rank) const {
    const int own = stage(rank), width = widths_.width(own);
    std::vector<int> ranks(size_t(width) * size_t(size(Axis::data)));
    for (int copy = 0; copy < size(Axis::data); ++copy)
      for (int place = widths_.lead(own); place < widths_.lead(own) + width; ++place) {
        const int next = copy * width + widths_.part(place);
        ranks[size_t(next)] = this->rank(copy, place, at(rank, Axis::tensor));
      }
    return ranks;
  }

 private:
  StageWidths widths_;
  std::array<int, 3> sizes_;    // by Axis
  std::array<int, 3> strides_;  // by Axis: the distance of neighbours' ranks
};

// Of these ranks in this order, the caller among them.
inline communicator among(const std::vector<int>& ranks, const communicator& workers) {
  const auto own = std::find(ranks.begin(), ranks.end(), workers.rank());
  return workers.split(ranks.front(), int(own - ranks.begin()));
}

// A rank's own communicators. A rank's number in each is its coordinate on that axis; in `data` its
// place among the holders.
struct Grid {
  // Collective over `workers`, which has a rank for each of the mesh's.
  Grid(const Mesh& whole, communicator workers)
      : mesh(whole),
        all(std::move(workers)),
        data(among(whole.holders(all.rank()), all)),
        pipeline(among(whole.group(all.rank(), {Axis::pipeline}), all)),
        tensor(among(whole.group(all.rank(), {Axis::tensor}), all)),
        model(among(whole.group(all.rank(), {Axis::pipeline, Axis::tensor}), all)),
        copy(whole.copy(all.rank())),
        counts(whole.replica(all.rank()) == 0) {}

  Mesh mesh;
  communicator all;
  communicator data, pipeline, tensor;
  communicator model;  // all that hold a part of this copy of the model: stages and their ranks
  int copy;            // of the model
  // True on one of the ranks that hold the same part of this copy: it counts the part in sums over
  // `model`.
  bool counts;
};

}  // namespace tutti::train
