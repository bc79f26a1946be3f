// The transports that a test runs on, with ucx if this build supports it and the machine has its
// library.
#pragma once

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace tutti::testing {

inline std::vector<const char*> with_ucx(std::vector<const char*> transports) {
#ifdef TUTTI_HAS_UCX
  // Probed in a child: a process that has loaded UCX itself is assumed to want UCX's log messages
  // and signal handlers.
  const pid_t child = fork();
  if (child == 0) _exit(dlopen("libucp.so.0", RTLD_NOW) != nullptr ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  if (status == 0) transports.push_back("ucx");
#endif
  return transports;
}

}  // namespace tutti::testing
