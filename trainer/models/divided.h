// Layers whose work is divided among the ranks of a group (Shoeybi et al. 2019; Korthikanti et al.
// 2023; Dryden et al. 2019). Each is made with all its parameters, so that their initial values do
// not depend on the number of ranks; divide() then leaves each rank its part. Only the files that
// compute include this.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trainer/models/group.h"
#include "trainer/models/layer.h"
#include "trainer/parallel/split.h"

namespace tutti::train {

// A module of whose parameters a rank may hold only parts.
struct Divided {
  virtual ~Divided() = default;
  std::map<std::string, Division> divisions;  // by the parameters' names in the module

 protected:
  // The rank's part of a dimension, or of each of `pieces` equal parts of it.
  void divide(const std::string& parameter, int64_t dimension, int64_t whole, const Group& group,
              int64_t pieces = 1);
  // For a module that no other rank has: all its parameters.
  void keep_alone(const std::string& name, const torch::nn::Module& module);
};

// The divisions of all parameters in the module, by their full names.
std::map<std::string, Division> divisions_of(const torch::nn::Module& module);
// Reduces every divided parameter to this rank's part.
void divide(torch::nn::Module& module);

// Activations between divided layers are the same on all ranks or, with sequence parallelism,
// divided along the sequence, dimension 1.
class Region {
 public:
  explicit Region(const Split& split) : group_(split.group), sequence_(split.sequence) {}
  const Group& group() const { return group_; }
  torch::Tensor enter(const torch::Tensor& x) const;  // into a layer whose columns are divided
  torch::Tensor leave(const torch::Tensor& y) const;  // out of one whose rows are
  // A parameter that is used between divided layers.
  torch::Tensor between(const torch::Tensor& parameter) const;
  torch::Tensor norm(torch::nn::LayerNorm& norm, const torch::Tensor& x) const;
  // The rank's part of the mask that one process would draw.
  torch::Tensor dropout(const torch::Tensor& x, double rate, bool training) const;
  // The rank's part of a tensor over positions in the sequence.
  torch::Tensor places(const torch::Tensor& x) const;

 private:
  const Group& group_;
  bool sequence_;
};

// The outputs are divided: y_r = x W_r.
struct ColumnLinearImpl : LinearImpl, Divided {
  // `pieces`: equal parts of the outputs, each divided separately.
  ColumnLinearImpl(int64_t in, int64_t out, const Group& group, int64_t pieces = 1);
  torch::Tensor forward(const torch::Tensor& x, const Region& region);
};
TORCH_MODULE(ColumnLinear);

// The inputs are divided: y = the sum of x_r W_r.
struct RowLinearImpl : LinearImpl, Divided {
  RowLinearImpl(int64_t in, int64_t out, const Group& group);
  torch::Tensor forward(const torch::Tensor& x, const Region& region);
};
TORCH_MODULE(RowLinear);

// The words are divided.
struct DividedEmbeddingImpl : torch::nn::EmbeddingImpl, Divided {
  DividedEmbeddingImpl(int64_t words, int64_t width, const Group& group);
  torch::Tensor forward(const torch::Tensor& tokens, const Region& region);
  int64_t words;
};
TORCH_MODULE(DividedEmbedding);

// The sum of the cross entropies, in nats, of logits whose `classes` are divided: three reductions
// of one number per row.
torch::Tensor divided_cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                                    int64_t classes, const Group& group);

// ---------------------------------------------------------------- pictures

struct Window {
  int64_t kernel = 1, stride = 1, padding = 0;
};
// The height of what comes out.
inline int64_t rows_after(int64_t height, const Window& w) {
  return (height + 2 * w.padding - w.kernel) / w.stride + 1;
}
// Throws BadInput if one of the ranks that divide pictures of this height needs rows beyond its own
// strip and the strips next to it, or if a strip is empty. `what` has the window: "a pooling".
void check_strips(const std::string& what, int64_t height, const Window& window, int ranks);

// A convolution of whole pictures whose output channels or input channels are divided, or one of
// strips of pictures, from the rank's own rows to its own rows.
struct DividedConv2dImpl : Conv2dImpl, Divided {
  // `height`: of the pictures; used for strips only.
  DividedConv2dImpl(const torch::nn::Conv2dOptions& options, int64_t height, const Split& split);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  const Group& group_;
  std::string way_;
  int64_t height_;
  Window window_;
};
TORCH_MODULE(DividedConv2d);

// Of pictures of this height, whole ones or a rank's strips of them: the rank's own rows, the
// largest values under a window, the mean over each picture, a normalisation over groups of
// channels.
bool in_strips(const Split& split);  // that layers hand each other strips
torch::Tensor own_rows(const torch::Tensor& pictures, const Split& split);
torch::Tensor max_pool(const torch::Tensor& x, int64_t height, const Window& window,
                       const Split& split);
torch::Tensor mean(const torch::Tensor& x, int64_t height, const Split& split);
torch::Tensor group_norm(torch::nn::GroupNorm& norm, const torch::Tensor& x, int64_t height,
                         const Split& split);

}  // namespace tutti::train
