#include "trainer/train.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <limits>
#include <memory>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/common/call.h"
#include "trainer/common/error.h"
#include "trainer/common/faults.h"
#include "trainer/common/gather_text.h"
#include "trainer/common/interrupt.h"
#include "trainer/device/vectors.h"
#include "trainer/launch.h"
#include "trainer/models/replica.h"
#include "trainer/models/shape.h"
#include "trainer/pipeline/pipeline.h"
#include "trainer/plan.h"
#include "trainer/report/screen.h"
#include "trainer/report/summary.h"
#include "trainer/sync/calls.h"
#include "trainer/sync/model_traffic.h"
#include "trainer/sync/server_ranks.h"
#include "trainer/sync/strategy.h"
#include "trainer/sync/ways.h"
#include "trainer/sync/wire.h"

namespace tutti::train {
namespace {

communicator join(const Options& options, const Device& device) {
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  // A call may begin with a wait for what another rank computes, which takes as long as it takes.
  config.timeout_ms = options.timeout_ms.value_or(std::numeric_limits<int64_t>::max());
  config.progress_thread = options.overlap || options.pp > 1 ? 1 : 0;
  const std::string name = device.name();
  // Ways that exchange messages have their buffers on the host.
  if (device.is_gpu()) config.device = sync_way(options).messages ? "none" : name.c_str();
  communicator world = communicator::from_env(&config);
  if (world.size() != options.world())
    throw BadInput(
        fmt::format("there are {} ranks, but the options make {}", world.size(), options.world()));
  return world;
}

Group tensor_group(const Options& o, const Grid& grid, const Device& device, GroupCalls& made) {
  Group group{&grid.tensor, grid.tensor.rank(), grid.tensor.size(), TUTTI_CALL_CONFIG_INIT};
  group.streams = has_stream_calls(grid.tensor, device);
  group.made = &made;
  if (o.zero == 0) group.sums = call_config(o);  // else the algorithm is a reduce_scatter's
  return group;
}

// Mean over a fixed part of the validation samples, each copy of the model taking its share.
double validate(const Worker& worker) {
  const uint64_t all = std::min<uint64_t>(worker.data.validation_samples(), 256);
  const int copies = worker.grid.mesh.size(Axis::data);
  const auto begin = uint64_t(cut(int64_t(all), copies, worker.grid.copy));
  const auto end = uint64_t(cut(int64_t(all), copies, worker.grid.copy + 1));
  double sums[] = {0, double(end - begin) * double(worker.data.terms())};
  for (uint64_t i = begin; i < end; i += 16) {
    const Batch batch = validation_of(worker.data, i, std::min(end, i + 16));
    sums[0] += worker.pipeline ? worker.pipeline->loss(batch) : worker.replica.loss(batch);
  }
  // Only the last stage has a loss.
  if (worker.pipeline) worker.grid.pipeline.allreduce<double>(std::span(sums, 1));
  worker.comm.allreduce<double>(sums);
  return sums[0] / sums[1];
}

// Returns the step to go on with.
int64_t resume(Screen& screen, const Worker& worker, const CheckpointGroup& group,
               Strategy& strategy) {
  const Checkpoint found = common_checkpoint(group);
  check_continues(found, worker.options, group.identity, worker.data.digest());
  load_checkpoint(found, group, strategy.state());
  if (LossScale* const scale = strategy.loss_scale();
      scale && found.settings.contains("loss-scale")) {
    const auto was = LossScale::parsed(found.settings["loss-scale"].get<std::string>());
    if (worker.options.loss_scale.empty()) *scale = was;
    scale->skipped = was.skipped;
  }
  strategy.resumed();
  const std::vector<std::string> changes = changes_since(found, group.settings);
  screen.line(fmt::format("goes on after step {} from {}{}{}", found.step, found.folder,
                          changes.empty() ? "" : "; ", fmt::join(changes, ", ")));
  return found.step;
}

// All ranks of the communicator take rank 0's parameters.
void share_initial(const communicator& comm, Replica& replica) {
  const OnHost<std::byte> here(replica.device(), replica.bytes());
  const std::span<std::byte> all = here.values();
  comm.broadcast(std::span(reinterpret_cast<uint8_t*>(all.data()), all.size()), 0);
  here.store();
}

void save(CheckpointGroup group, Strategy& strategy, int64_t step) {
  if (const LossScale* scale = strategy.loss_scale()) group.settings["loss-scale"] = scale->text();
  save_checkpoint(group, strategy.state(), step);
}

// Why a run ends before its last step.
enum class Early { no, interrupted, diverged };

// An overflow of scaled losses is no divergence as long as the scale can fall.
bool is_finite(const StepFigures& f) {
  return std::isfinite(f.loss) && std::isfinite(f.step_norm) && (!f.overflow || f.loss_scale >= 1);
}

// `meets`: all workers are here, and end if one must. `leaves`: a worker may end by itself.
Early early_end(const Worker& worker, bool meets, bool leaves, bool finite) {
  double found[] = {interrupted ? 1.0 : 0.0, finite ? 0.0 : 1.0};
  if (meets)
    worker.grid.all.allreduce<double>(found, TUTTI_MAX);
  else if (!leaves)
    return Early::no;
  return found[1] > 0 ? Early::diverged : found[0] > 0 ? Early::interrupted : Early::no;
}

// The exit status of all ranks. `saved`: the step of the last checkpoint; 0: none.
int end_of_run(const Worker& worker, Early early, const StepRecord& last, int64_t saved) {
  const Options& o = worker.options;
  auto most = int64_t(early);
  worker.grid.all.allreduce<int64_t>(std::span(&most, 1), TUTTI_MAX);
  early = Early(most);
  if (early == Early::no) return 0;
  if (worker.grid.all.rank() == 0) {
    const StepFigures& f = last.figures;
    const std::string kept =
        saved > 0 ? fmt::format("; --resume goes on from step {} in {}", saved, o.checkpoint) : "";
    if (early == Early::diverged)
      fmt::print(
          stderr,
          "tutti-train: the run has diverged: at step {} of {} the loss is {} and the squared "
          "length of the gradient {} (--keep-going does not end there){}\n",
          last.step, o.steps, f.loss, f.overflow ? INFINITY : f.step_norm, kept);
    else
      fmt::print(stderr, "tutti-train: interrupted after step {} of {}{}\n", last.step, o.steps,
                 kept);
  }
  return early == Early::diverged ? 1 : 128 + SIGINT;
}

StepRecord one_step(const Worker& worker, Strategy& strategy, ModelTraffic& traffic, int64_t step) {
  faults().now = step;
  worker.timeline.step(step);
  traffic.begin();
  StepRecord record;
  const double from = now();
  record.figures = strategy.step(step);
  if (worker.replica.device().is_gpu() && worker.options.tp > 1)
    check(tutti_comm_device_status(worker.grid.tensor.get()), worker.grid.tensor);
  traffic.end(record.figures);
  record.step = step + 1;
  record.seconds = now() - from;
  record.samples_per_s = double(worker.options.batch) / record.seconds;
  return record;
}

// Makes the steps after the first `begin` ones. Returns the exit status.
int make_steps(const Worker& worker, const communicator& world, Strategy& strategy,
               const CheckpointGroup& group, ModelTraffic& traffic, Screen& screen, int64_t begin) {
  const Options& o = worker.options;
  const SyncWay& way = sync_way(o);
  // Whether workers meet only where a checkpoint is written.
  const bool alone = way.messages && !way.equal_steps;
  const bool kept = !o.checkpoint.empty();
  std::vector<StepRecord> history;
  Early early = Early::no;
  int64_t saved = begin;
  bool finite = true, last = false;
  for (int64_t step = begin, next = 0; step < o.steps && !last; step = next) {
    StepRecord record = one_step(worker, strategy, traffic, step);
    next = record.figures.next >= 0 ? record.figures.next : step + 1;
    const bool ends = next >= o.steps;
    // Steps may be skipped: a checkpoint is due when a multiple is passed.
    const bool due = kept && (ends || next / o.checkpoint_every > step / o.checkpoint_every);
    finite = o.keep_going || (finite && is_finite(record.figures));
    early = early_end(worker, alone ? due : strategy.together(), alone && !kept, finite);
    if (early == Early::interrupted && ends) early = Early::no;
    last = early != Early::no || ends;
    if (early != Early::diverged && kept && (due || last)) {
      strategy.pause(next);
      save(group, strategy, next);
      saved = next;
    }
    if (last) record.figures.volume += strategy.finish();
    nlohmann::json more = nlohmann::json::object();
    if (o.hash && (last || way.equal_steps)) more["parameters"] = checked_digest(worker);
    if (last || (o.evaluate_every > 0 && (step + 1) % o.evaluate_every == 0))
      record.validation = validate(worker);
    history.push_back(record);
    screen.step(record, more);
  }
  write_records(worker, history, show_summary(screen, worker, world, strategy, history));
  return end_of_run(worker, early, history.back(), saved);
}

}  // namespace

int train(const Options& asked, const std::vector<std::string>& arguments, bool prepared) {
  const Device device = Device::open(asked.device, local_rank());  // first: see there
  use_threads(asked.threads);
  Options options = asked;
  const Shape shape = shape_of(options);
  const std::unique_ptr<Data> data =
      open_data(options.data, shape.context, options.seed, options.tokens);
  const communicator world = join(options, device);
  if (!prepared) on_first<BadInput>(world, [&] { prepare(options); });
  arm_faults(options.die_at, options.sleep_at, world.rank());
  const bool serves = world.rank() >= options.workers();
  communicator own = world.split(serves ? 1 : 0, world.rank());
  if (serves) {
    Replica replica(shape, *data, options.seed);
    set_initial(options, *data, replica);
    share_initial(world, replica);
    watch_interrupts();  // the workers say when it is over
    serve({options, *data, replica.layout(), world, world.rank(), world.size(),
           identity_of(options), settings_of(options)},
          own, replica, arguments);
    return 0;
  }
  const Grid grid(Mesh(options.dp, options.widths(), options.tp, options.grid_order),
                  std::move(own));
  GroupCalls made;
  const Split split = split_of(options, tensor_group(options, grid, device, made));
  Replica replica(shape, *data, options.seed, split, device);
  Timeline timeline(!options.report.empty() || !options.trace.empty());
  Screen screen(options, world.rank() == 0);
  RankPipeline rank;
  if (options.pipelined()) rank = make_pipeline(options, *data, grid, replica, timeline);
  set_initial(options, *data, replica);
  // The ranks with the same part of the model. Where there are servers they hold the state.
  const communicator& alike = options.has_servers() ? world : grid.data;
  share_initial(alike, replica);
  const Worker worker{options, *data, replica, grid, grid.data, timeline, rank.pipeline.get()};
  const std::unique_ptr<Strategy> strategy = sync_way(options).make(worker, world);
  show_heading(screen, worker, *strategy, shape);
  if (!rank.decisions.empty()) screen.line(rank.decisions);

  const communicator& keep = options.has_servers() ? world : grid.all;
  const CheckpointGroup group{
      options,      *data,        replica.layout(),     keep,
      alike.rank(), alike.size(), identity_of(options), settings_of(options)};
  const int64_t begin = options.resume ? resume(screen, worker, group, *strategy) : 0;
  ModelTraffic traffic(worker, split.group, made);
  watch_interrupts();
  return make_steps(worker, world, *strategy, group, traffic, screen, begin);
}

}  // namespace tutti::train
