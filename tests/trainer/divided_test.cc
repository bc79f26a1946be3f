// Divided layers against whole ones: bits where nothing is summed over ranks, bounds where
// something is, and bits there too with integers, whose sums are exact.
#include "trainer/models/divided.h"

#include <gtest/gtest.h>

#include "ranks.h"
#include "trainer/common/error.h"
#include "trainer/models/models.h"

namespace tutti::train {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

// Values of very different sizes, so that the order of a sum shows.
Tensor uneven(std::vector<int64_t> shape) {
  return torch::randn(shape) * torch::exp2(torch::randint(-10, 10, shape).to(torch::kFloat32));
}
Tensor integers(std::vector<int64_t> shape) {
  return torch::randint(-4, 5, shape).to(torch::kFloat32);
}
Tensor fresh(const Tensor& x) { return x.detach().clone().requires_grad_(); }

Tensor part(const Tensor& whole, const Division& division) {
  std::vector<Tensor> pieces;
  for (const Span& span : division.spans)
    pieces.push_back(whole.narrow(division.dimension, span.begin, span.size()));
  return pieces.empty() ? whole : torch::cat(pieces, division.dimension);
}

// |a - b| <= terms * u * sum of |terms|, elementwise.
testing::AssertionResult near(const Tensor& a, const Tensor& b, int64_t terms,
                              const Tensor& magnitudes) {
  const Tensor allowed = magnitudes.abs().to(torch::kFloat64) * (double(terms) * 0x1p-24);
  const Tensor excess = (a.to(torch::kFloat64) - b.to(torch::kFloat64)).abs() - allowed;
  if (excess.max().item<double>() <= 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "beyond the bound by " << excess.max().item<double>();
}

// ---------------------------------------------------------------- matrices

struct Whole {
  Tensor x, out, weights;  // weights: of the loss, by which outputs are multiplied
  Tensor y, of_x, of_weight;
  explicit Whole(bool exact, int64_t rows, int64_t in, int64_t outs) {
    const auto draw = [&](std::vector<int64_t> shape) {
      return exact ? integers(shape) : uneven(shape);
    };
    x = draw({rows, in});
    weights = draw({outs, in});
    out = draw({rows, outs});
    const Tensor a = fresh(x), w = fresh(weights);
    y = torch::linear(a, w);
    (y * out).sum().backward();
    y = y.detach();
    of_x = a.grad();
    of_weight = w.grad();
  }
};

TEST(ColumnLinear, HasTheWholeLayersBitsAndSumsTheInputsGradient) {
  torch::manual_seed(1);
  for (const int n : {1, 2, 3, 4}) {
    Ranks ranks(n);
    for (const bool exact : {false, true}) {
      const int64_t rows = 6, in = 40, outs = 192;  // each part whole tiles of the BLAS
      const Whole whole(exact, rows, in, outs);
      ranks.each([&](int r) {
        const Group group = ranks.group(r);
        const Tensor x = fresh(whole.x), w = fresh(own_part(whole.weights, 0, group));
        const Tensor y = torch::linear(copy_to(x, group), w);
        (y * own_part(whole.out, 1, group)).sum().backward();
        EXPECT_TRUE(torch::equal(y, own_part(whole.y, 1, group))) << n;
        EXPECT_TRUE(torch::equal(w.grad(), own_part(whole.of_weight, 0, group))) << n;
        if (exact)
          EXPECT_TRUE(torch::equal(x.grad(), whole.of_x)) << n;
        else
          EXPECT_TRUE(near(x.grad(), whole.of_x, n - 1 + outs,
                           torch::mm(whole.out.abs(), whole.weights.abs())));
      });
    }
  }
}

TEST(RowLinear, HasTheWholeLayersBitsInTheInputsGradientAndSumsTheOutput) {
  torch::manual_seed(2);
  for (const int n : {1, 2, 3, 4}) {
    Ranks ranks(n);
    for (const bool exact : {false, true}) {
      const int64_t rows = 6, in = 192, outs = 40;
      const Whole whole(exact, rows, in, outs);
      ranks.each([&](int r) {
        const Group group = ranks.group(r);
        const Tensor x = fresh(own_part(whole.x, 1, group)),
                     w = fresh(own_part(whole.weights, 1, group));
        const Tensor y = reduce_from(torch::linear(x, w), group);
        (y * whole.out).sum().backward();
        EXPECT_TRUE(torch::equal(x.grad(), own_part(whole.of_x, 1, group))) << n;
        EXPECT_TRUE(torch::equal(w.grad(), own_part(whole.of_weight, 1, group))) << n;
        if (exact)
          EXPECT_TRUE(torch::equal(y, whole.y)) << n;
        else
          EXPECT_TRUE(
              near(y, whole.y, n - 1 + in, torch::mm(whole.x.abs(), whole.weights.abs().t())));
      });
    }
  }
}

// What enters and leaves: each function's gradient is that of what it computes, for parts of
// different lengths too.
TEST(Group, GatherAndScatterAreEachOthersGradients) {
  torch::manual_seed(3);
  for (const int n : {2, 3}) {
    Ranks ranks(n);
    const Tensor whole = integers({3, 7, 2}), out = integers({3, 7, 2});
    std::vector<Tensor> terms;
    Tensor sum = torch::zeros({3, 7, 2});
    for (int r = 0; r < n; ++r) {
      terms.push_back(integers({3, 7, 2}));
      sum += terms.back();
    }
    ranks.each([&](int r) {
      const Group group = ranks.group(r);
      const auto mine = [&](const Tensor& x) { return own_part(x, 1, group); };
      const Tensor a = fresh(whole), b = fresh(mine(whole)), c = fresh(mine(whole)),
                   d = fresh(terms[size_t(r)]);
      const Tensor scattered = scatter_to(a, 1, group);
      EXPECT_TRUE(torch::equal(scattered, mine(whole)));
      (scattered * mine(out)).sum().backward();
      EXPECT_TRUE(torch::equal(a.grad(), out));
      const Tensor gathered = gather_from(b, 1, parts(7, group), group);
      EXPECT_TRUE(torch::equal(gathered, whole));
      (gathered * out).sum().backward();
      EXPECT_TRUE(torch::equal(b.grad(), mine(out)));
      const Tensor entered = gather_to(c, 1, 7, group);
      EXPECT_TRUE(torch::equal(entered, whole));
      (entered * terms[size_t(r)]).sum().backward();
      EXPECT_TRUE(torch::equal(c.grad(), mine(sum)));
      const Tensor left = reduce_scatter_from(d, 1, group);
      EXPECT_TRUE(torch::equal(left, mine(sum)));
      (left * mine(out)).sum().backward();
      EXPECT_TRUE(torch::equal(d.grad(), out));
    });
  }
}

TEST(DividedCrossEntropy, IsThatOfTheWholeLogitsAlsoOfLargeOnes) {
  torch::manual_seed(4);
  for (const int n : {1, 2, 3})
    for (const double scale : {1.0, 1e4}) {
      Ranks ranks(n);
      const Tensor logits = torch::randn({11, 50}) * scale, targets = torch::randint(50, {11});
      const Tensor a = fresh(logits);
      const Tensor expected = divided_cross_entropy(a, targets, 50, {});
      expected.backward();
      ranks.each([&](int r) {
        const Group group = ranks.group(r);
        const Tensor mine = fresh(own_part(logits, 1, group));
        const Tensor loss = divided_cross_entropy(mine, targets, 50, group);
        loss.backward();
        EXPECT_NEAR(loss.item<double>(), expected.item<double>(),
                    1e-6 * std::abs(expected.item<double>()));
        EXPECT_TRUE(torch::allclose(mine.grad(), own_part(a.grad(), 1, group), 1e-5, 1e-6));
      });
    }
}

// ---------------------------------------------------------------- whole models

Shape small_gpt(double dropout = 0) { return {"gpt", "tiny", 2, 16, 4, 8, 30, dropout}; }

// The model of each rank, all from the same seed, and one process's.
struct Models {
  std::vector<Split> splits;
  std::vector<std::shared_ptr<Model>> parts;
  Split alone;
  std::shared_ptr<Model> whole;
  Models(const Shape& shape, const Data& data, const Ranks& ranks, const Split& way,
         torch::Dtype type) {
    for (int r = 0; r < ranks.size(); ++r) {
      splits.push_back(way);
      splits.back().group = ranks.group(r);
    }
    const auto make = [&](const Split& split) {
      torch::manual_seed(7);
      auto model = make_model(shape, data, split);
      model->to(type);
      return model;
    };
    for (const Split& split : splits) parts.push_back(make(split));
    alone.chunk = way.chunk;
    whole = make(alone);
  }
};

Batch text(int64_t samples, int64_t length) {
  Batch batch;
  batch.samples = samples;
  for (int64_t i = 0; i < samples * (length + 1); ++i) batch.tokens.push_back((i * i + 3 * i) % 29);
  return batch;
}
Batch pictures(int64_t samples, int64_t rows, int64_t columns) {
  Batch batch;
  batch.samples = samples;
  for (int64_t i = 0; i < samples * rows * columns; ++i)
    batch.pixels.push_back(float((i * 37 + i * i % 11) % 64) / 64);
  for (int64_t i = 0; i < samples; ++i) batch.labels.push_back(i % 10);
  return batch;
}

double loss_of(Model& model, const Batch& batch) {
  Tensor loss = model.loss(model.run(model.input(batch)), batch);
  return loss.item<double>();
}

// Losses and all gradients of the ranks' models against one process's; those of parameters that all
// ranks hold are equal on all, bit for bit.
constexpr double same_loss = 0;
void compare(Models& models, Ranks& ranks, const Batch& batch, double tolerance,
             double loss_tolerance = -1) {
  const auto gradients = [&](Model& model) {
    for (auto& p : model.parameters()) p.mutable_grad() = torch::zeros_like(p);
    const Tensor loss = model.loss(model.run(model.input(batch)), batch);
    loss.backward();
    return loss.item<double>();
  };
  const double expected = gradients(*models.whole);
  const auto whole = models.whole->named_parameters();
  ranks.each([&](int r) {
    Model& model = *models.parts[size_t(r)];
    EXPECT_NEAR(gradients(model), expected,
                (loss_tolerance >= 0 ? loss_tolerance : tolerance) * expected);
  });
  for (int r = 0; r < ranks.size(); ++r) {
    const auto divisions = divisions_of(*models.parts[size_t(r)]);
    for (const auto& [name, p] : models.parts[size_t(r)]->named_parameters().pairs()) {
      const auto found = divisions.find(name);
      const Tensor& all = whole[name];
      const Division division = found == divisions.end() ? Division{} : found->second;
      EXPECT_TRUE(torch::equal(p, part(all, division))) << name;  // the same initial weights
      const Tensor of_all = part(all.grad(), division);
      const double scale = of_all.abs().max().item<double>() + 1e-30;
      EXPECT_LE((p.grad() - of_all).abs().max().item<double>(), tolerance * scale) << name;
      if (division.spans.empty() && r > 0) {
        EXPECT_TRUE(torch::equal(p.grad(), models.parts[0]->named_parameters()[name].grad()))
            << name;
      }
    }
  }
}

TEST(DividedGpt, HasTheLossAndGradientsOfOneProcess) {
  const auto data = open_data("noise", 0, 1);
  for (const int n : {2, 4})
    for (const bool sequence : {false, true}) {
      Ranks ranks(n);
      Split way;
      way.sequence = sequence;
      Models models(small_gpt(), *data, ranks, way, torch::kFloat64);
      compare(models, ranks, text(3, 8), 1e-11);
    }
}

TEST(DividedGpt, GradientsAreFiniteDifferences) {
  const auto data = open_data("noise", 0, 1);
  const Batch batch = text(2, 8);
  for (const bool sequence : {false, true}) {
    Ranks ranks(2);
    Split way;
    way.sequence = sequence;
    Models models(small_gpt(), *data, ranks, way, torch::kFloat64);
    compare(models, ranks, batch, 1e-11);
    // Every parameter, at a few places of the whole; ranks that hold the place move it.
    const torch::NoGradGuard fixed;
    for (const auto& [name, whole] : models.whole->named_parameters().pairs())
      for (const int64_t place : {int64_t(0), whole.numel() / 2, whole.numel() - 1}) {
        const double step = 1e-5;
        double at[2] = {};
        for (const int side : {0, 1}) {
          Tensor move = torch::zeros_like(whole);
          move.view(-1)[place] = side == 0 ? -step : step;
          ranks.each([&, name = name](int r) {
            const torch::NoGradGuard also_here;
            Model& model = *models.parts[size_t(r)];
            const auto divisions = divisions_of(model);
            const auto found = divisions.find(name);
            const Tensor own = part(move, found == divisions.end() ? Division{} : found->second);
            Tensor p = model.named_parameters()[name];
            p.add_(own);
            const double loss = loss_of(model, batch);
            p.sub_(own);
            if (r == 0) at[side] = loss;
          });
        }
        const double slope = (at[1] - at[0]) / (2 * step);
        EXPECT_NEAR(slope, whole.grad().view(-1)[place].item<double>(),
                    2e-6 * (1 + std::abs(slope)))
            << name << " " << place;
      }
  }
}

TEST(DividedMlp, HasTheLossAndGradientsOfOneProcess) {
  const auto data = open_data("digits", 0, 1);
  for (const int64_t layers : {1, 2, 3}) {
    Ranks ranks(3);
    Models models({"mlp", "tiny", layers, 16}, *data, ranks, {}, torch::kFloat32);
    compare(models, ranks, pictures(4, data->height, data->width), 2e-5);
  }
}

TEST(DividedCnn, HasTheLossAndGradientsOfOneProcess) {
  const auto data = open_data("digits", 0, 1);
  for (const char* conv : {"output", "input", "strips"})
    for (const int n : {2, 3}) {
      Ranks ranks(n);
      Split way;
      way.conv = conv;
      Models models({"cnn", "tiny", 3, 8}, *data, ranks, way, torch::kFloat32);
      compare(models, ranks, pictures(3, data->height, data->width), 1e-3);
    }
}

TEST(Inception, HasTheLossAndGradientsOfOneProcessWithBranchesOnDifferentRanks) {
  const auto data = open_data("digits", 0, 1);
  for (const int n : {2, 3, 4}) {
    Ranks ranks(n);
    Models models({"cnn", "inception", 2, 8}, *data, ranks, {}, torch::kFloat32);
    compare(models, ranks, pictures(3, data->height, data->width), 1e-4, same_loss);
  }
}

// A rank works on a piece of time as soon as it has it; sums have the order of the double loop over
// layers and pieces.
TEST(Wavefront, HasTheBitsOfTheSequentialDoubleLoop) {
  const auto data = open_data("noise", 0, 1);
  for (const int n : {2, 3})
    for (const int64_t chunk : {1, 3, 8}) {
      Ranks ranks(n);
      Split way;
      way.chunk = chunk;
      Models models({"rnn", "tiny", 3, 12, 0, 8, 30}, *data, ranks, way, torch::kFloat32);
      compare(models, ranks, text(3, 8), 0, same_loss);
      Models dropping({"rnn", "tiny", 3, 12, 0, 8, 30, 0.3}, *data, ranks, way, torch::kFloat32);
      compare(dropping, ranks, text(3, 8), 0, same_loss);
      EXPECT_NE(loss_of(*dropping.whole, text(3, 8)), loss_of(*models.whole, text(3, 8)));
    }
}

TEST(Seq2Seq, HasTheBitsOfOneProcessWithEncoderAndDecoderOnTwoRanks) {
  const auto data = open_data("noise", 0, 1);
  Ranks ranks(2);
  Models models({"seq2seq", "tiny", 2, 12, 0, 9, 30}, *data, ranks, {}, torch::kFloat32);
  compare(models, ranks, text(6, 9), 0, same_loss);
}

// The masks of one process, of which ranks take their parts: the same where all compute the same,
// different where each has a part of the sequence.
TEST(Region, DropsWhatOneProcessWouldDrop) {
  const Tensor x = torch::ones({2, 6, 5});
  torch::manual_seed(5);
  const Tensor whole = torch::dropout(x, 0.5, true);
  for (int r = 0; r < 3; ++r) {
    Split split;
    split.group.size = 3;
    split.group.rank = r;
    torch::manual_seed(5);
    EXPECT_TRUE(torch::equal(Region(split).dropout(x, 0.5, true), whole));
    split.sequence = true;
    torch::manual_seed(5);
    EXPECT_TRUE(torch::equal(Region(split).dropout(own_part(x, 1, split.group), 0.5, true),
                             own_part(whole, 1, split.group)));
  }
}

// ---------------------------------------------------------------- pictures

TEST(DividedConv2d, HasTheWholeOnesBits) {
  torch::manual_seed(6);
  for (const int n : {1, 2, 3, 4}) {
    Ranks ranks(n);
    for (const char* way : {"output", "input", "strips"})
      for (const bool exact : {true, false})
        for (const Window& window : {Window{1, 1, 0}, Window{3, 1, 1}, Window{3, 2, 1},
                                     Window{5, 1, 2}, Window{5, 2, 0}, Window{1, 2, 0}}) {
          const int64_t height = 21;
          const auto options = nn::Conv2dOptions(6, 8, window.kernel)
                                   .stride(window.stride)
                                   .padding(window.padding)
                                   .bias(false);
          const auto draw = [&](std::vector<int64_t> shape) {
            return exact ? integers(shape) : uneven(shape);
          };
          const Tensor x = draw({2, 6, height, 9}),
                       weight = draw({8, 6, window.kernel, window.kernel});
          const Tensor a = fresh(x), w = fresh(weight);
          const Tensor y = torch::conv2d(a, w, {}, window.stride, window.padding);
          const Tensor out = draw(y.sizes().vec());
          (y * out).sum().backward();
          std::vector<Split> splits;
          std::vector<DividedConv2d> layers;
          for (int r = 0; r < n; ++r) {
            splits.emplace_back();
            splits.back().group = ranks.group(r);
            splits.back().conv = way;
          }
          const bool strips = std::string(way) == "strips" && n > 1;
          for (const Split& split : splits) {
            layers.emplace_back(options, height, split);
            const torch::NoGradGuard fixed;
            layers.back()->weight.copy_(weight);
            divide(*layers.back());
          }
          ranks.each([&](int r) {
            const Group group = ranks.group(r);
            DividedConv2d& layer = layers[size_t(r)];
            const Tensor mine = fresh(strips ? own_part(x, 2, group) : x);
            const auto rows = [&](const Tensor& t) { return strips ? own_part(t, 2, group) : t; };
            const Tensor z = layer->forward(mine);
            (z * rows(out)).sum().backward();
            const auto divisions = divisions_of(*layer);
            const Tensor of_weight =
                divisions.empty() ? w.grad() : part(w.grad(), divisions.at("weight"));
            // What is not summed over ranks has the same bits.
            if (exact || std::string(way) != "input" || n == 1) {
              EXPECT_TRUE(torch::equal(z, rows(y))) << way << n << window.kernel << window.stride;
            }
            if (exact) {
              EXPECT_TRUE(torch::equal(mine.grad(), rows(a.grad()))) << way << n;
              EXPECT_TRUE(torch::equal(layer->weight.grad(), of_weight)) << way << n;
            } else {
              const auto magnitudes =
                  torch::conv2d(x.abs(), weight.abs(), {}, window.stride, window.padding);
              EXPECT_TRUE(
                  near(z, rows(y), n - 1 + 6 * window.kernel * window.kernel, rows(magnitudes)));
            }
          });
        }
  }
}

TEST(Strips, OfOneOrMoreNeighboursRowsAreRefusedWhereTheyAreThinnerThanTheHalo) {
  const Window wide = {7, 1, 3};
  check_strips("a", 20, wide, 4);
  try {
    check_strips("a", 20, wide, 8);  // strips of 3 and 2 rows, and a halo of 3
    ADD_FAILURE() << "nothing was thrown";
  } catch (const BadInput& refused) {
    const std::string text = refused.what();
    for (const char* word : {"a needs 3 rows", "strips of 2 rows", "--tp 8"})
      EXPECT_NE(text.find(word), std::string::npos) << text;
  }
  EXPECT_THROW(check_strips("a", 5, {3, 1, 1}, 6), BadInput);
  EXPECT_THROW(check_strips("a", 5, {3, 2, 1}, 4), BadInput);
  check_strips("a", 5, {3, 1, 1}, 5);
}

}  // namespace
}  // namespace tutti::train
