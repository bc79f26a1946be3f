// The options of a run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "trainer/common/stage_widths.h"

namespace tutti::train {

struct Options {
  // The model and its data. None: the model's own value.
  std::string model = "gpt";  // NAME or NAME:SIZE
  std::optional<int64_t> layers;
  std::optional<int64_t> width;
  std::optional<int64_t> heads;
  std::optional<int64_t> context;
  double dropout = 0;
  std::string data;  // empty: the model's own kind
  uint64_t seed = 1;
  std::string dtype = "float32";
  std::string device = "cpu";  // or cuda, cuda:N
  int threads = 1;             // that compute, a rank

  // Steps, batches and the optimizer.
  int64_t steps = 0;
  int64_t batch = 0;                // samples of a step, over all workers
  int64_t shards = 0;               // pieces of a step whose gradients are summed
  std::string optimizer = "adamw";  // sgd, adamw, lamb
  double rate = 0;
  int64_t warmup = 10;
  std::string decay = "constant";  // of the rate after the warm-up: or cosine, linear
  double least_rate = 0;           // which the decay ends at, after the last step
  double momentum = 0.9;
  double weight_decay = 0.01;
  std::optional<double> clip;  // longer gradients are scaled to this length; none: none are

  // The grid of workers, and how they agree.
  int dp = 1;                           // copies of the model
  int tp = 1;                           // ranks that share the work of each layer
  int pp = 1;                           // stages of layers
  std::string grid_order = "dp,pp,tp";  // outermost first
  bool sequence_parallel = false;
  std::string conv_split = "output";  // the dimension of convolutions that tp divides
  // Bytes that recurrent layers process at a time; none: all, or 8 where ranks divide them.
  std::optional<int64_t> rnn_chunk;

  // Pipelines. Empty schedule: none, every rank computes all layers.
  std::string schedule;
  std::string micro_batches;       // a number, or auto; empty: enough to fill the pipeline
  int chunks = 1;                  // of layers per stage
  std::string stages = "profile";  // how layers are cut: profile, even, or how many each part has
  std::string stage_widths;        // ranks that hold each stage; empty: one
  bool recompute = false;
  bool portals = true;
  std::vector<double> stage_sleep;  // milliseconds that a forward lasts: fixed, and for each sample
  std::vector<double> stage_load;   // and how many times as long in each stage

  std::string sync = "allreduce";
  std::string algorithm = "auto";
  std::string level = "fast";
  std::string transport;  // empty: the library's choice
  bool overlap = true;
  std::string wire = "fp32";
  double topk = 0;  // the fraction of a gradient that is sent; 0: all of it
  int zero = 0;
  double first_bucket_mib = 1;
  double bucket_mib = 25;
  int servers = 0;  // ranks after the workers; 0: the way to agree has none
  // Options that only some ways to agree have (sync/ways.h), by name.
  using Value = std::variant<int64_t, double, bool>;
  std::map<std::string, Value> of_ways;
  template <class T>
  T of_way(const std::string& name) const {
    return std::get<T>(of_ways.at(name));
  }
  std::string straggler;  // a slow worker, RANK:FACTOR, or jitter; empty: none
  std::string log;        // where the servers' events go
  std::string replay;     // a log to be repeated

  // Checkpoints and output.
  std::string checkpoint;
  int64_t checkpoint_every = 100;
  bool resume = false;
  std::string init;  // a checkpoint whose weights are the first ones; empty: they are drawn
  std::string json;
  std::string csv;
  std::string report;
  std::string trace;
  bool dry_run = false;
  bool keep_going = false;            // also when the loss or the gradient is no number any more
  int64_t evaluate_every = 0;         // 0: at the end only
  int64_t sample = 200;               // bytes of text at the end
  std::optional<int64_t> generate;    // bytes of text to write in place of training
  std::string prompt = "\n";          // and what they continue
  bool hash = false;                  // print a digest of the parameters after every step
  std::string die_at;                 // PLACE:STEP:RANK; for tests
  std::optional<int64_t> timeout_ms;  // of a wait for another rank; none: as long as it lives
  std::string sleep_at;               // PLACE:STEP:RANK:MILLISECONDS; for tests

  bool has_servers() const { return servers > 0; }
  StageWidths widths() const { return StageWidths::parsed(stage_widths, pp); }
  int workers() const { return dp * widths().ranks() * tp; }
  // Whether sums over workers are in the canonical tree. Sums over replicas of a stage always are.
  bool canonical() const { return level == "canonical" || widths().widest() > 1; }
  // Bytes of one element of a parameter or a gradient.
  size_t element_bytes() const { return dtype == "float64" ? 8 : 4; }
  int world() const { return workers() + servers; }
  bool pipelined() const { return !schedule.empty(); }
  // As --stages lists them.
  std::vector<size_t> stage_layers() const;
  std::string model_name() const { return model.substr(0, model.find(':')); }
  std::string model_size() const {
    const size_t colon = model.find(':');
    return colon == std::string::npos ? "" : model.substr(colon + 1);
  }
};

}  // namespace tutti::train
