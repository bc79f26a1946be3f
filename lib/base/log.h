// The user's log callback. The library writes nowhere else.
#pragma once

#include <string>

#include "tutti/tutti.h"

namespace tutti {

void set_log(tutti_log_fn log, void* context);
// Whether anybody listens; building a message for nobody is waste.
bool logging();
void log(tutti_log_level level, const std::string& text);

}  // namespace tutti
