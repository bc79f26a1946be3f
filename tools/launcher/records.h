// The folder with the flight records of a job.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>

namespace tutti {

class Records {
 public:
  // That of TUTTI_RECORD_DIR, which stays; else a private one in memory, or no folder if that
  // cannot be.
  static Records make();

  const std::string& folder() const { return folder_; }  // empty: none
  // To be called when the first rank fails: notes which processes are stopped, which nobody can see
  // any more once they have been ended.
  void note_stopped();
  // What is wrong with the job, in one sentence; empty where nothing is to be seen. `process`: the
  // rank that has failed, and how; 0: none has.
  std::string diagnose(pid_t process, const std::string& ending) const;
  // Removes a private folder with all in it; once is enough.
  void remove() const;

 private:
  std::string folder_;
  bool is_private_ = false;
  std::set<int64_t> stopped_;  // processes
};

}  // namespace tutti
