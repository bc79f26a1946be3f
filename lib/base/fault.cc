#include "lib/base/fault.h"

#include <csignal>

#include <charconv>
#include <string_view>

namespace tutti {

Status parse_fault(const std::string& text, Fault* out) {
  constexpr std::string_view where = " at call ";
  const size_t at = text.find(where);
  const std::string action = text.substr(0, at);
  const int signal = action == "kill" ? SIGKILL : action == "stop" ? SIGSTOP : 0;
  uint64_t call = 0;
  if (at != text.npos && signal != 0) {
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + at + where.size(), end, call);
    if (read.ec != std::errc() || read.ptr != end) call = 0;
  }
  if (call == 0)
    return {TUTTI_INVALID, "the fault is '" + text +
                               "', but must be 'kill at call N' or 'stop at call N', N from 1 on"};
  *out = {call, signal};
  return {};
}

void strike(const Fault& fault) { raise(fault.signal); }

}  // namespace tutti
