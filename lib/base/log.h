// The user's log callback. The library writes nowhere else.
#pragma once

#include <string>

#include "tutti/tutti.h"

namespace tutti {

void set_log(tutti_log_fn log, void* context);
// Whether there is a callback: else a message need not be built.
bool logging();
void log(tutti_log_level level, const std::string& text);

}  // namespace tutti
