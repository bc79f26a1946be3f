// What the library has to say: to the user's callback, and to the file that the user names. It
// writes nowhere else.
#pragma once

#include <string>

#include "lib/base/status.h"
#include "tutti/tutti.h"

namespace tutti {

void set_log(tutti_log_fn log, void* context);
// Messages are appended to the file, too, a line each. INVALID if it cannot be opened.
Status log_to(const std::string& path);
// Whether anybody listens: else a message need not be built.
bool logging();
void log(tutti_log_level level, const std::string& text);

}  // namespace tutti
