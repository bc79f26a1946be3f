// Pipeline schedules as data: what each rank of a pipeline does, in which order, for any number of
// stages and micro-batches. Pure: the same lists are checked, timed in virtual time, drawn and run.
#pragma once

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

// naive:        a micro-batch at a time.
// gpipe:        all forward, then all backward (Huang et al. 2019).
// 1f1b:         a backward after each forward as soon as there is one: few activations are kept
//               (Narayanan et al. 2019, PipeDream-Flush).
// interleaved:  1f1b with several chunks a rank: the pipeline fills in smaller steps (Narayanan et
//               al. 2021). micro_batches is a multiple of stages.
// zb-h1:        1f1b whose weight gradients fill the gaps (Qi et al. 2024).
// With gpipe and 1f1b several ranks may hold a stage: micro-batch i is computed by rank i modulo
// their number of them (Narayanan et al. 2019), micro_batches is a multiple of it.
const std::vector<std::string>& pipeline_schedules();

// What passes from one part to another: the activation from each part to the next, and what skips
// parts (a portal). Gradients go the other way.
struct Connection {
  int from = 0, to = 0;  // parts, from < to
  // Not 0: the same for every micro-batch (a weight), and sent with as many of them only, the first
  // ones: one for each rank that holds the part it goes to.
  int once = 0;
  bool sent_with(int micro_batch) const { return once == 0 || micro_batch < once; }
};

struct Action {
  enum class Kind {
    forward,
    backward,  // with zb-h1 the gradient of the inputs alone
    weight,    // the rest of it
    send,
    receive,
  };
  Kind kind = Kind::forward;
  int micro_batch = 0;  // in the order in which they enter the pipeline
  int chunk = 0;        // of this rank; of a message: the chunk that made it or needs it
  // Of messages:
  int peer = 0;           // a stage, of which it is the rank that computes the micro-batch
  int connection = 0;     // index
  bool gradient = false;  // against the connection's direction
};
// "forward of micro-batch 3", "receive the gradient of micro-batch 0 from stage 2".
std::string describe(const Action& action);

// A list a rank of the pipeline. The ranks' messages are in it: what one sends to another is
// received in the same order. Micro-batches of a chunk come in ascending order in each kind, so
// that sums over them have the same order in every schedule. Throws std::invalid_argument for a
// shape that is not allowed.
using Schedule = std::vector<std::vector<Action>>;
Schedule make_schedule(const PipelineShape& shape, const std::vector<Connection>& connections);
// Forward of micro-batch 0 alone, on the first rank of each stage: what is not learnt from.
Schedule make_forward(const PipelineShape& shape, const std::vector<Connection>& connections);
// Those from each part to the next.
std::vector<Connection> chain(int parts);

// Empty, or what is wrong: something missing, done twice or too early, messages that do not match,
// ranks that wait for each other, or more messages of a connection on the way than micro-batches
// are alive where it begins: those are in memory anyway, and nothing else bounds the messages.
std::string check_schedule(const Schedule& schedule, const PipelineShape& shape,
                           const std::vector<Connection>& connections);

// Times of one micro-batch in one chunk.
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
  double utilisation = 0;      // busy part of the ranks' time
  std::vector<int> peak_live;  // of each rank: most micro-batches x chunks between forward and
                               // their last gradient
  // Of each connection: most on the way from one rank to another.
  std::vector<int> peak_activations, peak_gradients;
  // Where the ranks stood when nothing could go on any more; empty if all ended.
  std::vector<size_t> stuck;
};
// In virtual time; messages take none, and are kept until they are received. `times` has an entry a
// part.
PipelineRun simulate(const Schedule& schedule, const PipelineShape& shape,
                     const std::vector<PartTimes>& times);
// All ranks have equally much to do, a part that two hold takes twice as long; and the usual
// proportions: backward takes twice as long as forward.
PipelineRun simulate(const Schedule& schedule, const PipelineShape& shape);

// The sum of the slots over the time from the first begin to the last end.
double utilisation_of(const std::vector<std::vector<Slot>>& slots);

}  // namespace tutti::train
