#include "trainer/train.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <memory>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/common/error.h"
#include "trainer/common/faults.h"
#include "trainer/common/gather_text.h"
#include "trainer/common/interrupt.h"
#include "trainer/device/vectors.h"
#include "trainer/launch.h"
#include "trainer/meeting.h"
#include "trainer/models/replica.h"
#include "trainer/models/shape.h"
#include "trainer/pipeline/pipeline.h"
#include "trainer/plan.h"
#include "trainer/report/screen.h"
#include "trainer/report/summary.h"
#include "trainer/sync/calls.h"
#include "trainer/sync/ways.h"
#include "trainer/sync/wire.h"
#include "trainer/workers.h"

namespace tutti::train {
namespace {

// A call may begin with a wait for what another rank computes, which takes as long as it takes.
// `name`: the device's; must live as long as the result.
tutti_comm_config config_of(const Options& options, const Device& device, const std::string& name) {
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  config.timeout_ms = options.timeout_ms.value_or(std::numeric_limits<int64_t>::max());
  config.progress_thread = options.overlap || options.pp > 1 ? 1 : 0;
  // Ways that exchange messages have their buffers on the host.
  if (device.is_gpu()) config.device = sync_way(options).messages ? "none" : name.c_str();
  // All wait as long for a newcomer that dies on its way.
  if (!options.meet.empty()) config.setup_ms = 20'000;
  return config;
}

communicator join(const Options& options, const Device& device) {
  const std::string name = device.name();
  const tutti_comm_config config = config_of(options, device, name);
  communicator world = communicator::from_env(&config);
  if (world.size() != options.world())
    throw BadInput(
        fmt::format("there are {} ranks, but the options make {}", world.size(), options.world()));
  return world;
}

Group tensor_group(const Options& o, const Grid& grid, const Device& device, GroupCalls& made) {
  Group group{nullptr, grid.tensor.rank(), grid.tensor.size(), TUTTI_CALL_CONFIG_INIT};
  if (group.size > 1) group.comm = &grid.tensor;
  group.streams = has_stream_calls(grid.tensor, device);
  group.made = &made;
  if (o.zero == 0) group.sums = call_config(o);  // else the algorithm is a reduce_scatter's
  return group;
}

// Returns the step to go on with.
int64_t resume(Screen& screen, Team& team) {
  const CheckpointGroup& group = team.keepers;
  const Options& options = team.options;
  Strategy& strategy = *team.strategy;
  const Checkpoint found = common_checkpoint(group);
  check_continues(found, options, group.identity, team.worker.data.digest());
  load_checkpoint(found, group, strategy.state());
  if (LossScale* const scale = strategy.loss_scale()) {
    const LossScale was = found.scale_of(group.comm.rank()).value_or(*scale);
    if (options.loss_scale.empty()) *scale = was;
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

// A rank that comes when others train already (--join). It is ready to compute before it asks, so
// that they do not wait for it.
int join_run(const Options& options, const Device& device, const Shape& shape, const Data& data) {
  GroupCalls made;
  const Split split = split_of(options, {.made = &made});
  Replica replica(shape, data, options.seed, split, device);
  Timeline timeline(!options.report.empty() || !options.trace.empty());
  Screen screen(options, false);
  const Ticket ticket = ask_to_join(options.meet, meeting_identity(options, data));
  const std::string name = device.name();
  tutti_comm_config config = config_of(options, device, name);
  if (!options.transport.empty()) config.transports = options.transport.c_str();
  Progress progress;
  Workers workers({data, replica, split.group, timeline}, options,
                  communicator::from_id(ticket.id, ticket.rank, ticket.nranks, &config), progress);
  watch_interrupts();
  return run_steps(workers, screen, progress);
}

}  // namespace

int train(const Options& asked, const std::vector<std::string>& arguments, bool prepared) {
  const Device device = Device::open(asked.device, local_rank());  // first: see there
  use_threads(asked.threads);
  Options options = asked;
  const Shape shape = shape_of(options);
  const std::unique_ptr<Data> data =
      open_data(options.data, shape.context, options.seed, options.tokens);
  if (options.join) return join_run(options, device, shape, *data);
  communicator world = join(options, device);
  if (!prepared) on_first<BadInput>(world, [&] { prepare(options); });
  arm_faults(options.die_at, options.sleep_at, options.lose_at, world.rank());
  const bool serves = world.rank() >= options.workers();
  communicator own = world.split(serves ? 1 : 0, world.rank());
  if (serves) {
    Replica replica(shape, *data, options.seed);
    set_initial(options, *data, replica);
    share_initial(world, replica);
    watch_interrupts();  // the workers say when it is over
    serve_run(options, *data, replica, std::move(world), std::move(own), arguments);
    return 0;
  }
  auto grid = std::make_unique<Grid>(
      Mesh(options.dp, options.widths(), options.tp, options.grid_order), std::move(own));
  GroupCalls made;
  const Split split = split_of(options, tensor_group(options, *grid, device, made));
  Replica replica(shape, *data, options.seed, split, device);
  Timeline timeline(!options.report.empty() || !options.trace.empty());
  Screen screen(options, world.rank() == 0);
  RankPipeline rank;
  if (options.pipelined()) rank = make_pipeline(options, *data, *grid, replica, timeline);
  set_initial(options, *data, replica);
  share_initial(options.has_servers() ? world : grid->data, replica);
  Workers workers({*data, replica, split.group, timeline, rank.pipeline.get()}, options,
                  std::move(world), std::move(grid));
  Team& team = workers.team();
  show_heading(screen, team.worker, *team.strategy, shape);
  if (!rank.decisions.empty()) screen.line(rank.decisions);

  Progress progress;
  if (options.resume) progress.begin = resume(screen, team);
  progress.done = progress.settled = progress.saved = progress.begin;
  watch_interrupts();
  return run_steps(workers, screen, progress);
}

}  // namespace tutti::train
