// Checkpoints. A folder holds up to two of them, step-N/, each with one safetensors file a rank and
// checkpoint.json, which names the files with their lengths and SHA-256, and says which box of
// which tensor is in which: ranks that divide the model in another way find their parts in them.
// One is written under another name and renamed when all of it is on the disk: what is called
// step-N is complete.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/checkpoint/state.h"
#include "trainer/common/options.h"
#include "trainer/data/data.h"

namespace tutti::train {

// One that is complete and undamaged.
struct Checkpoint {
  std::string folder;
  int64_t step = 0;
  int copies = 0;           // of the model, that summed gradients
  nlohmann::json identity;  // what the bits of its run depend on
  uint64_t data_digest = 0;
  std::vector<std::string> files;
  nlohmann::json tensors;  // by name, which box of it is in which file
};

// The newest undamaged one; `warnings`: one sentence for each newer one that is damaged. Throws
// BadInput if there is none.
Checkpoint newest_checkpoint(const std::string& folder, std::vector<std::string>& warnings);
bool has_checkpoints(const std::string& folder);
// Throws BadInput, naming what differs, unless a run with these options, and what its bits depend
// on, continues it bit for bit.
void check_continues(const Checkpoint& checkpoint, const Options& options,
                     const nlohmann::json& identity, uint64_t data_digest);

// Who makes a checkpoint together: all that hold state.
struct Keepers {
  const Options& options;
  const Data& data;
  const std::vector<Parameter>& layout;
  const communicator& comm;
  // Of the ranks that keep the same parts of the model, this one's number, and how many they are.
  int copy = 0;
  int copies = 1;
  nlohmann::json identity = {};  // what the bits of the run depend on
};

// Collective. Throws Failure on all ranks, naming the rank and the cause, if one cannot write its
// part; then nothing is left of it and older ones are as they were.
void save_checkpoint(const Keepers& keepers, const std::vector<StateVector>& state, int64_t step);

// Fills the state, wherever the checkpoint's ranks had which part. Throws BadInput if a part is
// missing.
void load_checkpoint(const Checkpoint& checkpoint, const Keepers& keepers,
                     const std::vector<StateVector>& state);

// BadInput unless two checkpoints of so many bytes each, and the one that is being written, fit on
// the disk.
void check_space(const Options& options, size_t checkpoint);

}  // namespace tutti::train
