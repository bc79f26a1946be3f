// Any text as TUTTI_FAULT: what is read prints to a text that means the same, a refusal is one
// sentence that shows the text, and changes nothing.
#include "lib/base/fault.h"

#include <csignal>
#include <cstddef>
#include <cstdlib>

using namespace tutti;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  Fault fault, again;
  const Status parsed = parse_fault(text, &fault);
  if (!parsed.ok()) {
    if (fault.call != Fault().call || fault.signal != 0) abort();
    if (parsed.code() != TUTTI_INVALID || parsed.text().find(text) == std::string::npos) abort();
    return 0;
  }
  if (fault.call == 0 || (fault.signal != SIGKILL && fault.signal != SIGSTOP)) abort();
  const std::string action = fault.signal == SIGKILL ? "kill" : "stop";
  const std::string printed = action + " at call " + std::to_string(fault.call);
  if (!parse_fault(printed, &again).ok()) abort();
  if (again.call != fault.call || again.signal != fault.signal) abort();
  // Beside leading zeros there is one text of each fault.
  const size_t digits = text.find_last_not_of("0123456789") + 1;
  if (text.substr(0, digits) + std::to_string(fault.call) != printed) abort();
  return 0;
}
