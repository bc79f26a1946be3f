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

#include "trainer/meeting.h"
#include "trainer/report/screen.h"
#include "trainer/team.h"

namespace tutti::train {

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
  // afterwards of the same steps. Throws the library's error on a worker that was left out, Failure
  // where a server was lost.
  Change lose(Progress& progress);

  // Rank 0, with --meet: how many processes ask to be let in, and can be.
  int newcomers();
  // Collective: lets in so many. Null if they have not come.
  std::optional<Change> let_in(int newcomers, Progress& progress);
  // The other side: the workers of the run that this process has come to.
  Workers(const RankParts& parts, const Options& options, communicator world, Progress& progress);

 private:
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

}  // namespace tutti::train
