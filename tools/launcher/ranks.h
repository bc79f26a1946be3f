// The processes of a job on this host.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lib/base/fd.h"
#include "lib/control/bootstrap.h"
#include "tools/launcher/launcher.h"
#include "tools/launcher/prefix.h"

namespace tutti {

// One rank: the leader of its own session and process group, killed by the kernel when its parent
// dies. It stays unreaped until the job is over, so that its group's id cannot be reused.
struct RankProcess {
  pid_t pid = -1;
  Fd exited;  // pidfd, readable once it has ended
  bool running = true;
};

// How a process ended, as waitid() says it.
struct Ending {
  bool by_signal = false;
  int value = 0;  // exit status, or the signal
  bool failed() const { return by_signal || value != 0; }
  // So may a rank end that is told of another's death: by a status, or by an error nobody caught.
  bool may_follow() const { return !by_signal || value == SIGABRT; }
  int exit_status() const { return by_signal ? 128 + value : value; }
};

class Ranks {
 public:
  // The output of ranks goes to `terminal`, which outlives this; their flight records to the
  // folder, unless it is empty.
  Ranks(Outputs& terminal, std::string record_folder)
      : terminal_(terminal), record_folder_(std::move(record_folder)) {}
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks();  // kills the remaining ranks

  // Starts them all, or none.
  Status start(const LocalJob& job, Binding& binding);

  std::vector<RankProcess>& processes() { return processes_; }
  std::vector<Prefixer>& outputs() { return outputs_; }
  bool any_running() const;

  // How the rank ended, if it has just ended.
  std::optional<Ending> ended(size_t rank);
  // Sends a signal to every group in which a rank still runs.
  void signal(int number);
  // Kills processes that the ranks left running, and reaps all. What they have printed is still in
  // the pipes.
  void finish();

 private:
  Status start_one(const LocalJob& job, Binding& binding, int rank, int job_fd,
                   Rendezvous& rendezvous);

  Outputs& terminal_;
  std::string record_folder_;
  std::vector<RankProcess> processes_;
  std::vector<Prefixer> outputs_;
};

}  // namespace tutti
