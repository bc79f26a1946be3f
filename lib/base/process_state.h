// What other processes of this host are doing.
#pragma once

#include <sys/types.h>

namespace tutti::process {

// Whether a signal or a debugger has stopped it; false also where that is not to be found out.
bool is_stopped(pid_t process);

}  // namespace tutti::process
