// System calls that the kernel refuses to this process, by a seccomp filter.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <vector>

namespace tutti::testing {

struct Refusal {
  long call;         // SYS_...
  int error;         // errno of whoever makes it
  int argument{};    // where only calls are meant whose argument of this number ...
  int64_t is = any;  // ... has this value
  static constexpr int64_t any = -1;
};

// From here on, and in all threads that the caller starts; there is no way back.
inline bool refuse(const Refusal& refusal) {
  const auto word = [](uint16_t code, uint32_t operand, uint8_t if_true = 0, uint8_t if_false = 0) {
    return sock_filter{code, if_true, if_false, operand};
  };
  constexpr uint16_t load = BPF_LD | BPF_W | BPF_ABS, equal = BPF_JMP | BPF_JEQ | BPF_K,
                     give = BPF_RET | BPF_K;
  // The lower half of an argument lies first on little-endian machines, the only ones there are.
  const uint32_t argument_at =
      uint32_t(offsetof(seccomp_data, args)) + 8 * uint32_t(refusal.argument);
  std::vector<sock_filter> program = {word(load, offsetof(seccomp_data, nr))};
  if (refusal.is == Refusal::any) {
    program.push_back(word(equal, uint32_t(refusal.call), 0, 1));
  } else {
    program.push_back(word(equal, uint32_t(refusal.call), 0, 3));
    program.push_back(word(load, argument_at));
    program.push_back(word(equal, uint32_t(refusal.is), 0, 1));
  }
  program.push_back(word(give, SECCOMP_RET_ERRNO | uint32_t(refusal.error)));
  program.push_back(word(give, SECCOMP_RET_ALLOW));
  const sock_fprog filter{uint16_t(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

// Whether filters work here.
inline bool can_refuse() {
  const pid_t child = fork();
  if (child == 0) {
    const bool refused =
        refuse({SYS_getppid, EXDEV}) && syscall(SYS_getppid) == -1 && errno == EXDEV;
    _exit(refused ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0;
}

}  // namespace tutti::testing
