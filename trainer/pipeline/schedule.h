// Pipeline schedules as data: what each rank of a pipeline does, in which order, for any number of
// stages and micro-batches. Pure: the same lists are checked, timed in virtual time, drawn and run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/common/stage_widths.h"

namespace tutti::train {

// A model cut into stages * chunks parts. Stage s of a pipeline has the parts s, s + stages,
// s + 2 * stages ...: its chunks 0, 1, 2 ...
struct PipelineShape {
  std::string schedule;  // one of pipeline_schedules()
  int stages = 1;
  int micro_batches = 1;
  int chunks = 1;
  StageWidths widths{std::vector<int>(size_t(stages), 1)};  // the ranks that hold each stage
  int parts() const { return stages * chunks; }
  int part(int stage, int chunk) const { return chunk * stages + stage; }
};

// naive:        one micro-batch at a time.
// gpipe:        all forward, then all backward (Huang et al. 2019).
// 1f1b:         a backward after each forward as soon as there is one: few activations are kept
//               (Narayanan et al. 2019, PipeDream-Flush).
// interleaved:  1f1b with several chunks per rank: the pipeline fills in smaller steps (Narayanan
//               et al. 2021). micro_batches is a multiple of stages.
// zb-h1:        1f1b whose weight gradients fill the gaps (Qi et al. 2024).
// With gpipe and 1f1b several ranks may hold a stage: rank i modulo their number computes
// micro-batch i (Narayanan et al. 2019), and micro_batches is a multiple of their number.
const std::vector<std::string>& pipeline_schedules();

// A tensor that one part sends to another: the activation from each part to the next, or a skip
// over parts (a portal). Gradients go the other way.
struct Port {
  int from = 0, to = 0;  // parts, from < to
  // Not 0: the tensor is a weight, the same for every micro-batch, and is sent with the first
  // `once` of them only, one for each rank that holds the receiving part.
  int once = 0;
  std::string name = {};            // of a skip; empty: the output of the part's last layer
  std::vector<int64_t> sizes = {};  // of one sample, or of a weight
  bool weight() const { return once > 0; }
  bool sent_with(int micro_batch) const { return !weight() || micro_batch < once; }
  double elements() const {
    double product = 1;
    for (const int64_t size : sizes) product *= double(size);
    return product;
  }
};

struct Action {
  enum class Kind {
    forward,
    backward,  // with zb-h1 the gradient of the inputs alone
    weight,    // with zb-h1 the gradient of the weights
    send,
    receive,
  };
  Kind kind = Kind::forward;
  int micro_batch = 0;  // in the order in which they enter the pipeline
  int chunk = 0;        // of this rank; of a message: the chunk that sends or needs it
  // Of messages:
  int peer = 0;           // a stage; the message is with its rank that computes the micro-batch
  int port = 0;           // index
  bool gradient = false;  // against the port's direction
};
// A message, by what it carries.
struct Parcel {
  int micro_batch = 0, port = 0;
  bool gradient = false;
  auto operator<=>(const Parcel&) const = default;
};
inline Parcel parcel_of(const Action& a) { return {a.micro_batch, a.port, a.gradient}; }
// "forward of micro-batch 3", "receive the gradient of micro-batch 0 from stage 2".
std::string describe(const Action& action);

// One list for each rank of the pipeline, messages included: what one rank sends to another is
// received in the same order. In each kind of action the micro-batches of a chunk ascend, so that
// sums over them have the same order in every schedule. Throws std::invalid_argument for a shape
// that is not allowed.
using Schedule = std::vector<std::vector<Action>>;
Schedule make_schedule(const PipelineShape& shape, const std::vector<Port>& ports);
// Forward of micro-batch 0 alone, on the first rank of each stage: for evaluation, without updates.
Schedule make_forward(const PipelineShape& shape, const std::vector<Port>& ports);

// Empty, or what is wrong: something missing, done twice or too early, messages that do not match,
// a deadlock, or more messages of a port in flight than micro-batches are alive in the part
// where it begins. That number bounds the messages because those micro-batches are in memory
// anyway; nothing else bounds them.
std::string check_schedule(const Schedule& schedule, const PipelineShape& shape,
                           const std::vector<Port>& ports);

// Durations of the work of one micro-batch in one chunk.
struct PartTimes {
  double forward = 1, backward = 2, weight = 0;
};
struct Slot {
  Action action;
  double begin = 0, end = 0;
};
struct PipelineRun {
  std::vector<std::vector<Slot>> slots;  // of each rank; no messages
  double makespan = 0;
  double utilisation = 0;      // busy fraction of the ranks' time
  std::vector<int> peak_live;  // of each rank: most micro-batches x chunks between forward and
                               // their last gradient
  // Of each port: most messages in flight from one rank to another.
  std::vector<int> peak_activations, peak_gradients;
  // On a deadlock: the position in each rank's list; empty if all ended.
  std::vector<size_t> stuck;
};
// Runs the schedule in virtual time. Messages take no time and are kept until they are received.
// `times` has one entry for each part.
PipelineRun simulate(const Schedule& schedule, const PipelineShape& shape,
                     const std::vector<PartTimes>& times);
// The same with equal work for all ranks: a part that two ranks hold takes twice as long, and
// backward takes twice as long as forward.
PipelineRun simulate(const Schedule& schedule, const PipelineShape& shape);

// The sum of the slots over the time from the first begin to the last end.
double utilisation_of(const std::vector<std::vector<Slot>>& slots);

}  // namespace tutti::train
