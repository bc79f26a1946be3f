// Who writes a record holds a lock on it (fcntl), which ends with its process and which children do
// not have: so others on this host see whether it lives. A process that has the lock must open the
// file no second time: closing that would give the lock away.
#pragma once

#include <sys/types.h>

#include "lib/base/fd.h"
#include "lib/base/status.h"

namespace tutti::record {

Status lock_as_writer(const Fd& file);

struct Writer {
  enum class Is { unknown, gone, there } is = Is::unknown;
  pid_t process = 0;  // where it is there; not above 0: in a namespace that this process cannot see
};
Writer writer_of(const Fd& file);

}  // namespace tutti::record
