#include "lib/base/process_state.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tutti {
namespace {

TEST(ProcessState, SaysWhoIsStoppedWhateverItsName) {
  for (const char* const name : {"plain", "a) T (b", ") T 1"}) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_NAME, name);
      raise(SIGSTOP);
      for (;;) pause();
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
    EXPECT_TRUE(process::is_stopped(child)) << name;
    kill(child, SIGCONT);
    ASSERT_EQ(waitpid(child, &status, WCONTINUED), child);
    EXPECT_FALSE(process::is_stopped(child)) << name;
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_FALSE(process::is_stopped(child)) << "it is gone";
  }
}

}  // namespace
}  // namespace tutti
