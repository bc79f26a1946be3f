#include "lib/base/process_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "lib/base/fd.h"

namespace tutti::process {

bool is_stopped(pid_t process) {
  const Fd file(open(("/proc/" + std::to_string(process) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  char text[128];  // the number, the program's name in brackets, the state; more follows
  const ssize_t bytes = file ? read(file.get(), text, sizeof(text)) : 0;
  if (bytes <= 0) return false;
  const std::string_view line(text, size_t(bytes));
  const size_t name_end = line.rfind(')');  // the name may have brackets, what follows has none
  if (name_end == line.npos || name_end + 2 >= line.size()) return false;
  const char state = line[name_end + 2];
  return state == 'T' || state == 't';
}

}  // namespace tutti::process
