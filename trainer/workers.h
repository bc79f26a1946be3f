// The workers of a run as they are now. With --elastic those that are left go on when some die, and
// others can be let in.
//
// A step is whole when one worker has ended the call that decides it, the last of the step
// (sync/allreduce.cc). Then every worker has begun that call, and so has all sums of the step:
// where the call failed, the update can be made all the same. If nobody that is left has ended it,
// no parameter has changed, and the step is made again. So workers never differ by more than the
// step that is being decided, and nothing has to be kept of the steps before.
// Where there is a server, a step is whole when that has made its update, and parameters come from
// there.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trainer/checkpoint/checkpoint.h"
#include "trainer/meeting.h"
#include "trainer/pipeline/pipeline.h"
#include "trainer/report/screen.h"
#include "trainer/sync/strategy.h"
#include "trainer/sync/ways.h"

namespace tutti::train {

// What a rank has from its first step to its last. All of it outlives the run.
struct RankParts {
  const Data& data;
  Replica& replica;
  const Group& group;  // that divides its layers; it counts its calls
  Timeline& timeline;
  Pipeline* pipeline = nullptr;
};

// What it makes with the workers that there are at the time.
struct Team {
  // Collective over the workers, and the servers where there are some. `with`: what --dp is now.
  // `all`: the workers, then the servers.
  Team(const RankParts& parts, const Options& with, const communicator& all,
       std::unique_ptr<Grid> workers)
      : options(with),
        world(all),
        grid(std::move(workers)),
        worker{options,    parts.data,     parts.replica, *grid,
               grid->data, parts.timeline, parts.pipeline},
        strategy(sync_way(options).make(worker, world)),
        keepers{options,
                parts.data,
                parts.replica.layout(),
                options.has_servers() ? world : grid->all,
                alike().rank(),
                alike().size(),
                identity_of(options),
                settings_of(options)},
        group(parts.group) {}
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // The ranks with the same part of the model. Where there are servers they hold the state.
  const communicator& alike() const { return options.has_servers() ? world : grid->data; }

  Options options;
  const communicator& world;
  std::unique_ptr<Grid> grid;
  Worker worker;
  std::unique_ptr<Strategy> strategy;
  CheckpointGroup keepers;  // the ranks that make a checkpoint
  const Group& group;       // that divides layers
};

// Where a worker is in its run.
struct Progress {
  int64_t begin = 0;    // the step that the run began with
  int64_t from = 0;     // the step that was made last
  int64_t done = 0;     // the step to make next: all before it are made
  int64_t settled = 0;  // the same of what comes after a step: checkpoints, figures
  int64_t saved = 0;    // the step of the last checkpoint
  StepRecord last;      // of the step that was made last
};

// What a process that joins must have in common with the run: all but the number of workers.
nlohmann::json meeting_identity(const Options& options, const Data& data);

class Workers {
 public:
  // Collective. `world`: the workers, then the servers; `grid`: of the workers.
  Workers(const RankParts& parts, const Options& options, communicator world,
          std::unique_ptr<Grid> grid);
  Team& team() { return *team_; }
  const communicator& world() const { return world_; }

  // After an error by which a rank is lost: collective over those that are left, whose workers know
  // afterwards of the same steps. Returns the numbers that were lost. Throws the library's error on
  // a worker that was left out, Failure where a server was lost.
  std::vector<int> lose(Progress& progress);

  // Rank 0, with --meet: how many processes ask to be let in, and can be.
  int newcomers();
  // Collective: lets in so many. Returns the numbers that they get; none if they have not come.
  std::vector<int> let_in(int newcomers, Progress& progress);
  // The other side: the workers of the run that this process has come to.
  Workers(const RankParts& parts, const Options& options, communicator world, Progress& progress);

 private:
  // Collective: of those that are in the world now.
  std::unique_ptr<Team> team_of(const Options& options) const;
  void remake();
  void catch_up(bool lost_first, Progress& progress);
  void hand_over(bool comes, Progress& progress);

  RankParts parts_;
  communicator world_;
  std::unique_ptr<Team> team_;
  std::vector<int> names_;  // by rank: the number that it had first
  std::optional<MeetingPlace> place_;
  std::vector<std::string> guests_;
};

// A server's life. With --elastic it goes on with the workers that are left.
void serve_run(const Options& options, const Data& data, Replica& replica, communicator world,
               communicator servers, const std::vector<std::string>& arguments);

// The steps that are left (step_loop.cc): each is made; then all decide whether it was the last
// one, and it is kept and shown as is due. `progress`: where the run begins, or has come to when
// this process joined it. Returns the exit status.
int run_steps(Workers& workers, Screen& screen, const Progress& progress);

}  // namespace tutti::train
