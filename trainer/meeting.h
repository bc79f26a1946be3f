// A folder in which processes ask a run with --elastic to be let in (--meet, --join). run.json says
// what the run computes; its rank 0 holds a lock on it as long as the run goes on. A process that
// asks makes newcomer-PID and holds a lock on that; it gets ticket-PID. The kernel drops locks with
// their processes. Tickets hold a key: files are the user's alone.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tutti/tutti.hpp"

namespace tutti::train {

// A file that this process has made or opened, with a lock on it until it ends. Removed by the
// destructor, not if the process is killed.
class LockedFile {
 public:
  // Throws BadInput if it cannot be made, or if another process has held the lock for a second.
  LockedFile(const std::string& path, const std::string& text);
  ~LockedFile();
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

 private:
  std::string path_;
  int fd_;
};

// Throws BadInput unless the folder can be one and no run goes on there.
void check_meeting_place(const std::string& folder);

// What a process that is let in becomes: a rank of the communicator that is made from the id.
struct Ticket {
  tutti_unique_id id{};
  int rank = 0;
  int nranks = 0;
};

// The side of the run's rank 0.
class MeetingPlace {
 public:
  // `run`: what newcomers must be equal in. Throws BadInput.
  MeetingPlace(std::string folder, const nlohmann::json& run);
  // The processes that ask to be let in and live, at most so many.
  std::vector<std::string> newcomers(int most) const;
  void let_in(const std::string& newcomer, const Ticket& ticket) const;

 private:
  std::string folder_;
  LockedFile run_;
};

// The side of a process that asks. Waits until it is let in. Throws BadInput if there is no run, or
// another one; Failure if it ends meanwhile.
Ticket ask_to_join(const std::string& folder, const nlohmann::json& run);

}  // namespace tutti::train
