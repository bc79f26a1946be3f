// A driver of GPUs lives as long as its process and does not survive a fork: each test has a
// process of its own.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/sanitized.h"

namespace tutti::testing {

// Then it has hung.
inline unsigned child_seconds() {
  const char* seconds = getenv("TUTTI_TEST_SECONDS");
  return seconds ? unsigned(atoi(seconds)) : sanitized ? 300 : 60;
}

// Runs `body` in a child with these environment variables; its failures are the test's. What they
// ask of the fake driver no other one can do.
inline void in_child(const std::map<std::string, std::string>& environment,
                     const std::function<void()>& body) {
  for (const auto& [name, value] : environment) {
    if (name.starts_with("FAKE_CUDA") && !driver_is_fake())
      GTEST_SKIP() << "only the fake driver can be told " << name << "=" << value;
  }
  fflush(nullptr);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    alarm(child_seconds());
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    body();
    fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  if (WIFEXITED(status)) {
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

inline void in_child(const std::function<void()>& body) { in_child({}, body); }

}  // namespace tutti::testing
