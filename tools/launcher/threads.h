// The threads of a process and of all its descendants, and what they had of the processors.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

namespace tutti {

struct Turns {
  uint64_t run_ns = 0;   // ran
  uint64_t wait_ns = 0;  // could have run, but had no processor
};

// By thread. What has ended is left out, and so are processes of other users and children whose
// parent has ended.
std::vector<pid_t> threads_of(pid_t process);
// The children of this process.
std::vector<pid_t> own_children();
std::map<pid_t, Turns> turns_of(pid_t process);

}  // namespace tutti
