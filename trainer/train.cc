#include "trainer/train.h"

#include <fmt/format.h>

#include <memory>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/common/call.h"
#include "trainer/common/error.h"
#include "trainer/common/faults.h"
#include "trainer/data/sources.h"
#include "trainer/device/vectors.h"
#include "trainer/launch.h"
#include "trainer/models/replica.h"
#include "trainer/models/shape.h"
#include "trainer/pipeline/figures.h"
#include "trainer/pipeline/setup.h"
#include "trainer/report/history.h"
#include "trainer/report/report.h"
#include "trainer/report/screen.h"
#include "trainer/report/summary.h"
#include "trainer/sync/calls.h"
#include "trainer/sync/meter.h"
#include "trainer/sync/server_ranks.h"
#include "trainer/sync/strategy.h"
#include "trainer/sync/ways.h"
#include "trainer/sync/wire.h"

namespace tutti::train {
namespace {

// Who exchanges messages, not vectors, has them on the host. All ranks of a run are alike.
const char* device_of_calls(const Options& options, const std::string& gpu) {
  return sync_way(options).messages ? "none" : gpu.c_str();
}

communicator join(const Options& options, const Device& device) {
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  config.timeout_ms = options.timeout_ms;
  config.progress_thread = options.overlap || options.pp > 1 ? 1 : 0;
  const std::string name = device.name();
  if (device.is_gpu()) config.device = device_of_calls(options, name);
  communicator world = communicator::from_env(&config);
  if (world.size() != options.world())
    throw BadInput(
        fmt::format("there are {} ranks, but the options make {}", world.size(), options.world()));
  return world;
}

Group tensor_group(const Options& o, const Grid& grid, const Device& device) {
  Group group{&grid.tensor, grid.tensor.rank(), grid.tensor.size(), TUTTI_CALL_CONFIG_INIT};
  group.streams = has_stream_calls(grid.tensor, device);
  if (o.zero == 0) group.sums = call_config(o);  // else the algorithm is a reduce_scatter's
  return group;
}

void arm_faults(const Options& options, int rank) {
  const std::string& at = options.die_at;
  const size_t first = at.find(':');
  const size_t second = at.find(':', first + 1);
  if (at.empty() || second == std::string::npos) return;
  faults() = {at.substr(0, first), std::stoll(at.substr(first + 1)),
              std::stoi(at.substr(second + 1)), 0, rank};
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
  // Of all stages only the last one has a loss.
  if (worker.pipeline) worker.grid.pipeline.allreduce<double>(std::span(sums, 1));
  worker.comm.allreduce<double>(sums);
  return sums[0] / sums[1];
}

void check_equal(const communicator& comm, uint64_t digest) {
  uint64_t bounds[] = {digest, ~digest};
  comm.allreduce<uint64_t>(bounds, TUTTI_MIN);
  if (bounds[0] != digest || ~bounds[1] != digest)
    throw Failure("the replicas differ: their parameters should be equal, bit for bit");
}

// Of all parameters in the order in which one rank would hold them: from the last layer to the
// first, whichever stages have them.
std::string digest_over_stages(const Worker& worker) {
  const PipelineShape& shape = worker.pipeline->plan().shape;
  const communicator& ranks = worker.grid.pipeline;
  uint64_t digest = digest_of(nullptr, 0);
  for (int part = shape.parts() - 1; part >= 0; --part) {
    const int owner = shape.widths.lead(part % shape.stages);
    if (owner == ranks.rank()) {
      const OnHost<const std::byte> here(worker.replica.device(),
                                         worker.pipeline->parameters(part / shape.stages));
      const auto values = here.values();
      digest = digest_of(reinterpret_cast<const char*>(values.data()), values.size_bytes(), digest);
    }
    ranks.broadcast<uint64_t>(std::span(&digest, 1), owner);
  }
  return fmt::format("{:016x}", digest);
}

// A digest of the model's parameters, and of which rank has which. Throws where what several ranks
// hold should be equal and is not.
std::string checked_digest(const Worker& worker) {
  const OnHost<const std::byte> here(worker.replica.device(), worker.replica.bytes());
  const std::span<const std::byte> all = here.values();
  const auto digest = [](std::span<const std::byte> v, uint64_t so_far) {
    return digest_of(reinterpret_cast<const char*>(v.data()), v.size(), so_far);
  };
  const uint64_t none = digest_of(nullptr, 0);
  const uint64_t own = digest(all, none);
  check_equal(worker.comm, own);
  const communicator& model = worker.grid.model;
  if (model.size() == 1) return fmt::format("{:016x}", own);
  const size_t width = worker.replica.width();
  uint64_t shared = none;  // by all that divide the same layers
  for (const Parameter& p : worker.replica.layout()) {
    if (!p.division.spans.empty()) continue;
    shared = digest(all.subspan(width * p.offset, width * p.count), shared);
  }
  check_equal(worker.grid.tensor, shared);
  if (worker.grid.tensor.size() == 1 && worker.pipeline) return digest_over_stages(worker);
  std::vector<uint64_t> found(size_t(model.size())), parts(found.size());
  model.allgather<uint64_t>(std::span(&own, 1), found);
  // By place in the pipeline, then by part of its layers, whatever the order of the grid.
  const Mesh& mesh = worker.grid.mesh;
  const std::vector<int> ranks = mesh.group(worker.grid.all.rank(), {Axis::pipeline, Axis::tensor});
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto place = size_t(mesh.at(ranks[i], Axis::pipeline));
    const auto part = size_t(mesh.at(ranks[i], Axis::tensor));
    parts[place * size_t(mesh.size(Axis::tensor)) + part] = found[i];
  }
  return fmt::format("{:016x}",
                     digest_of(reinterpret_cast<const char*>(parts.data()), 8 * parts.size()));
}

// Returns the step to go on with.
int64_t resume(Screen& screen, const Worker& worker, const Keepers& keepers, Strategy& strategy) {
  std::vector<std::string> warnings;
  const Checkpoint found = newest_checkpoint(worker.options.checkpoint, warnings);
  check_continues(found, worker.options, keepers.identity, worker.data.digest());
  load_checkpoint(found, keepers, strategy.state());
  strategy.resumed();
  screen.line(fmt::format("goes on after step {} from {}", found.step, found.folder));
  return found.step;
}

// Of all ranks of the communicator rank 0's.
void share_initial(const communicator& comm, Replica& replica) {
  const OnHost<std::byte> here(replica.device(), replica.bytes());
  const std::span<std::byte> all = here.values();
  comm.broadcast(std::span(reinterpret_cast<uint8_t*>(all.data()), all.size()), 0);
  here.store();
}

void write_records(const Worker& worker, const Strategy& strategy,
                   const std::vector<StepRecord>& history) {
  const Options& o = worker.options;
  if (o.report.empty() && o.trace.empty()) return;
  const auto events = gather_events(worker);
  std::string pipeline;
  if (worker.pipeline && worker.grid.copy == 0)
    pipeline = html_of(figures_of(*worker.pipeline), worker.pipeline->plan().shape);
  if (worker.grid.all.rank() != 0 || history.empty()) return;
  const Totals totals = totals_of(history, double(o.batch), double(o.batch) / double(o.shards));
  if (!o.trace.empty()) write_trace(o.trace, events);
  if (!o.report.empty())
    write_report(o.report, o, history, totals, strategy.formula(), events, pipeline);
}

}  // namespace

void train(const Options& asked, const std::vector<std::string>& arguments) {
  const Device device = Device::open(asked.device, local_rank());  // first: see there
  use_one_thread();
  Options options = asked;
  const Shape shape = shape_of(options);
  const std::unique_ptr<Data> data = open_data(options.data, shape.context, options.seed);
  const communicator world = join(options, device);
  arm_faults(options, world.rank());
  const bool serves = world.rank() >= options.workers();
  communicator own = world.split(serves ? 1 : 0, world.rank());
  if (serves) {
    Replica replica(shape, *data, options.seed);
    share_initial(world, replica);
    return serve(
        {options, *data, replica.layout(), world, world.rank(), world.size(), identity_of(options)},
        own, replica, arguments);
  }
  const Grid grid(Mesh(options.dp, options.widths(), options.tp, options.grid_order),
                  std::move(own));
  Replica replica(shape, *data, options.seed,
                  split_of(options, tensor_group(options, grid, device)), device);
  Timeline timeline(!options.report.empty() || !options.trace.empty());
  Screen screen(options, world.rank() == 0);
  RankPipeline rank;
  if (options.pipelined()) rank = make_pipeline(options, *data, grid, replica, timeline);
  share_initial(options.has_servers() ? world : grid.data, replica);
  const Worker worker{options, *data, replica, grid, grid.data, timeline, rank.pipeline.get()};
  const std::unique_ptr<Strategy> strategy = sync_way(options).make(worker, world);
  show_heading(screen, worker, *strategy, shape);
  if (!rank.decisions.empty()) screen.line(rank.decisions);

  const Keepers keepers{options,
                        *data,
                        replica.layout(),
                        options.has_servers() ? world : grid.all,
                        options.has_servers() ? world.rank() : grid.data.rank(),
                        options.has_servers() ? world.size() : grid.data.size(),
                        identity_of(options)};
  const int64_t begin = options.resume ? resume(screen, worker, keepers, *strategy) : 0;

  std::vector<StepRecord> history;
  Meter divided(grid.tensor);
  for (int64_t step = begin, next = 0; step < options.steps; step = next) {
    faults().now = step;
    timeline.step(step);
    const double from = now();
    StepRecord record;
    record.figures = strategy->step(step);
    if (device.is_gpu() && options.tp > 1)
      check(tutti_comm_device_status(grid.tensor.get()), grid.tensor);
    record.figures.divided = divided.sent();
    next = record.figures.next >= 0 ? record.figures.next : step + 1;
    record.step = step + 1;
    record.seconds = now() - from;
    record.samples_per_s = double(options.batch) / record.seconds;
    const bool last = next >= options.steps;
    // Steps may be left out: a checkpoint is due when a multiple is passed.
    const bool passed = next / options.checkpoint_every > step / options.checkpoint_every;
    if (!options.checkpoint.empty() && (last || passed)) {
      strategy->pause(next);
      save_checkpoint(keepers, strategy->state(), next);
    }
    if (last) strategy->finish();
    nlohmann::json more = nlohmann::json::object();
    if (options.hash && (last || sync_way(options).equal_steps)) {
      more["parameters"] = checked_digest(worker);
    }
    if (last || (options.evaluate_every > 0 && (step + 1) % options.evaluate_every == 0))
      record.validation = validate(worker);
    history.push_back(record);
    screen.step(record, more);
  }
  show_summary(screen, worker, world, *strategy, history);
  write_records(worker, *strategy, history);
}

}  // namespace tutti::train
