// The part of the C API that makes, queries and frees communicators.
#include <fcntl.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "lib/api/checks.h"
#include "lib/api/from_id.h"
#include "lib/api/guard.h"
#include "lib/api/sized.h"
#include "lib/base/fault.h"
#include "lib/base/log.h"
#include "lib/base/process.h"
#include "lib/base/types.h"
#include "lib/config/config.h"
#include "lib/config/find_tuning.h"
#include "lib/config/launch.h"
#include "lib/control/bootstrap.h"
#include "lib/control/callback_exchange.h"
#include "lib/record/own_folder.h"
#include "transports/registry.h"

namespace tutti::api {

tutti_status refuse_child() {
  return keep({TUTTI_INVALID,
               "a child made by fork() cannot use the communicators and requests of its parent"});
}

std::string& thread_error() {
  thread_local std::string text;
  return text;
}

namespace {

Status split_transports(std::string_view text, std::vector<std::string>* out) {
  out->clear();
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string word(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    std::string known;
    for (const std::string& name : transport_names()) known += (known.empty() ? "" : ", ") + name;
    if (find_transport(word) == nullptr) {
      return {TUTTI_INVALID, "there is no transport \"" + word + "\"; there are: " + known};
    }
    out->push_back(word);
  }
  if (out->empty()) return {TUTTI_INVALID, "the list of transports is empty"};
  return {};
}

Status read_use(Variable variable, Use* out) {
  std::optional<std::string> word;
  TUTTI_TRY(config_text(variable, &word));
  if (word) use_from_name(*word, out);
  return {};
}

Status read_device(const std::string& text, int* out) {
  constexpr std::string_view prefix = "cuda:";
  if (text == "none") {
    *out = CommSettings::no_device;
  } else if (text == "cuda") {
    *out = CommSettings::current_device;
  } else {
    const char* const end = text.data() + text.size();
    const bool named = text.starts_with(prefix);
    const auto read = std::from_chars(text.data() + (named ? prefix.size() : 0), end, *out);
    if (!named || read.ec != std::errc() || read.ptr != end || *out < 0) {
      return {TUTTI_INVALID, "the device is '" + text + "', but must be cuda:0 ..., cuda or none"};
    }
  }
  return {};
}

// The caller's settings, then the environment's, then the defaults.
Status read_settings(const tutti_comm_config* given, CommSettings* out) {
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  if (given != nullptr) TUTTI_TRY(read_sized(given, "the communicator config", &config));
  std::optional<std::string> log_file;
  TUTTI_TRY(config_text(Variable::tutti_log, &log_file));
  if (log_file) TUTTI_TRY(log_to(*log_file));
  std::optional<std::string> record_folder;
  TUTTI_TRY(config_text(Variable::tutti_record_dir, &record_folder));
  out->record_folder = record_folder ? *record_folder : record::own_folder();
  if (record_folder == "none") out->record_folder.clear();
  std::optional<std::string> fault;
  TUTTI_TRY(config_text(Variable::tutti_fault, &fault));
  if (fault) TUTTI_TRY(parse_fault(*fault, &out->fault));
  std::vector<std::string> listed;
  TUTTI_TRY(config_list(Variable::tutti_transports, &listed));
  if (!listed.empty()) out->transports = listed;
  out->transports_named = !listed.empty();
  std::optional<std::string> interface;
  TUTTI_TRY(config_text(Variable::tutti_interface, &interface));
  if (interface) out->interface = *interface;
  std::optional<int64_t> timeout_ms;
  TUTTI_TRY(config_integer(Variable::tutti_timeout_ms, &timeout_ms));
  if (timeout_ms) out->timeout_ms = *timeout_ms;
  std::optional<int64_t> heartbeat_ms;
  TUTTI_TRY(config_integer(Variable::tutti_heartbeat_ms, &heartbeat_ms));
  if (heartbeat_ms) out->heartbeat_ms = *heartbeat_ms;
  std::optional<std::string> integrity;
  TUTTI_TRY(config_text(Variable::tutti_integrity, &integrity));
  if (integrity) out->integrity = integrity_from_name(*integrity).value_or(Integrity::automatic);
  std::vector<std::string> checks;
  TUTTI_TRY(config_list(Variable::tutti_check, &checks));
  out->check_results = !checks.empty();  // there is only one kind of check
  std::optional<std::string> adopt;
  TUTTI_TRY(config_text(Variable::tutti_adopt, &adopt));
  out->adopts = adopt == "auto";
  std::optional<int64_t> progress_thread;
  TUTTI_TRY(config_integer(Variable::tutti_progress_thread, &progress_thread));
  if (progress_thread) out->progress_thread = *progress_thread != 0;
  TUTTI_TRY(config.tuning != nullptr ? read_named_tuning(config.tuning, &out->tuning)
                                     : find_tuning(&out->tuning));
  out->single_copy = out->tuning.values().single_copy;
  out->non_temporal = out->tuning.values().past_caches;
  TUTTI_TRY(read_use(Variable::tutti_single_copy, &out->single_copy));
  TUTTI_TRY(read_use(Variable::tutti_past_caches, &out->non_temporal));
  std::optional<std::string> level;
  TUTTI_TRY(config_text(Variable::tutti_level, &level));
  if (level) TUTTI_TRY(level_from_name(*level, &out->level));
  std::optional<std::string> device;
  TUTTI_TRY(config_text(Variable::tutti_device, &device));
  if (device) TUTTI_TRY(read_device(*device, &out->device));
  std::optional<std::string> device_path;
  TUTTI_TRY(config_text(Variable::tutti_device_path, &device_path));
  out->devices_through_host = device_path == "host";
  TUTTI_TRY(read_use(Variable::tutti_ucx_device, &out->ucx_device));
  if (given == nullptr) return {};
  if (config.timeout_ms < 0 || config.setup_ms < 0) {
    return {TUTTI_INVALID, "a time limit of the communicator config is negative"};
  }
  TUTTI_TRY(check_level(config.level));
  if (config.level != TUTTI_LEVEL_DEFAULT) out->level = config.level;
  if (config.timeout_ms > 0) out->timeout_ms = config.timeout_ms;
  if (config.setup_ms > 0) out->setup_ms = config.setup_ms;
  if (config.progress_thread != 0) out->progress_thread = true;
  out->beside = {config.progress, config.progress_context};
  if (config.interface_ != nullptr) out->interface = config.interface_;
  if (config.device != nullptr) TUTTI_TRY(read_device(config.device, &out->device));
  if (config.transports != nullptr) {
    TUTTI_TRY(split_transports(config.transports, &out->transports));
    out->transports_named = true;
  }
  return {};
}

Status check_place(int rank, int nranks, const void* out) {
  if (out == nullptr) return {TUTTI_INVALID, "there is nowhere to put the communicator"};
  if (nranks < 1) {
    return {TUTTI_INVALID, "a communicator of " + std::to_string(nranks) + " ranks cannot be"};
  }
  if (rank < 0 || rank >= nranks) {
    return {TUTTI_INVALID, rank_name(rank) + " is not between 0 and " + std::to_string(nranks - 1)};
  }
  return {};
}

// The job's listening socket stays open, for the next communicator that is made so, but in
// children.
Status job_listener(int fd, Fd* out) {
  *out = Fd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!*out) return system_error("cannot copy the job's listening socket", errno);
  process::keep_from_children(*out);
  static const auto* const kept = new Fd(fd);  // until the process ends
  process::keep_from_children(*kept);
  return {};
}

Status from_env(const CommSettings& settings, tutti_comm* out) {
  Launch launch;
  TUTTI_TRY(read_launch(&launch));
  switch (launch.by) {
    case Launch::By::nobody:
      return make_alone(settings, out);
    case Launch::By::tutti_run: {
      Fd listener;
      if (launch.rank == 0) TUTTI_TRY(job_listener(launch.listen_fd, &listener));
      return from_id(launch.id, std::move(listener), launch.rank, launch.nranks, settings, out);
    }
    case Launch::By::rendezvous: {
      std::unique_ptr<Exchange> exchange;
      TUTTI_TRY(join_rendezvous_at({launch.host, launch.port, settings.interface}, launch.key_file,
                                   launch.rank, launch.nranks, deadline_after_ms(settings.setup_ms),
                                   ns_of_ms(settings.heartbeat_ms), &exchange));
      return make(std::move(exchange), settings, out);
    }
  }
  return {TUTTI_INTERNAL, "unknown launcher"};
}

// Derives a communicator from another one; `make` gives a tutti_status.
template <class Make>
tutti_status make_from(tutti_comm comm, tutti_comm* out, Make&& make) {
  if (out != nullptr) *out = nullptr;
  return calling(comm, [&](Communicator& c) {
    if (out == nullptr) {
      return c.fail({TUTTI_INVALID, "there is nowhere to put the communicator"});
    }
    std::unique_ptr<Communicator> made;
    const tutti_status status = make(c, &made);
    if (status == TUTTI_OK) *out = wrap(made.release());
    return status;
  });
}

Status check_group(const Communicator& c, const int* ranks, size_t n) {
  if (ranks == nullptr) return {TUTTI_INVALID, "the list of ranks is NULL"};
  if (n == 0) return {TUTTI_INVALID, "the list of ranks is empty"};
  std::vector<bool> listed(size_t(c.nranks()));
  for (size_t i = 0; i < n; ++i) {
    const std::string rank = std::to_string(ranks[i]);
    if (ranks[i] < 0 || ranks[i] >= c.nranks()) {
      return {TUTTI_INVALID, "ranks[" + std::to_string(i) + "], " + rank +
                                 ", is not a rank; there are " + std::to_string(c.nranks())};
    }
    if (listed[size_t(ranks[i])]) return {TUTTI_INVALID, "rank " + rank + " is listed twice"};
    listed[size_t(ranks[i])] = true;
  }
  if (!listed[size_t(c.rank())]) {
    return {TUTTI_INVALID, "the caller, rank " + std::to_string(c.rank()) +
                               ", is not in the list; only ranks that are make the call"};
  }
  return {};
}

}  // namespace

}  // namespace tutti::api

using namespace tutti;

extern "C" {

tutti_status tutti_unique_id_create(const char* interface_, tutti_unique_id* out) {
  return api::guarded([&]() -> Status {
    if (out == nullptr) return {TUTTI_INVALID, "there is nowhere to put the id"};
    Rendezvous rendezvous;
    TUTTI_TRY(open_rendezvous(interface_ != nullptr ? interface_ : "", &rendezvous));
    *out = rendezvous.id;
    api::keep_listener(rendezvous.id, std::move(rendezvous.listener));
    return {};
  });
}

tutti_status tutti_comm_create_from_id(const tutti_unique_id* id, int rank, int nranks,
                                       const tutti_comm_config* config, tutti_comm* out) {
  if (out != nullptr) *out = nullptr;
  return api::guarded([&]() -> Status {
    TUTTI_TRY(api::check_place(rank, nranks, out));
    if (id == nullptr) return {TUTTI_INVALID, "the id is NULL"};
    CommSettings settings;
    TUTTI_TRY(api::read_settings(config, &settings));
    Fd listener;
    if (rank == 0 && nranks > 1) TUTTI_TRY(api::take_listener(*id, &listener));
    return api::from_id(*id, std::move(listener), rank, nranks, settings, out);
  });
}

tutti_status tutti_comm_create_from_env(const tutti_comm_config* config, tutti_comm* out) {
  if (out != nullptr) *out = nullptr;
  return api::guarded([&]() -> Status {
    if (out == nullptr) return {TUTTI_INVALID, "there is nowhere to put the communicator"};
    CommSettings settings;
    TUTTI_TRY(api::read_settings(config, &settings));
    return api::from_env(settings, out);
  });
}

tutti_status tutti_comm_create_from_allgather(tutti_allgather_fn allgather, void* context, int rank,
                                              int nranks, const tutti_comm_config* config,
                                              tutti_comm* out) {
  if (out != nullptr) *out = nullptr;
  return api::guarded([&]() -> Status {
    TUTTI_TRY(api::check_place(rank, nranks, out));
    if (allgather == nullptr) return {TUTTI_INVALID, "the all-gather callback is NULL"};
    CommSettings settings;
    TUTTI_TRY(api::read_settings(config, &settings));
    if (nranks == 1) return api::make_alone(settings, out);
    std::unique_ptr<Exchange> exchange;
    TUTTI_TRY(make_callback_exchange(allgather, context, rank, nranks, &exchange));
    return api::make(std::move(exchange), settings, out);
  });
}

tutti_status tutti_comm_split(tutti_comm comm, int color, int key, tutti_comm* out) {
  return api::make_from(comm, out, [&](Communicator& c, std::unique_ptr<Communicator>* made) {
    return c.split(color, key, made);
  });
}

tutti_status tutti_comm_split_host(tutti_comm comm, int key, tutti_comm* out) {
  return api::make_from(comm, out, [&](Communicator& c, std::unique_ptr<Communicator>* made) {
    return c.split_host(key, made);
  });
}

tutti_status tutti_comm_create_group(tutti_comm comm, const int* ranks, size_t n, tutti_comm* out) {
  return api::make_from(comm, out, [&](Communicator& c, std::unique_ptr<Communicator>* made) {
    if (Status checked = api::check_group(c, ranks, n); !checked.ok()) {
      return c.fail(std::move(checked));
    }
    return c.create_group(std::vector<int>(ranks, ranks + n), made);
  });
}

tutti_status tutti_comm_dup(tutti_comm comm, tutti_comm* out) {
  return tutti_comm_split(comm, 0, 0, out);
}

tutti_status tutti_comm_free(tutti_comm comm) {
  return api::guarded([&]() -> Status {
    // A child's copy of its parent's communicator: what it stands for is the parent's alone.
    if (comm == nullptr || !api::unwrap(comm).is_here()) return {};
    if (api::unwrap(comm).in_call()) {
      return {TUTTI_INVALID,
              "a call is in progress; the communicator can be freed when it has ended"};
    }
    if (const std::string calls = api::unwrap(comm).what_is_in_flight(); !calls.empty()) {
      return {TUTTI_INVALID, calls + "; wait for what you began before you free the communicator"};
    }
    delete &api::unwrap(comm);
    return {};
  });
}

tutti_status tutti_comm_abort(tutti_comm comm, const char* reason) {
  if (comm == nullptr) return api::keep({TUTTI_INVALID, "the communicator is NULL"});
  Communicator& c = api::unwrap(comm);
  if (!c.is_here()) return api::refuse_child();
  try {
    c.abort(reason != nullptr ? reason : "");
  } catch (const std::bad_alloc&) {
    c.abort(Status::out_of_memory());
  }
  return TUTTI_OK;
}

tutti_status tutti_comm_rank(tutti_comm comm, int* rank) {
  return api::guarded(comm, [&](Communicator& c) {
    if (rank == nullptr) return c.fail({TUTTI_INVALID, "there is nowhere to put the rank"});
    *rank = c.rank();
    return TUTTI_OK;
  });
}

tutti_status tutti_comm_size(tutti_comm comm, int* nranks) {
  return api::guarded(comm, [&](Communicator& c) {
    if (nranks == nullptr) return c.fail({TUTTI_INVALID, "there is nowhere to put the size"});
    *nranks = c.nranks();
    return TUTTI_OK;
  });
}

tutti_status tutti_comm_transport(tutti_comm comm, const char** name) {
  return api::guarded(comm, [&](Communicator& c) {
    if (name == nullptr) return c.fail({TUTTI_INVALID, "there is nowhere to put the name"});
    *name = c.transport();
    return TUTTI_OK;
  });
}

tutti_status tutti_comm_get_counters(tutti_comm comm, tutti_comm_counters* out) {
  return api::guarded(comm, [&](Communicator& c) {
    if (out == nullptr) return c.fail({TUTTI_INVALID, "there is nowhere to put the counters"});
    if (Status sized = api::check_size(out, "the counters"); !sized.ok()) {
      return c.fail(std::move(sized));
    }
    const Transfers transfers = c.transfers();
    tutti_comm_counters counters{};
    counters.calls = c.calls();
    counters.direct_calls = c.direct_calls();
    counters.messages_sent = transfers.messages_sent;
    counters.bytes_sent = transfers.bytes_sent;
    counters.messages_received = transfers.messages_received;
    counters.bytes_received = transfers.bytes_received;
    api::write_sized(counters, out);
    return TUTTI_OK;
  });
}

tutti_status tutti_comm_last_error(tutti_comm comm, tutti_error* out) {
  return api::guarded(comm, [&](Communicator& c) {
    if (out == nullptr) return TUTTI_INVALID;
    const Status& error = c.last_error();
    *out = {error.code(), error.rank(), error.call(), error.text().c_str()};
    return TUTTI_OK;
  });
}

tutti_status tutti_comm_device_status(tutti_comm comm) {
  return api::guarded(comm, [](Communicator& c) { return c.device_status(); });
}

}  // extern "C"
