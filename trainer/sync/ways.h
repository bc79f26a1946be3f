// The ways in which workers agree on parameters (--sync). Each is a row, in a file of its own; the
// command line, the plan, the step loop and checkpoints read in it what they need to know of a way.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "trainer/common/options.h"
#include "trainer/parallel/split.h"
#include "trainer/sync/server_core.h"
#include "trainer/sync/strategy.h"

namespace tutti::train {

// An option of some ways; the others refuse it.
struct WayOption {
  const char* name;      // "--local-steps"
  const char* about;     // for the help
  Options::Value value;  // the default; its type is the option's
};

// What a way's lines of a dry run are made from.
struct PlannedStep {
  const Options& options;
  const Layout& layout;  // of the whole model
  const Layout& most;    // of the rank that holds most of it
};

struct SyncWay {
  const char* name = "";  // as in --sync
  std::vector<WayOption> options = {};

  // Every step sums gradients over the workers, by collectives. Needed for --clip, --dtype,
  // --level, --shards, --topk, --wire, --zero, models that ranks divide, pipelines, and for
  // resuming a checkpoint with another --dp.
  bool sums_gradients = false;
  bool allreduces = false;  // --algorithm says how
  bool messages = false;    // messages in place of collectives; their buffers are on the host
  // --elastic: a step is decided by one call after all its sums, and those that are left can then
  // make its update, or else make it again.
  bool elastic = false;
  bool equal_steps = false;   // replicas are equal after every step, not only at the end
  bool common_steps = true;   // all workers make all steps: they can validate between them
  bool own_replicas = false;  // replicas differ between workers, and a checkpoint has all of them

  // Throws BadInput for options that do not go together.
  void (*check)(const Options& options) = nullptr;
  // What the --servers additional ranks do with the workers' gradients; null: no servers.
  ServerRule (*server)(const Options& options) = nullptr;
  // Lines of a dry run, each with its end.
  std::string (*plan)(const PlannedStep& step) = nullptr;
  // A worker's side. `world`: the workers, then the servers; it outlives the strategy.
  std::unique_ptr<Strategy> (*make)(const Worker& worker, const communicator& world) = nullptr;
};

// In the order of list.h.
std::span<const SyncWay> sync_ways();
const SyncWay* find_sync_way(const std::string& name);  // null: there is none
// The way that --sync names; the option has been checked.
const SyncWay& sync_way(const Options& options);

// What checkpoints say of their run. The model:
nlohmann::json model_of(const Options& options);
// Where --init names a checkpoint: its parameters, in place of the ones that were drawn. Throws
// BadInput unless the data has its vocabulary.
void set_initial(const Options& options, const Data& data, Replica& replica);
// What a run computes, the model included: a run that goes on must be equal in it. How work is
// divided is no part of it: that makes a difference in rounding, and at level canonical none
// between numbers of workers with the same shards.
nlohmann::json identity_of(const Options& options);
// What may change when a run goes on.
nlohmann::json settings_of(const Options& options);
// Of one checkpoint, without the little that it holds besides its vectors.
size_t checkpoint_bytes(const Options& options, size_t parameters);

}  // namespace tutti::train
