// Ranks whose GPUs cannot reach each other, as threads and as processes, on the fake driver.
#pragma once

#include <map>
#include <sstream>

#include "tests/gpu/stream_case.h"

namespace tutti::testing {

using ApartBody = std::function<void(int, tutti_comm)>;

inline const std::map<std::string, std::string> apart = {{"FAKE_CUDA_DEVICES", "4"},
                                                         {"FAKE_CUDA_PEER", "0"}};

// One that is made of `id`, on a GPU of the rank's own.
inline tutti_comm join(const tutti_unique_id& id, int rank, int nranks, const char* transports) {
  this_gpu = rank;
  const std::string device = "cuda:" + std::to_string(rank);
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  config.timeout_ms = config.setup_ms = 20'000;
  config.transports = transports;
  config.device = device.c_str();
  tutti_comm comm = nullptr;
  EXPECT_EQ(tutti_comm_create_from_id(&id, rank, nranks, &config, &comm), TUTTI_OK)
      << tutti_last_error();
  return comm;
}

inline void on_threads_apart(int nranks, const char* transports, const ApartBody& body) {
  in_child(apart, [&] {
    tutti_unique_id id{};
    ASSERT_EQ(tutti_unique_id_create(nullptr, &id), TUTTI_OK) << tutti_last_error();
    on_threads(nranks, [&](int rank) {
      const tutti_comm comm = join(id, rank, nranks, transports);
      ASSERT_NE(comm, nullptr);
      body(rank, comm);
      ASSERT_EQ(tutti_comm_free(comm), TUTTI_OK) << tutti_last_error();
    });
  });
}

// Processes find each other by a communicator without a GPU.
inline std::vector<Child> start_apart(int nranks, const char* transports,
                                      const std::function<Report(int, tutti_comm)>& body) {
  return start(nranks, "shm", [=](int rank, tutti_comm host) {
    alarm(child_seconds());
    for (const auto& [name, value] : apart) setenv(name.c_str(), value.c_str(), 1);
    tutti_unique_id id{};
    Report report;
    report.status = rank == 0 ? tutti_unique_id_create(nullptr, &id) : TUTTI_OK;
    if (report.status != TUTTI_OK) return report;
    report.status = tutti_broadcast(&id, sizeof(id), TUTTI_UINT8, 0, host);
    if (report.status != TUTTI_OK) return report;
    const tutti_comm comm = join(id, rank, nranks, transports);
    if (comm == nullptr) {
      report.status = TUTTI_INTERNAL;
      snprintf(report.text, sizeof(report.text), "%s", tutti_last_error());
      return report;
    }
    report = body(rank, comm);
    tutti_comm_free(comm);
    return report;
  });
}

inline std::vector<StreamCase> cases_of(const std::vector<Collective>& collectives, int nranks,
                                        const std::vector<size_t>& counts, tutti_dtype dtype) {
  std::vector<StreamCase> cases;
  for (const Collective collective : collectives) {
    for (const size_t count : counts) {
      for (const bool in_place : {false, true}) {
        StreamCase c{.collective = collective, .nranks = nranks, .count = count, .dtype = dtype};
        c.root = nranks - 1;
        c.in_place = in_place;
        c.level = TUTTI_LEVEL_CANONICAL;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

inline std::vector<StreamCase> every_collective(int nranks, const std::vector<size_t>& counts,
                                                tutti_dtype dtype) {
  return cases_of(
      {Collective::allreduce, Collective::reduce, Collective::broadcast, Collective::allgather,
       Collective::gather, Collective::scatter, Collective::reduce_scatter, Collective::alltoall,
       Collective::scan, Collective::exscan},
      nranks, counts, dtype);
}

inline std::string run_all(const std::vector<StreamCase>& cases, int rank, tutti_comm comm) {
  GpuStream stream;
  for (const StreamCase& one : cases) {
    const std::string wrong = run_stream_case(one, rank, comm, stream);
    if (wrong.empty()) continue;
    std::ostringstream text;
    text << one << ": " << wrong;
    return text.str();
  }
  return {};
}

}  // namespace tutti::testing
