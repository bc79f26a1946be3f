// Queries of the library's list of transports.
#pragma once

#include <string>

namespace tutti::bench {

std::string default_transport();                        // the best that joins processes
std::string thread_transport();                         // the best for threads of one process
bool joins_threads_only(const std::string& transport);  // its ranks are threads of one process
bool over_raw_sockets(const std::string& transport);    // its limit is that of bare sockets

}  // namespace tutti::bench
