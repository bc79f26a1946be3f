// Checkpoints. A folder holds up to two of them, step-N/, each with one safetensors file per rank,
// the vocabulary of a text of tokens, and checkpoint.json, which has the files' names, lengths and
// SHA-256 and maps every box of every tensor to its file, so that ranks that divide the model
// differently find their parts; its own contents are covered by a SHA-256, too. A checkpoint is
// written under another name and renamed when all of it is on the disk: a folder step-N is
// complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/checkpoint/about.h"
#include "trainer/common/options.h"
#include "trainer/data/data.h"
#include "trainer/device/device.h"
#include "trainer/parallel/loss_scale.h"
#include "trainer/parallel/optimizer.h"
#include "trainer/parallel/split.h"

namespace tutti::train {

// ---------------------------------------------------------------- what of a rank's state is kept

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

// ---------------------------------------------------------------- checkpoints

// A complete, undamaged checkpoint.
struct Checkpoint : About {
  std::string folder;
  std::vector<std::string> paths;  // of the files
  std::string words;               // what the vocabulary's file has; empty where tokens are bytes

  // That rank's, or the last one's if there were fewer.
  std::optional<LossScale> scale_of(int rank) const;
};
constexpr const char* vocabulary_file = "vocabulary.bpe";

// The newest undamaged checkpoint; `warnings`: one sentence for each newer, damaged one. Throws
// BadInput, in the name of `option`, if there is none.
Checkpoint newest_checkpoint(const std::string& folder, std::vector<std::string>& warnings,
                             const char* option = "--resume");
// The newest one whose checkpoint.json is whole; its files have not been looked at.
std::optional<Checkpoint> described_checkpoint(const std::string& folder);
// The checkpoint that --init names, or the newest one in the folder that it names. Throws BadInput
// unless there is one of this model.
Checkpoint initial_checkpoint(const Options& options, const nlohmann::json& model);
bool has_checkpoints(const std::string& folder);
// Throws BadInput, naming the difference, unless a run with these options and this identity
// continues what the checkpoint's run computes.
void check_continues(const Checkpoint& checkpoint, const Options& options,
                     const nlohmann::json& identity, uint64_t data_digest);
// "--lr is 0.001, was 0.002": how the settings differ from those of the checkpoint's run.
std::vector<std::string> changes_since(const Checkpoint& checkpoint,
                                       const nlohmann::json& settings);

// The ranks that make a checkpoint together: all that hold state.
struct CheckpointGroup {
  const Options& options;
  const Data& data;
  const Layout& layout;
  const communicator& comm;
  // This rank's number among those that keep the same parts of the model, and their number.
  int copy = 0;
  int copies = 1;
  nlohmann::json identity = nlohmann::json::object();  // what the run computes
  nlohmann::json settings = nlohmann::json::object();  // what may change when it goes on
};
// Collective: the newest undamaged checkpoint of those that rank 0 sees. Throws BadInput on all
// ranks if there is none; rank 0's has the text.
Checkpoint common_checkpoint(const CheckpointGroup& group);

// Collective. Throws Failure on all ranks, rank 0's naming the rank and the cause, if one cannot
// write its part; then nothing is left of this checkpoint and older ones are unchanged. `scale`:
// this rank's; null, on all ranks, where losses are not scaled.
void save_checkpoint(const CheckpointGroup& group, const std::vector<StateVector>& state,
                     int64_t step, const LossScale* scale);

// Fills the state, however the checkpoint's ranks divided it. Throws BadInput if a part is missing.
void load_checkpoint(const Checkpoint& checkpoint, const CheckpointGroup& group,
                     const std::vector<StateVector>& state);
// Only the parameters, `layout`'s, in the type that `options` name; of any run of the same model.
// Throws BadInput.
void load_weights(const Checkpoint& checkpoint, const Options& options, const Layout& layout,
                  const Device& device, std::span<std::byte> parameters);

// Throws BadInput unless the folder can be one of checkpoints and the disk has room for two
// checkpoints of `checkpoint` bytes and the one being written.
void check_space(const Options& options, size_t checkpoint);

}  // namespace tutti::train
