#include "trainer/workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>

#include "trainer/common/call.h"
#include "trainer/common/error.h"
#include "trainer/common/gather_text.h"
#include "trainer/sync/server_ranks.h"

namespace tutti::train {
namespace {

static_assert(std::is_trivially_copyable_v<Progress>);

// Collective: all get the value of that rank.
template <class Plain>
void broadcast(const communicator& comm, Plain& value, int from) {
  comm.broadcast<uint8_t>(std::span(reinterpret_cast<uint8_t*>(&value), sizeof value), from);
}

// Where a step is not cut into shards of its own there is one for each worker.
Options of_size(Options options, const communicator& world) {
  options.dp = world.size() - options.servers;
  if (!sync_way(options).sums_gradients) options.shards = options.dp;
  return options;
}

// Collective over those that are left: the numbers that they had first, by rank. Returns the
// numbers that are missing. Both lists are in order.
std::vector<int> lost_of(const communicator& left, int own, const std::vector<int>& before,
                         std::vector<int>& names) {
  names.resize(size_t(left.size()));
  left.allgather<int>(std::span(&own, 1), names);
  std::vector<int> lost;
  std::set_difference(before.begin(), before.end(), names.begin(), names.end(),
                      std::back_inserter(lost));
  return lost;
}

// Collective over those that are left: shrinks until settle() ends without another loss.
template <class Settle>
void shrink(communicator& world, Settle settle) {
  for (;;) {
    world = world.shrink();
    try {
      return settle();
    } catch (const error& again) {
      if (!is_loss(again)) throw;
    }
  }
}

// What is true of the workers that are left, and of the server.
struct Common {
  int64_t done = 0;     // a step that one of them has made, all count as made
  int64_t settled = 0;  // what comes after a step, only if all have done it
  int64_t saved = 0;
  bool lost_first = false;     // the rank that shows the figures
  bool overflow = false;       // the last step was left out
  std::optional<Progress> of;  // a worker's that has made the last step
};
// Collective. `mine`: a worker's; null on a server, which has made `done` steps. `overflow`: the
// last of them was left out.
Common common_to(const communicator& left, int64_t done, bool overflow, bool lost_first,
                 const Progress* mine) {
  constexpr int64_t any = std::numeric_limits<int64_t>::max();
  int64_t most[] = {done, mine ? -mine->settled : -any, mine ? mine->saved : 0, lost_first};
  left.allreduce<int64_t>(most, TUTTI_MAX);
  const bool made = done == most[0];
  int64_t least[] = {mine && made ? left.rank() : left.size(), made && overflow ? 0 : 1};
  left.allreduce<int64_t>(least, TUTTI_MIN);
  Common common{most[0], -most[1], most[2], most[3] != 0, least[1] == 0, {}};
  if (least[0] == left.size()) return common;
  common.of = mine ? *mine : Progress{};
  broadcast(left, *common.of, int(least[0]));
  return common;
}

// What the next steps begin with, but for the parameters, which both have.
void carry(Strategy& from, Strategy& to) {
  const std::vector<StateVector> before = from.state(), after = to.state();
  for (size_t v = 0; v < before.size(); ++v)
    for (size_t i = 0; i < before[v].values.size(); ++i)
      if (before[v].values[i].data() != after[v].values[i].data())
        std::copy(before[v].values[i].begin(), before[v].values[i].end(),
                  after[v].values[i].begin());
  if (from.loss_scale()) *to.loss_scale() = *from.loss_scale();
}

}  // namespace

Workers::Workers(const RankParts& parts, const Options& options, communicator world,
                 std::unique_ptr<Grid> grid)
    : parts_(parts),
      world_(std::move(world)),
      team_(std::make_unique<Team>(parts, options, world_, std::move(grid))),
      names_(size_t(world_.size())) {
  std::iota(names_.begin(), names_.end(), 0);
  newcomers();  // who comes from now on finds the run
}

Workers::Workers(const RankParts& parts, const Options& options, communicator world,
                 Progress& progress)
    : parts_(parts), world_(std::move(world)) {
  team_ = team_of(options);
  names_.resize(size_t(world_.size()));
  hand_over(true, progress);
}

std::unique_ptr<Team> Workers::team_of(const Options& options) const {
  const Options now = of_size(options, world_);
  const Mesh mesh(now.dp, now.widths(), now.tp, now.grid_order);
  auto grid = std::make_unique<Grid>(mesh, world_.split(0, world_.rank()));
  return std::make_unique<Team>(parts_, now, world_, std::move(grid));
}

nlohmann::json meeting_identity(const Options& o, const Data& data) {
  nlohmann::json run = identity_of(o);
  run.update(settings_of(o));
  for (const char* name : {"dp", "tp", "pp"}) run.erase(name);
  run["data"] = data.digest();
  return run;
}

// ---------------------------------------------------------------- losing

std::vector<int> Workers::lose(Progress& progress) {
  const std::vector<int> before = names_;
  const int name = names_[size_t(world_.rank())];
  std::vector<int> lost;
  shrink(world_, [&] {
    lost = lost_of(world_, name, before, names_);
    const Options& o = team_->options;
    if (o.has_servers() && names_.back() != before.back())
      throw Failure(
          fmt::format("rank {}, the parameter server, was lost, and with it what only "
                      "it had of the optimizer's state",
                      before.back()));
    catch_up(!lost.empty() && lost.front() == before.front(), progress);
    remake();
  });
  return lost;
}

// All know of the same steps: those that one of them has made. What comes after the last one is
// done again unless all have done it, and if the rank is lost that shows it.
void Workers::catch_up(bool lost_first, Progress& progress) {
  const Common common =
      common_to(world_, progress.done, progress.last.figures.overflow, lost_first, &progress);
  if (progress.done < common.done) {
    Progress now = common.of.value_or(progress);
    now.last.figures.overflow = common.overflow;
    now.last.figures = team_->strategy->catch_up(now.last.figures);
    if (!common.of) {
      now.from = progress.done;
      now.done = now.last.step = common.done;
    }
    progress = now;
  }
  // Servers do not know how far that is: what workers tell them is told again.
  const bool again = common.lost_first || team_->options.has_servers();
  progress.settled = progress.done > progress.begin && again ? progress.from : common.settled;
  progress.saved = common.saved;
}

void Workers::remake() {
  std::unique_ptr<Team> next = team_of(team_->options);
  carry(*team_->strategy, *next->strategy);
  next->strategy->resumed();
  team_ = std::move(next);
}

void serve_run(const Options& options, const Data& data, Replica& replica, communicator world,
               communicator servers, const std::vector<std::string>& arguments) {
  ServerRank server(replica, arguments);
  std::vector<int> names(size_t(world.size()));
  std::iota(names.begin(), names.end(), 0);
  const int name = names.back();
  for (Options now = options;;) {
    try {
      server.serve({now, data, replica.layout(), world, world.rank(), world.size(),
                    identity_of(now), settings_of(now)},
                   servers);
      return;
    } catch (const error& failed) {
      if (!now.elastic || !is_loss(failed)) throw;
    } catch (const Lost&) {
      if (!now.elastic) throw;
    }
    shrink(world, [&] {
      const std::vector<int> before = names;
      lost_of(world, name, before, names);
      if (world.size() == options.servers) throw Failure("no worker is left");
      common_to(world, server.updates(), server.left_out(), false, nullptr);
      now = of_size(options, world);
      servers = world.split(1, world.rank());
    });
  }
}

// ---------------------------------------------------------------- letting in

int Workers::newcomers() {
  const Options& o = team_->options;
  if (o.meet.empty() || world_.rank() != 0) return 0;
  if (!place_) place_.emplace(o.meet, meeting_identity(o, parts_.data));
  guests_ = place_->newcomers(int(o.shards) - o.dp);
  return int(guests_.size());
}

std::vector<int> Workers::let_in(int newcomers, Progress& progress) {
  tutti_unique_id id{};  // stays invalid where none can be made: then all are refused
  if (world_.rank() == 0 && tutti_unique_id_create(nullptr, &id) == TUTTI_OK)
    for (int i = 0; i < newcomers; ++i)
      place_->let_in(guests_[size_t(i)], {id, world_.size() + i, world_.size() + newcomers});
  communicator whole;
  try {
    whole = world_.grow(id, newcomers);
  } catch (const error&) {
    // The others may have it: all decide.
  }
  bool all = false;
  const uint64_t made = world_.agree(whole ? 1 : 0, &all);
  if (!all) throw error(TUTTI_PEER_FAILED, -1, 0, "a worker died when others were let in");
  if (made != 1) return {};
  std::vector<int> came(static_cast<size_t>(newcomers));
  std::iota(came.begin(), came.end(), *std::max_element(names_.begin(), names_.end()) + 1);
  names_.insert(names_.end(), came.begin(), came.end());
  world_ = std::move(whole);
  remake();
  hand_over(false, progress);
  return came;
}

// Rank 0 gives those that come what all others have.
void Workers::hand_over(bool comes, Progress& progress) {
  const communicator between = world_.split(comes || world_.rank() == 0 ? 0 : -1, world_.rank());
  if (!between) return;
  broadcast(between, progress, 0);
  between.broadcast<int>(std::span(names_), 0);
  Strategy& strategy = *team_->strategy;
  if (LossScale* const scale = strategy.loss_scale()) broadcast(between, *scale, 0);
  for (const StateVector& vector : strategy.state())
    for (const std::span<std::byte> part : vector.values)
      between.broadcast<uint8_t>(std::span(reinterpret_cast<uint8_t*>(part.data()), part.size()),
                                 0);
}

}  // namespace tutti::train
