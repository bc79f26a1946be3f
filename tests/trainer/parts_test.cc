// Parts of tensors: as boxes, in checkpoints that another division reads, and in sums over a model.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <limits>

#include "ranks.h"
#include "trainer/checkpoint/boxes.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/common/random.h"
#include "trainer/parallel/mesh.h"
#include "trainer/parallel/norms.h"
#include "trainer/sync/shard_pass.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {
namespace {

namespace fs = std::filesystem;

// ---------------------------------------------------------------- boxes

std::vector<int64_t> shape_for(uint64_t key) {
  std::vector<int64_t> shape;
  for (uint64_t d = 0; d < mixed(key) % 4; ++d) shape.push_back(1 + int64_t(mixed(key, d) % 5));
  return shape;
}
int64_t product(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t size : shape) n *= size;
  return n;
}
Box box_of_shape(const std::vector<int64_t>& shape) {
  Box box;
  for (const int64_t size : shape) box.push_back({0, size});
  return box;
}

TEST(Boxes, OfARangeAreItsElementsInOrder) {
  for (uint64_t key = 0; key < 300; ++key) {
    const std::vector<int64_t> shape = shape_for(key);
    const int64_t n = product(shape);
    std::vector<int> numbers(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) numbers[size_t(i)] = int(i);
    const auto begin = int64_t(mixed(key, 50) % uint64_t(n + 1));
    const int64_t end = begin + int64_t(mixed(key, 51) % uint64_t(n - begin + 1));
    int64_t next = begin;
    for (const Box& box : boxes_of(shape, begin, end)) {
      ASSERT_EQ(common(box, box_of_shape(shape)), box);
      std::vector<int> inside(static_cast<size_t>(elements(box)));
      copy_box(box, box_of_shape(shape), numbers.data(), box, inside.data(), sizeof(int));
      for (const int number : inside) ASSERT_EQ(number, next++);
    }
    ASSERT_EQ(next, end) << key;
  }
}

TEST(Boxes, TextIsReadBackAndOnlyThatIsABox) {
  for (const Box& box : {Box{}, Box{{0, 4}}, Box{{2, 3}, {0, 123456789012}, {5, 5}}}) {
    Box back;
    EXPECT_TRUE(box_of(text_of(box), back));
    EXPECT_EQ(back, box);
  }
  Box out;
  for (const char* text : {"", "[", "[0:4", "[0:4]]", "[4:0]", "[0:4,]", "[-1:4]", "[0-4]",
                           "[0:99999999999999999999]", "x[0:4]", "[0:4] "})
    EXPECT_FALSE(box_of(text, out)) << text;
}

// ---------------------------------------------------------------- checkpoints

// One number for each element of a tensor, whoever has it.
double value_at(const std::string& name, int64_t element) {
  uint64_t key = 1;
  for (const char c : name) key = mixed(key, uint64_t(c));
  return double(float(fraction(mixed(key, uint64_t(element))) - 0.5));
}

// This rank's part of a tensor filled with its values, and compared with them.
template <class Real, class Body>
void for_elements(const std::string& vector, const Parameter& p, Body&& body) {
  std::vector<int64_t> whole = p.shape;
  if (!p.division.spans.empty()) whole[size_t(p.division.dimension)] = p.division.whole;
  const int64_t n = product(whole);
  std::vector<double> all(static_cast<size_t>(n)), own(p.count);
  for (int64_t i = 0; i < n; ++i) all[size_t(i)] = value_at(vector + p.name, i);
  for (const Placed& box : placed(box_of_shape(p.shape), p.division)) {
    std::vector<double> inside(static_cast<size_t>(elements(box.whole)));
    copy_box(box.whole, box_of_shape(whole), all.data(), box.whole, inside.data(), sizeof(double));
    copy_box(box.whole, box.whole, inside.data(), box.frame, own.data(), sizeof(double));
  }
  for (size_t i = 0; i < p.count; ++i) body(p.offset + i, Real(own[i]));
}

struct Divisions {
  int dp = 1, tp = 1;
  bool sharded = false;  // the state, as with ZeRO-1
};

template <class Real>
class Run {
 public:
  Run(const Divisions& layout, const fs::path& folder)
      : layout_(layout), ranks_(layout.dp * layout.tp) {
    options_.checkpoint = folder;
    options_.steps = 100;
    options_.dp = layout.dp;
    options_.tp = layout.tp;
    options_.dtype = sizeof(Real) == 8 ? "float64" : "float32";
    const Mesh mesh(layout.dp, 1, layout.tp, "dp,pp,tp");
    Shape shape{"gpt", "tiny", 2, 16, 4, 8, 30};
    shape.dtype = options_.dtype;
    for (int r = 0; r < ranks_.size(); ++r) {
      Split split;
      split.group.rank = mesh.at(r, Axis::tensor);
      split.group.size = layout.tp;
      replicas_.push_back(std::make_unique<Replica>(shape, *data_, 3, split));
    }
    grids_.resize(size_t(ranks_.size()));
    state_.resize(size_t(ranks_.size()));
    ranks_.each([&](int r) {
      grids_[size_t(r)] = std::make_unique<Grid>(mesh, ranks_.comm(r).split(0, r));
    });
  }
  void save() {
    each([&](const Worker& worker, std::vector<Real>& values, const StateVector& state) {
      for (const Parameter& p : worker.replica.layout()) {
        for_elements<Real>("parameters", p,
                           [&](size_t i, Real x) { worker.replica.parameters<Real>()[i] = x; });
        for_elements<Real>("mean", p, [&](size_t i, Real x) {
          const Range range = state.ranges[0];
          if (i >= range.begin && i < range.end) values[i - range.begin] = x;
        });
      }
      const LossScale scale{.skipped = worker.grid.all.rank()};
      save_checkpoint(group(worker), {parameters(worker), state}, 7, &scale);
    });
  }
  void load_and_compare() {
    std::vector<std::string> warnings;
    const Checkpoint found = newest_checkpoint(options_.checkpoint, warnings);
    ASSERT_TRUE(warnings.empty());
    EXPECT_EQ(found.step, 7);
    each([&](const Worker& worker, std::vector<Real>& values, const StateVector& state) {
      // Each rank has the scale that it kept; there may have been fewer.
      const int rank = worker.grid.all.rank(), last = int(found.files.size()) - 1;
      EXPECT_EQ(found.scale_of(rank).value_or(LossScale{}).skipped, std::min(rank, last));
      for (Real& x : worker.replica.parameters<Real>()) x = 99;
      load_checkpoint(found, group(worker), {parameters(worker), state});
      size_t wrong = 0;
      for (const Parameter& p : worker.replica.layout()) {
        for_elements<Real>("parameters", p, [&](size_t i, Real x) {
          wrong += worker.replica.parameters<Real>()[i] != x;
        });
        for_elements<Real>("mean", p, [&](size_t i, Real x) {
          const Range range = state.ranges[0];
          if (i >= range.begin && i < range.end) wrong += values[i - range.begin] != x;
        });
      }
      EXPECT_EQ(wrong, 0u);
    });
  }

 private:
  static CheckpointGroup group(const Worker& worker) {
    return {worker.options,  worker.data,        worker.replica.layout(),
            worker.grid.all, worker.comm.rank(), worker.comm.size()};
  }
  static StateVector parameters(const Worker& worker) {
    return parameter_state(worker.replica.bytes(), worker.replica.size(),
                           StateVector::Placement::replicated);
  }
  template <class Body>
  void each(Body&& body) {
    ranks_.each([&](int r) {
      Grid& grid = *grids_[size_t(r)];
      Timeline timeline(false);
      const Worker worker{options_, *data_, *replicas_[size_t(r)], grid, grid.data, timeline};
      const auto size = int64_t(worker.replica.size());
      const Range range = layout_.sharded
                              ? Range{size_t(cut(size, layout_.dp, grid.data.rank())),
                                      size_t(cut(size, layout_.dp, grid.data.rank() + 1))}
                              : Range{0, size_t(size)};
      std::vector<Real> values(range.size());
      StateVector state{
          "mean",
          layout_.sharded ? StateVector::Placement::sharded : StateVector::Placement::replicated,
          {range},
          {std::as_writable_bytes(std::span(values))}};
      body(worker, values, state);
    });
  }
  Divisions layout_;
  Ranks ranks_;
  Options options_;
  std::unique_ptr<Data> data_ = open_data("noise", 0, 1);
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::unique_ptr<Grid>> grids_;
  std::vector<std::vector<Real>> state_;
};

template <class Real>
void reshard(const std::vector<Divisions>& layouts) {
  const fs::path top = fs::path(testing::TempDir()) / ("reshard" + std::to_string(getpid()));
  for (const Divisions& from : layouts) {
    fs::remove_all(top);
    Run<Real>(from, top).save();
    uint64_t bytes = 0;  // what several ranks have is saved once
    for (const auto& file : fs::recursive_directory_iterator(top))
      if (file.path().extension() == ".safetensors") bytes += file.file_size();
    size_t elements = 0;
    const auto data = open_data("noise", 0, 1);
    const Replica one({"gpt", "tiny", 2, 16, 4, 8, 30}, *data, 3);
    for (const Parameter& p : one.layout()) elements += p.count;
    EXPECT_GE(bytes, 2 * sizeof(Real) * elements);
    EXPECT_LT(bytes, 2 * sizeof(Real) * elements + 60000);  // headers
    for (const Divisions& to : layouts) Run<Real>(to, top).load_and_compare();
  }
  fs::remove_all(top);
}

TEST(Checkpoint, IsReadByAnyOtherDivisionBitForBit) {
  reshard<float>({{1, 1, false}, {2, 2, true}, {1, 4, false}, {3, 1, true}});
  reshard<double>({{2, 1, true}, {1, 2, false}});
}

// ---------------------------------------------------------------- sums

// Two ranks: one parameter of length 3 that both have, two of length 4 and 12, of which each has
// one: 3-4-12-13.
TEST(GradientNorm, CountsWhatSeveralRanksHaveOnceAndKnowsOfAnOverflowAnywhere) {
  Ranks ranks(2);
  for (const bool overflows : {false, true})
    ranks.each([&](int r) {
      std::vector<Parameter> layout{{"shared", {3}, 0, 3, {}}, {"own", {2}, 3, 2, {}}};
      layout[0].counted = r == 0;
      std::vector<float> gradient = {1, 2, 2, r == 0 ? 4.0F : 0.0F, r == 0 ? 0.0F : 12.0F};
      if (overflows && r == 1) gradient[4] = std::numeric_limits<float>::infinity();
      GradientNorm norm;
      norm.add<float>(layout, {0, 4}, std::span(gradient).first(4));
      norm.add<float>(layout, {4, 5}, std::span(gradient).last(1));
      StepFigures figures;
      clip_gradient<float>({}, gradient, norm.squared(ranks.comm(r)), 6.5, figures);
      EXPECT_EQ(figures.overflow, overflows);
      if (overflows) return;
      EXPECT_EQ(figures.gradient, 13);
      EXPECT_EQ(gradient[0], 0.5F);
    });
}

}  // namespace
}  // namespace tutti::train
