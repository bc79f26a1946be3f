// Runs a pipeline schedule: this rank's stage computes, micro-batch by micro-batch, what its list
// says, and exchanges activations and gradients with the other stages.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "trainer/common/options.h"
#include "trainer/common/timeline.h"
#include "trainer/data/data.h"
#include "trainer/models/replica.h"
#include "trainer/parallel/fold.h"
#include "trainer/parallel/mesh.h"
#include "trainer/parallel/split.h"
#include "trainer/pipeline/partition.h"
#include "trainer/pipeline/schedule.h"

namespace tutti::train {

class Stage;

// Runs a whole model, on all ranks that divide its layers; `timed`: also measures the time of each
// layer.
ModelFacts facts_of(Replica& whole, const Batch& batch, bool timed);

// All that ranks of a pipeline must agree on.
struct PipelinePlan {
  PipelineShape shape;
  std::vector<std::string> layers;  // their names
  std::vector<Range> parts;
  std::vector<Port> ports;
  Schedule schedule;
  // The names of a stage's layers.
  std::vector<std::string> layers_of(int stage) const;
};
// As the options say; --stages profile uses the `seconds` of the layers. Throws BadInput.
PipelinePlan plan_pipeline(const Options& options, const ModelFacts& facts);

class Pipeline {
 public:
  // All arguments must outlive the pipeline. `grid.pipeline` has the ranks of the stages.
  Pipeline(const Options& options, const Data& data, const Grid& grid, Timeline& timeline,
           Stage& stage, PipelinePlan plan);

  struct Result {
    double loss = 0;        // sum over the samples; on the last stage, else 0
    double shard_norm = 0;  // sum over micro-batches of the squared length of the mean gradient
  };
  // Afterwards the stage's gradients are the sum over this rank's micro-batches in tutti's
  // canonical tree. The bits do not depend on the schedule or the number of stages; nor on how many
  // ranks hold a stage, if replicas then sum their gradients in that tree.
  Result run(int64_t step);

  // On all ranks with the same batch: the sum of the losses on the first rank of the last stage,
  // else 0.
  double loss(const Batch& batch);
  // Called on all ranks, and all get the text: see Replica.
  std::string generate(const std::string& prompt, int64_t bytes, uint64_t seed);

  const PipelinePlan& plan() const { return plan_; }
  const communicator& ranks() const { return comm_; }
  // On the device of the stage.
  std::span<const std::byte> parameters(int chunk);
  const std::vector<Slot>& slots() const { return slots_; }  // of this rank's last run
  // The busy fraction of the ranks' time, the median over the runs; collective over the ranks.
  double utilisation() const;
  double busy() const;                         // seconds of the last run spent computing
  double exposed() const { return exposed_; }  // seconds of the last run spent waiting
  // Bytes that this rank has sent in the last run, by port and direction: true for gradients.
  const std::map<std::pair<int, bool>, uint64_t>& sent_bytes() const { return step_bytes_; }
  // What this rank sends in a run, as the schedule says.
  Volume planned() const;
  int peak_live() const { return peak_live_; }
  size_t peak_bytes() const;  // of the stage's activations

 private:
  using Work = std::function<void(const Action&)>;
  // Executes the list; `samples`: of each micro-batch.
  void execute(const std::vector<Action>& list, const std::vector<int64_t>& samples,
               const Work& work);
  void post(const std::vector<Action>& list, const std::vector<int64_t>& samples);
  void send(const Action& action);
  void wait_sends(bool all);
  void compute(int64_t step, const Action& action, Result& result);
  void add(int chunk, int micro_batch);
  void show_stuck(const std::vector<Action>& list, size_t at) const;
  int64_t shard(int micro_batch) const;
  int peer(const Action& message) const;

  const Options& options_;
  const Data& data_;
  const communicator& comm_;
  const int copy_;  // of the model
  Timeline& timeline_;
  Stage& stage_;
  PipelinePlan plan_;
  Schedule forward_;
  std::vector<std::variant<BasicFold<float>, BasicFold<double>>> folds_;  // by chunk
  Buffer<double> shard_norm_;                                             // of the run

  std::deque<request> receives_;  // posted, the next one first
  size_t posted_ = 0;             // position in the list after the last receive posted
  std::deque<std::pair<Parcel, request>> sends_;
  std::vector<Slot> slots_;
  int live_ = 0, peak_live_ = 0;
  double exposed_ = 0;
  std::map<std::pair<int, bool>, uint64_t> sent_bytes_, step_bytes_;
  std::vector<double> begins_, ends_, busy_;  // of each run: seconds
};

struct RankPipeline {
  std::shared_ptr<Stage> stage;
  std::unique_ptr<Pipeline> pipeline;
  std::string decisions;  // one line; empty where there were none to make
};

// Makes a rank's pipeline (setup.cc). Collective over the grid; where times are measured, its rank
// 0 decides. The replica keeps this rank's layers only. With --micro-batches auto `options` gets
// the number of shards.
RankPipeline make_pipeline(Options& options, const Data& data, const Grid& grid, Replica& replica,
                           Timeline& timeline);

}  // namespace tutti::train
