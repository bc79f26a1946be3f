#include "lib/adapters/mpi/job.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "lib/adapters/mpi/freed.h"
#include "lib/adapters/mpi/in_use.h"
#include "lib/adapters/mpi/join.h"
#include "lib/adapters/mpi/types.h"
#include "lib/base/clock.h"
#include "lib/config/config.h"

namespace tutti::mpi {

constinit thread_local LastComm last_comm [[gnu::tls_model("initial-exec")]];
constinit std::atomic<uint64_t> freed_comms{0};

namespace {

struct Job {
  std::mutex mutex;  // guards what follows
  std::vector<Comm*> comms;
  Counters ended;  // of communicators that were freed, and of calls without one
  std::string off = "MPI_Init was not called through it";
  bool stats = false, eager = false;
  bool threads = false;      // of this rank may call at once
  bool may_share = false;    // no rank's threads call at once
  bool all_threads = false;  // every rank's may
  std::optional<int64_t> timeout_ms;
};

Job& job() {
  static Job* const instance = new Job;  // outlives every thread
  return *instance;
}

constinit thread_local bool tells_later [[gnu::tls_model("initial-exec")]] = false;

enum class State : uint8_t { before, on, off, ended };
std::atomic<State> state{State::before};
int comm_keyval = MPI_KEYVAL_INVALID;
MPI_Group world_group;
// For the host's progress: nobody sends to others on it. Not of MPI_COMM_SELF, whose probes MPICH
// answers without a look at anything else.
MPI_Comm quiet_comm;
bool quiet_comm_made = false;
bool finishes_by_attribute = false;
// Of tutti's errors: MPICH knows no texts of new codes in classes of its own.
int error_class = MPI_ERR_OTHER;

// A program that computes beside a nonblocking call has its messages moved on when it calls MPI.
void progress_host(void*) {
  if (!rest_from_call()) move_host_on();
}

// Under the job's mutex, once none of its calls is left.
void add_to_ended(Job& j, const Comm& kept) {
  j.ended.add(kept.counters);
  if (kept.later != nullptr) j.ended.add(kept.later->counters);
}

int forget(MPI_Comm, int, void* attribute, void*) {
  freed_comms.fetch_add(1);
  Comm* const kept = static_cast<Comm*>(attribute);
  Job& j = job();
  {
    const std::lock_guard lock(j.mutex);
    if (--kept->users > 0) return MPI_SUCCESS;
    std::erase(j.comms, kept);
    add_to_ended(j, *kept);
  }
  delete kept;
  return MPI_SUCCESS;
}

// The exchange of tutti_comm_create_from_allgather() on the host's communicator, in rounds in which
// every rank says what it does in this round, and along with that what it gives, if that is short.
// A rank that has failed goes on to say so until all have ended: so all make the same calls of the
// host.
class Exchange {
 public:
  explicit Exchange(MPI_Comm comm, int nranks) : comm_(comm), said_(size_t(nranks)) {}

  static int allgather(const void* mine, void* all, size_t bytes, void* context) {
    return static_cast<Exchange*>(context)->round(mine, static_cast<char*>(all), bytes);
  }

  // Whether all ranks have made their communicator. To be called by all, at the end.
  bool all_made(bool made) {
    for (;;) {
      if (!say({made ? ready : failed, {}})) return false;
      bool running = false, all = true;
      for (const Said& one : said_) {
        running = running || one.word > 0;
        all = all && one.word == ready;
      }
      if (!running) return all;
    }
  }

 private:
  static constexpr int64_t ready = 0, failed = -1;
  struct Said {
    int64_t word = 0;  // or how many bytes it gives
    char bytes[512];   // them, if they are no more
  };

  // False: the host's call has failed.
  bool say(const Said& said) {
    const int n = int(sizeof(said));
    return PMPI_Allgather(&said, n, MPI_BYTE, said_.data(), n, MPI_BYTE, comm_) == MPI_SUCCESS;
  }

  int round(const void* mine, char* all, size_t bytes) {
    Said said{int64_t(bytes), {}};
    const bool is_short = bytes <= sizeof(said.bytes);
    if (is_short) std::memcpy(said.bytes, mine, bytes);
    if (!say(said)) return 1;
    for (const Said& one : said_) {
      if (one.word != int64_t(bytes)) return 1;
    }
    if (!is_short) {
      const int n = int(bytes);
      return PMPI_Allgather(mine, n, MPI_BYTE, all, n, MPI_BYTE, comm_) == MPI_SUCCESS ? 0 : 1;
    }
    for (const Said& one : said_) {
      std::memcpy(all, one.bytes, bytes);
      all += bytes;
    }
    return 0;
  }

  MPI_Comm comm_;
  std::vector<Said> said_;
};

// Of the ranks of a communicator those in MPI_COMM_WORLD; MPI_UNDEFINED: of another job, which may
// have no interposer, or another one. Empty: the host does not say. Open MPI 5 cannot compare
// communicators of sessions with MPI_COMM_WORLD.
std::vector<int> ranks_in_world(MPI_Comm comm, int nranks) {
  MPI_Group group;
  if (PMPI_Comm_group(comm, &group) != MPI_SUCCESS) return {};
  const auto n = size_t(nranks);
  std::vector<int> ranks(n), found(n);
  std::iota(ranks.begin(), ranks.end(), 0);
  const int code =
      PMPI_Group_translate_ranks(group, nranks, ranks.data(), world_group, found.data());
  PMPI_Group_free(&group);
  return code == MPI_SUCCESS ? found : std::vector<int>{};
}

// What the last communicator's making took for each of its ranks; 0: not known yet.
std::atomic<uint64_t> making_ns_per_rank{0};

// Tutti takes a communicator for its thread's until a second thread has made a call on it, and for
// a deadlock what could only go on by other threads (tutti.h, Threads). MPI has no such rule: here
// a second thread makes a call, the first one.
class SecondThread {
 public:
  SecondThread()
      : thread_([made = made_.get_future()]() mutable {
          if (const tutti_comm own = made.get()) tutti_barrier(own);
        }) {}
  ~SecondThread() {
    if (thread_.joinable()) call_barrier(nullptr);
  }
  SecondThread(const SecondThread&) = delete;
  SecondThread& operator=(const SecondThread&) = delete;

  // Once. Null: nothing is called.
  void call_barrier(tutti_comm own) {
    made_.set_value(own);
    thread_.join();
  }

 private:
  std::promise<tutti_comm> made_;
  std::thread thread_;
};

// False where the system gives none that is needed.
bool need_second_thread(const Comm& kept, std::optional<SecondThread>* out) {
  if (!job().threads || kept.nranks == 1) return true;
  try {
    out->emplace();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// Collective. What fails here fails the program's next call.
void belong_to_no_thread(const Comm& kept, std::optional<SecondThread>& second) {
  if (job().may_share || kept.nranks == 1) return;
  if (second)
    second->call_barrier(kept.own);
  else
    tutti_barrier(kept.own);  // its threads call one at a time
  tutti_barrier(kept.own);
}

// Collective, once all ranks have one for blocking calls.
void make_for_nonblocking(MPI_Comm comm, Comm& kept) {
  auto later = std::make_unique<Comm>();
  later->rank = kept.rank;
  later->nranks = kept.nranks;
  tutti_comm_dup(kept.own, &later->own);
  std::optional<SecondThread> second;
  const bool ready = later->own != nullptr && need_second_thread(*later, &second);
  if (!Exchange(comm, kept.nranks).all_made(ready)) return;
  belong_to_no_thread(*later, second);
  kept.later = std::move(later);
}

void make(MPI_Comm comm, Comm& kept) {
  const uint64_t begun = now_ns();
  tutti_comm_config config = TUTTI_COMM_CONFIG_INIT;
  // MPI's calls have no limit: a rank may come to one hours after another.
  config.timeout_ms = job().timeout_ms.value_or(std::numeric_limits<int64_t>::max());
  config.progress = progress_host;
  Exchange exchange(comm, kept.nranks);
  tutti_comm own = nullptr;
  tutti_comm_create_from_allgather(Exchange::allgather, &exchange, kept.rank, kept.nranks, &config,
                                   &own);
  std::optional<SecondThread> second;
  const bool ready = own != nullptr && need_second_thread(kept, &second);
  if (!exchange.all_made(ready)) {
    tutti_comm_free(own);
    kept.why = Why::setup;
    return;
  }
  kept.own = own;
  belong_to_no_thread(kept, second);
  if (job().all_threads) make_for_nonblocking(comm, kept);
  making_ns_per_rank = (now_ns() - begun) / uint64_t(kept.nranks);
}

// Asks all ranks, at every power of two of calls, whether the host has spent the price of a
// communicator. The least time counts: the others' has waiting in it.
bool has_paid(MPI_Comm comm, Comm& kept) {
  ++kept.calls;
  if (kept.calls < 4 || !std::has_single_bit(kept.calls)) return false;
  const uint64_t price = making_ns_per_rank * uint64_t(kept.nranks);
  int64_t least[2] = {int64_t(kept.spent_ns), -int64_t(price)};
  return PMPI_Allreduce(MPI_IN_PLACE, least, 2, MPI_INT64_T, MPI_MIN, comm) == MPI_SUCCESS &&
         least[0] >= -least[1];
}

// What the host says of a communicator.
void look_at(MPI_Comm comm, Comm* kept) {
  int inter = 0;
  PMPI_Comm_test_inter(comm, &inter);
  if (inter != 0) {
    kept->why = Why::intercommunicator;
    return;
  }
  PMPI_Comm_rank(comm, &kept->rank);
  PMPI_Comm_size(comm, &kept->nranks);
  int world_size = 0;
  PMPI_Comm_size(MPI_COMM_WORLD, &world_size);
  const std::vector<int> ranks = ranks_in_world(comm, kept->nranks);
  const auto in_place = [i = 0](int rank) mutable { return rank == i++; };
  kept->world =
      int(ranks.size()) == world_size && std::all_of(ranks.begin(), ranks.end(), in_place);
  if (ranks.empty() || std::find(ranks.begin(), ranks.end(), MPI_UNDEFINED) != ranks.end())
    kept->why = Why::other_job;
}

// The Comm that a communicator without an attribute gets.
Comm* kept_of(MPI_Comm comm) {
  auto made = std::make_unique<Comm>();
  look_at(comm, made.get());
  Job& j = job();
  const std::lock_guard lock(j.mutex);
  if (made->world && j.may_share) {
    for (Comm* const one : j.comms) {
      if (!one->world) continue;
      ++one->users;
      return one;
    }
  }
  j.comms.push_back(made.get());
  return made.release();
}

Comm* find(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL || is_freed(comm)) return nullptr;
  void* attribute = nullptr;
  int found = 0;
  if (PMPI_Comm_get_attr(comm, comm_keyval, &attribute, &found) != MPI_SUCCESS) return nullptr;
  if (found != 0) return static_cast<Comm*>(attribute);
  Comm* const kept = kept_of(comm);
  if (PMPI_Comm_set_attr(comm, comm_keyval, kept) == MPI_SUCCESS) return kept;
  forget(comm, comm_keyval, kept, nullptr);
  return nullptr;
}

Status read_settings(Job* j) {
  std::optional<int64_t> stats, eager;
  TUTTI_TRY(config_integer(Variable::tutti_mpi_stats, &stats));
  j->stats = stats.value_or(0) != 0;
  TUTTI_TRY(config_integer(Variable::tutti_mpi_eager, &eager));
  j->eager = eager.value_or(0) != 0;
  return config_integer(Variable::tutti_timeout_ms, &j->timeout_ms);
}

Together set_up() {
  Job& j = job();
  const Status settings = read_settings(&j);
  std::string why = fit_of_host().why_not;
  if (why.empty()) why = settings.text();
  if (why.empty() && !learn_types()) why = "the host MPI gave no keyval";
  if (why.empty() &&
      (PMPI_Comm_create_keyval(not_copied, forget, &comm_keyval, nullptr) != MPI_SUCCESS ||
       !watch_freed_comms()))
    why = "the host MPI gave no keyval";
  if (PMPI_Comm_group(MPI_COMM_WORLD, &world_group) != MPI_SUCCESS)
    why = "the host MPI gave no group";
  if (PMPI_Add_error_class(&error_class) == MPI_SUCCESS)
    PMPI_Add_error_string(error_class, "tutti: a collective call failed");
  int level = MPI_THREAD_MULTIPLE;
  j.threads = PMPI_Query_thread(&level) != MPI_SUCCESS || level == MPI_THREAD_MULTIPLE;
  keep_in_use(j.threads);
  uint8_t in_common = j.threads ? threads_call_at_once : threads_take_turns;
  Together together = join(why.empty(), j.eager, &in_common);
  j.may_share = in_common == threads_take_turns;
  j.all_threads = in_common == threads_call_at_once;
  if (!why.empty()) together.why_not = why;
  if (!together.why_not.empty()) return together;
  quiet_comm_made = PMPI_Comm_dup(MPI_COMM_WORLD, &quiet_comm) == MPI_SUCCESS;
  if (!quiet_comm_made) return {"the host MPI gave no communicator"};
  // What a probe finds out (a rank is gone) is for the program's own calls to say.
  PMPI_Comm_set_errhandler(quiet_comm, MPI_ERRORS_RETURN);
  prepare_requests(quiet_comm);
  return {};
}

void finish() {
  const State was = state.exchange(State::ended);
  if (was == State::before || was == State::ended) return;
  freed_comms.fetch_add(1);
  Job& j = job();
  end_requests();
  const std::lock_guard lock(j.mutex);
  for (Comm* const kept : j.comms) {
    add_to_ended(j, *kept);
    kept->counters = {};
    kept->later.reset();
    tutti_comm_free(kept->own);
    kept->own = nullptr;
  }
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (j.stats && rank == 0) std::fputs(describe(j.ended, j.off).c_str(), stderr);
  if (quiet_comm_made) PMPI_Comm_free(&quiet_comm);
}

int finish_at_deletion(MPI_Comm, int, void*, void*) {
  finish();
  return MPI_SUCCESS;
}

// MPI_Finalize begins with the attributes of MPI_COMM_SELF: functions that delete them may make
// calls, which other ranks meet with ones before their MPI_Finalize. What was set first is deleted
// last.
bool finish_by_attribute() {
  int keyval = MPI_KEYVAL_INVALID;
  return PMPI_Comm_create_keyval(not_copied, finish_at_deletion, &keyval, nullptr) == MPI_SUCCESS &&
         PMPI_Comm_set_attr(MPI_COMM_SELF, keyval, nullptr) == MPI_SUCCESS;
}

}  // namespace

void refuse_foreign_host() {
  const Fit fit = fit_of_host();
  if (!fit.foreign) return;
  std::fprintf(stderr, "tutti mpi: %s\n", fit.why_not.c_str());
  _exit(EXIT_FAILURE);
}

void begin() {
  if (state.load() != State::before) return;
  finishes_by_attribute = finish_by_attribute();
  Together together = set_up();
  const bool on = together.why_not.empty();
  if (!on && together.tells) {
    std::fprintf(stderr, "tutti mpi: the host MPI makes all calls: %s\n", together.why_not.c_str());
  }
  {
    Job& j = job();
    const std::lock_guard lock(j.mutex);
    j.off = std::move(together.why_not);
  }
  state.store(on ? State::on : State::off);
  // From now on those in its order share it.
  if (on) find(MPI_COMM_WORLD);
}

void end() {
  if (!finishes_by_attribute) finish();
}

Comm* find_comm(MPI_Comm comm) {
  const uint64_t freed = freed_comms.load(std::memory_order_acquire);
  if (state.load(std::memory_order_acquire) != State::on) {
    bind_host();
    return nullptr;
  }
  Comm* const kept = find(comm);
  last_comm = {comm, kept, freed};
  return kept;
}

bool forget_comm(MPI_Comm comm) {
  if (state.load(std::memory_order_acquire) != State::on) return false;
  freed_comms.fetch_add(1);
  void* attribute = nullptr;
  int found = 0;
  if (PMPI_Comm_get_attr(comm, comm_keyval, &attribute, &found) == MPI_SUCCESS && found != 0) {
    // Not while the host deletes it: it may keep other threads from calling meanwhile.
    Comm* const later = static_cast<Comm*>(attribute)->later.get();
    if (later != nullptr) end_all(later->lane, comm);
    PMPI_Comm_delete_attr(comm, comm_keyval);
  }
  return true;
}

// Open MPI 4.1 copies attributes in MPI_Comm_create_group(), too, to communicators of other ranks.
int not_copied(MPI_Comm, int, void*, void*, void*, int* copied) {
  *copied = 0;
  return MPI_SUCCESS;
}

bool make_in_time(MPI_Comm comm, Comm& kept) {
  if (kept.why != Why::few) return false;
  const bool is_world = kept.world && (job().may_share || comm == MPI_COMM_WORLD);
  if (job().eager || is_world || has_paid(comm, kept)) make(comm, kept);
  return kept.own != nullptr;
}

bool carries_nonblocking() { return job().all_threads; }

void move_host_on() {
  int there = 0;
  PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, quiet_comm, &there, MPI_STATUS_IGNORE);
}

void count_without_comm(Function function) {
  Job& j = job();
  const std::lock_guard lock(j.mutex);
  const Why why = state.load() == State::on ? Why::no_comm : Why::off;
  ++j.ended.of(function).by_host[size_t(why)];
}

ErrorsToldLater::ErrorsToldLater() : outer_(std::exchange(tells_later, true)) {}
ErrorsToldLater::~ErrorsToldLater() { tells_later = outer_; }

int raise(Comm& kept, MPI_Comm comm, tutti_status status) {
  const bool over = status != TUTTI_INVALID && status != TUTTI_UNSUPPORTED;
  int code = kept.failed;
  if (code == MPI_SUCCESS) {
    tutti_error error{};
    std::string text = "tutti: ";
    text += tutti_status_name(status);
    if (tutti_comm_last_error(kept.own, &error) == TUTTI_OK) text += std::string(": ") + error.text;
    text.resize(std::min(text.size(), size_t{MPI_MAX_ERROR_STRING - 1}));
    if (PMPI_Add_error_code(error_class, &code) != MPI_SUCCESS)
      code = error_class;
    else
      PMPI_Add_error_string(code, text.c_str());
    if (over) kept.failed = code;
  }
  if (!tells_later) PMPI_Comm_call_errhandler(comm, code);
  return code;
}

int raise_missing(MPI_Comm comm, const char* function) {
  int code = error_class;
  const std::string text = std::string("tutti: the host MPI has no ") + function;
  if (PMPI_Add_error_code(error_class, &code) == MPI_SUCCESS)
    PMPI_Add_error_string(code, text.c_str());
  PMPI_Comm_call_errhandler(comm, code);
  return code;
}

}  // namespace tutti::mpi
