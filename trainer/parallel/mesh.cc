#include "trainer/parallel/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/common/error.h"

namespace tutti::train {
namespace {

communicator among(const Mesh& mesh, const communicator& workers,
                   std::initializer_list<Axis> differ) {
  const int rank = workers.rank();
  return workers.split(mesh.group(rank, differ).front(), rank);
}

communicator among_holders(const Mesh& mesh, const communicator& workers) {
  const std::vector<int> holders = mesh.holders(workers.rank());
  const auto own = std::find(holders.begin(), holders.end(), workers.rank());
  return workers.split(holders.front(), int(own - holders.begin()));
}

}  // namespace

Mesh::Mesh(int dp, StageWidths widths, int tp, const std::string& order)
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

std::vector<int> Mesh::group(int rank, std::initializer_list<Axis> differ) const {
  std::vector<int> members;
  for (int other = 0; other < ranks(); ++other)
    if (std::all_of(axes.begin(), axes.end(), [&](Axis axis) {
          return at(other, axis) == at(rank, axis) ||
                 std::find(differ.begin(), differ.end(), axis) != differ.end();
        }))
      members.push_back(other);
  return members;
}

std::vector<int> Mesh::holders(int rank) const {
  const int own = stage(rank), width = widths_.width(own);
  std::vector<int> ranks(size_t(width) * size_t(size(Axis::data)));
  for (int copy = 0; copy < size(Axis::data); ++copy)
    for (int place = widths_.lead(own); place < widths_.lead(own) + width; ++place) {
      const int next = copy * width + widths_.part(place);
      ranks[size_t(next)] = this->rank(copy, place, at(rank, Axis::tensor));
    }
  return ranks;
}

Grid::Grid(const Mesh& whole, communicator workers)
    : mesh(whole),
      all(std::move(workers)),
      data(among_holders(whole, all)),
      pipeline(among(whole, all, {Axis::pipeline})),
      tensor(among(whole, all, {Axis::tensor})),
      model(among(whole, all, {Axis::pipeline, Axis::tensor})),
      copy(whole.copy(all.rank())),
      counts(whole.replica(all.rank()) == 0) {}

}  // namespace tutti::train
