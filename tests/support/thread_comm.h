// Communicators whose ranks are threads of the test, made through the C API.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/thread_exchange.h"
#include "tutti/tutti.h"

namespace tutti::testing {

// Runs body(rank, comm) on `nranks` threads over `transports` and frees the communicators.
inline void on_comm(int nranks, const char* transports,
                    const std::function<void(int, tutti_comm)>& body,
                    tutti_level level = TUTTI_LEVEL_DEFAULT) {
  tutti_unique_id id{};
  ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK) << tutti_last_error();
  on_threads(nranks, [&](int rank) {
    tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
    config.transports = transports;
    config.timeout_ms = 20'000;
    config.setup_ms = 20'000;
    config.level = level;
    tutti_comm comm = nullptr;
    ASSERT_EQ(tutti_comm_create_from_id(&id, rank, nranks, &config, &comm), TUTTI_OK)
        << tutti_last_error();
    body(rank, comm);
    ASSERT_EQ(tutti_comm_free(comm), TUTTI_OK);
  });
}

// Names of the library's algorithms for `collective`, "auto" first.
inline std::vector<std::string> algorithms_of(const std::string& collective) {
  std::vector<std::string> names = {"auto"};
  tutti_algorithm_info info{};
  info.size = sizeof(info);
  for (size_t i = 0; tutti_algorithm_get(i, &info) == TUTTI_OK; ++i) {
    if (info.collective == collective) names.emplace_back(info.name);
  }
  return names;
}

// The sentence of the communicator's last failure.
inline std::string sentence(tutti_comm comm) {
  tutti_error error{};
  tutti_comm_last_error(comm, &error);
  return error.text != nullptr ? error.text : "";
}

inline tutti_comm_counters counters(tutti_comm comm) {
  tutti_comm_counters value{};
  value.size = sizeof(value);
  EXPECT_EQ(tutti_comm_get_counters(comm, &value), TUTTI_OK);
  return value;
}

}  // namespace tutti::testing
