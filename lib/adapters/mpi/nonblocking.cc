#include "lib/adapters/mpi/nonblocking.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/adapters/mpi/job.h"
#include "lib/adapters/mpi/types.h"
#include "lib/base/clock.h"

namespace tutti::mpi {
namespace {

// A call that the program has moved on is left to it for so long: much for a call of MPI, and
// little for what programs compute meanwhile.
constexpr uint64_t grace_ns = 100'000;
// Threads of the interposer sleep between two looks, at first shortly: a program that computes, or
// tests its requests without a pause, may have the only core, and a thread that is woken gets it
// sooner than one that yields.
constexpr uint64_t first_nap_ns = 5'000, most_nap_ns = 200'000;
constexpr long nap_in_call_ns = 20'000;
// A look that took longer may have moved data: the next one comes after as long a time, so that
// looks take half of a core at most, however slow they are.
constexpr uint64_t idle_look_ns = 3'000;
// How long the thread that looks after calls does so without any, before it has to be woken.
constexpr uint64_t linger_ns = 10'000'000;
// A thread that waits while another moves its call on looks so long before it sleeps.
constexpr uint64_t look_ns = 20'000;

constinit thread_local bool of_interposer [[gnu::tls_model("initial-exec")]] = false;

// What a request means.
struct Begun {
  Lane* lane;
  uint64_t number;  // of the call on it
  bool operator==(const Begun&) const = default;
};

struct Failure {
  MPI_Comm comm;  // null: it was freed, or its error handler has been called
  int code;
};

struct Lanes {
  std::mutex mutex;                                 // guards all of it
  std::vector<Lane*> waiting;                       // that have calls
  std::unordered_map<MPI_Request, Begun> requests;  // of calls that have not ended
  std::unordered_map<MPI_Request, Failure> failures;
  std::vector<int> free_tags;
  int ntags = 0;
  std::condition_variable moved;  // a thread has left a lane

  size_t nwaiting = 0;  // lanes with calls that wait
  // One of these threads looks after the lanes, but while it moves a call on.
  std::vector<std::thread> threads;
  bool watched = false, asleep = false, ends = false;
  std::condition_variable due, watch;
};

// Where this rank sends itself the requests' messages.
MPI_Comm own_comm;
int own_rank = 0, most_tag = 0;
// Open MPI's are looked up by name each time.
MPI_Datatype byte;

std::atomic<size_t> nrequests{0};
std::atomic<size_t> nfailures{0};

Lanes& lanes() {
  static auto* const all = new Lanes;  // outlives every thread
  return *all;
}

using Lock = std::unique_lock<std::mutex>;

// Errors that end the program do so at once; others are told by who ends the request.
bool is_fatal(MPI_Comm comm) {
  MPI_Errhandler handler;
  if (PMPI_Comm_get_errhandler(comm, &handler) != MPI_SUCCESS) return false;
  const bool fatal = handler == MPI_ERRORS_ARE_FATAL;
  PMPI_Errhandler_free(&handler);
  return fatal;
}

// The program's request ends, for threads that are in MPI_Wait, too: there MPICH does not see what
// another one ends without its network.
void end_request(Lanes& all, const NonblockingCall& call, int code) {
  if (code != MPI_SUCCESS) {
    if (is_fatal(call.comm)) PMPI_Comm_call_errhandler(call.comm, code);
    const std::lock_guard lock(all.mutex);
    all.failures.insert_or_assign(call.request, Failure{call.comm, code});
    nfailures = all.failures.size();
  }
  // After a failure longer than the host expects it, which then says so.
  char none = 0;
  PMPI_Send(&none, code == MPI_SUCCESS ? 0 : 1, byte, own_rank, call.tag, own_comm);
}

enum class Move { begin, test, wait };

// Whether the call has ended. Throws MustWait; then it has not begun.
bool move_on(NonblockingCall& call, Comm& kept, Move move, int* code) {
  const ErrorsToldLater later;
  *code = MPI_SUCCESS;
  if (!call.begun) {
    *code = call.begin(&call.own, move == Move::wait);
    call.begun = true;
    if (call.own == nullptr) return true;
    if (move == Move::begin) return false;
  }
  int has_ended = 1;
  const tutti_status status =
      move == Move::wait ? tutti_wait(&call.own) : tutti_test(&call.own, &has_ended);
  if (status != TUTTI_OK) *code = raise(kept, call.comm, status);
  return status != TUTTI_OK || has_ended != 0;
}

// As many as may wait in calls at a time, and one that looks. Throws where the system gives none.
void expect_threads(Lanes& all);

// Under the lock. That the lane has one more call that waits.
void note_waits(Lanes& all, Lane& lane) {
  if (lane.nwaiting++ == 0) ++all.nwaiting;
}
void note_waited(Lanes& all, Lane& lane) {
  if (--lane.nwaiting == 0) --all.nwaiting;
}

// Moves the first call of a lane on that is not busy and has calls. Unlocks meanwhile; then the
// lane is there until the lock is released. Whether the call has ended.
bool move_first(Lock& lock, Lane& lane, Move move) {
  Lanes& all = lanes();
  NonblockingCall& call = *lane.calls.front();
  lane.busy = true;
  lock.unlock();
  int code = MPI_SUCCESS;
  const uint64_t begun_ns = of_interposer ? now_ns() : 0;
  bool has_ended = false, must_wait = false;
  try {
    has_ended = move_on(call, *lane.kept, move, &code);
  } catch (const MustWait&) {
    must_wait = true;
  }
  const uint64_t now = has_ended ? 0 : now_ns();
  if (has_ended) {
    for (auto& type : call.types) type.reset();
    end_request(all, call, code);
  }
  lock.lock();
  if (has_ended) {
    all.free_tags.push_back(call.tag);
    // The host may have given it again meanwhile.
    const auto one = all.requests.find(call.request);
    if (one != all.requests.end() && one->second == Begun{&lane, call.number})
      all.requests.erase(one);
    nrequests = all.requests.size();
    if (call.waits) note_waited(all, lane);
    lane.calls.pop_front();
    if (lane.calls.empty()) std::erase(all.waiting, &lane);
  } else if (must_wait) {
    call.waits = true;
    call.due_ns = 0;
    note_waits(all, lane);
    try {
      expect_threads(all);
    } catch (const std::exception&) {
      // One that there is makes it, or the program, when it waits.
    }
    all.due.notify_one();
  } else if (of_interposer) {
    const uint64_t took_ns = now - begun_ns;
    const uint64_t nap_ns = took_ns < idle_look_ns ? 2 * call.nap_ns : took_ns;
    call.nap_ns = std::clamp(nap_ns, first_nap_ns, most_nap_ns);
    call.due_ns = now + call.nap_ns;
  } else {
    call.nap_ns = 0;
    call.due_ns = now + grace_ns;
  }
  lane.busy = false;
  all.moved.notify_all();
  if (all.asleep && !lane.calls.empty()) all.due.notify_one();
  return has_ended;
}

// Moves the lane's calls on, or waits for who does. The lane is there until it is done.
template <class Done>
void wait_until(Lock& lock, Lane& lane, const Done& done) {
  uint64_t looks_until = 0;
  while (!done()) {
    if (!lane.busy) {
      move_first(lock, lane, Move::wait);
      looks_until = 0;
      continue;
    }
    const uint64_t now = now_ns();
    if (looks_until == 0) looks_until = now + look_ns;
    if (now >= looks_until) lanes().moved.wait_for(lock, std::chrono::nanoseconds(grace_ns));
    lock.unlock();
    move_host_on();
    lock.lock();
  }
}

// Whose call is to be moved on next; null: there is none.
Lane* next_lane(const Lanes& all) {
  Lane* next = nullptr;
  for (Lane* const lane : all.waiting) {
    if (lane->busy) continue;
    if (next == nullptr || lane->calls.front()->due_ns < next->calls.front()->due_ns) next = lane;
  }
  return next;
}

// Null: it is time to end.
Lane* wait_for_due(Lanes& all, Lock& lock) {
  uint64_t sleeps_from = now_ns() + linger_ns;
  while (!all.ends) {
    const uint64_t now = now_ns();
    Lane* const lane = next_lane(all);
    if (lane != nullptr) {
      const uint64_t due_ns = lane->calls.front()->due_ns;
      if (due_ns <= now) return lane;
      sleeps_from = now + linger_ns;
      all.due.wait_for(lock, std::chrono::nanoseconds(due_ns - now));
    } else if (now < sleeps_from) {
      all.due.wait_for(lock, std::chrono::nanoseconds(grace_ns));
    } else {
      all.asleep = true;
      all.due.wait(lock);
      all.asleep = false;
      sleeps_from = now_ns() + linger_ns;
    }
  }
  return nullptr;
}

void look_after_lanes() {
  of_interposer = true;
  prctl(PR_SET_TIMERSLACK, 1000);  // ns; usually 50 us
  Lanes& all = lanes();
  Lock lock(all.mutex);
  for (;;) {
    all.watch.wait(lock, [&] { return all.ends || !all.watched; });
    all.watched = true;
    Lane* lane = nullptr;
    while ((lane = wait_for_due(all, lock)) != nullptr && lane->calls.front()->begun)
      move_first(lock, *lane, Move::test);
    all.watched = false;
    all.watch.notify_one();
    if (lane == nullptr) return;
    move_first(lock, *lane, lane->calls.front()->waits ? Move::wait : Move::test);
  }
}

void expect_threads(Lanes& all) {
  const size_t n = all.nwaiting + 2;
  if (all.threads.size() >= n) [[likely]]
    return;
  sigset_t every, usual;  // signals are for the program's threads
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, &usual);
  try {
    while (all.threads.size() < n) all.threads.emplace_back(look_after_lanes);
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &usual, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &usual, nullptr);
}

// Negative: all are taken.
int take_tag(Lanes& all) {
  if (all.free_tags.empty()) return all.ntags <= most_tag ? all.ntags++ : -1;
  const int tag = all.free_tags.back();
  all.free_tags.pop_back();
  return tag;
}

std::string add(Lane& lane, std::unique_ptr<NonblockingCall> call, MPI_Request* request) {
  Lanes& all = lanes();
  Lock lock(all.mutex);
  const bool waits = call->waits;
  call->tag = take_tag(all);
  if (call->tag < 0) return "more requests than the host MPI has tags";
  const auto give_back = [&] {
    all.free_tags.push_back(call->tag);
    if (waits) note_waited(all, lane);
  };
  if (waits) note_waits(all, lane);
  try {
    expect_threads(all);
  } catch (const std::exception&) {
    give_back();
    throw;
  }
  lock.unlock();
  const int code = PMPI_Irecv(nullptr, 0, byte, own_rank, call->tag, own_comm, request);
  lock.lock();
  if (code != MPI_SUCCESS) {
    give_back();
    return "the host MPI gave no request";
  }
  call->request = *request;
  all.failures.erase(*request);
  nfailures = all.failures.size();
  call->number = ++lane.nbegun;
  all.requests.insert_or_assign(*request, Begun{&lane, call->number});
  nrequests = all.requests.size();
  const bool is_first = lane.calls.empty();
  if (waits || !is_first) call->due_ns = now_ns() + grace_ns;
  if (is_first) all.waiting.push_back(&lane);
  lane.calls.push_back(std::move(call));
  if (all.asleep) all.due.notify_one();
  if (is_first && !waits) move_first(lock, lane, Move::begin);
  return "";
}

}  // namespace

void prepare_requests(MPI_Comm comm) {
  own_comm = comm;
  byte = MPI_BYTE;
  PMPI_Comm_rank(comm, &own_rank);
  int* most = nullptr;
  int found = 0;
  PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
  most_tag = found != 0 ? *most : 32767;
}

void end_requests() {
  Lanes& all = lanes();
  {
    const std::lock_guard lock(all.mutex);
    all.ends = true;
    all.due.notify_all();
    all.watch.notify_all();
  }
  for (std::thread& thread : all.threads) thread.join();
  all.threads.clear();
}

std::string begin_later(Comm& kept, MPI_Comm comm, std::initializer_list<MPI_Datatype> types,
                        bool waits, std::function<int(tutti_request*, bool)> begin,
                        MPI_Request* request) {
  try {
    auto call = std::make_unique<NonblockingCall>();
    call->begin = std::move(begin);
    call->waits = waits;
    call->comm = comm;
    int n = 0;
    for (const MPI_Datatype type : types) {
      if (!is_predefined(type)) call->types[n++].emplace().begin(type);
    }
    return add(kept.lane, std::move(call), request);
  } catch (const std::exception& thrown) {
    return std::string("no thread or no memory for a nonblocking call: ") + thrown.what();
  }
}

void end_all(Lane& lane) {
  Lock lock(lanes().mutex);
  wait_until(lock, lane, [&] { return lane.calls.empty(); });
}

void end_all(Lane& lane, MPI_Comm comm) {
  end_all(lane);
  Lanes& all = lanes();
  const std::lock_guard lock(all.mutex);
  for (auto& [request, failure] : all.failures) {
    if (failure.comm == comm) failure.comm = MPI_COMM_NULL;
  }
}

bool in_flight() { return nrequests.load(std::memory_order_acquire) != 0 || nfailures.load() != 0; }

bool end_now(const MPI_Request* requests, int n) {
  if (!in_flight()) return false;
  bool any = false;
  Lanes& all = lanes();
  Lock lock(all.mutex);
  for (int i = 0; i < n; ++i) {
    any = any || all.failures.contains(requests[i]);
    const auto one = all.requests.find(requests[i]);
    if (one == all.requests.end()) continue;
    any = true;
    wait_until(lock, *one->second.lane, [&all, request = requests[i], begun = one->second] {
      const auto now = all.requests.find(request);
      return now == all.requests.end() || now->second != begun;
    });
  }
  return any;
}

bool advance(const MPI_Request* requests, int n) {
  if (nrequests.load(std::memory_order_acquire) == 0) return false;
  Lanes& all = lanes();
  Lock lock(all.mutex);
  bool are_left = false;
  for (int i = 0; i < n; ++i) {
    for (;;) {  // those before it, too
      const auto one = all.requests.find(requests[i]);
      if (one == all.requests.end()) break;
      Lane& lane = *one->second.lane;
      NonblockingCall& first = *lane.calls.front();
      if (!lane.busy && !first.waits && move_first(lock, lane, Move::test)) continue;
      if (first.waits && std::exchange(first.due_ns, 0) != 0) all.due.notify_one();
      are_left = true;
      break;
    }
  }
  return are_left;
}

std::vector<MPI_Request> without_calls(const MPI_Request* requests, int n) {
  std::vector<MPI_Request> rest;
  if (!in_flight()) return rest;
  Lanes& all = lanes();
  const std::lock_guard lock(all.mutex);
  for (int i = 0; i < n; ++i) {
    if (!all.requests.contains(requests[i]) && !all.failures.contains(requests[i])) continue;
    if (rest.empty()) rest.assign(requests, requests + n);
    rest[size_t(i)] = MPI_REQUEST_NULL;
  }
  return rest;
}

bool has_failed(MPI_Request request) {
  if (nfailures.load(std::memory_order_acquire) == 0) return false;
  Lanes& all = lanes();
  const std::lock_guard lock(all.mutex);
  return all.failures.contains(request);
}

int failure_of(MPI_Request request) {
  if (nfailures.load(std::memory_order_acquire) == 0) return MPI_SUCCESS;
  Lanes& all = lanes();
  Failure failure{};
  {
    const std::lock_guard lock(all.mutex);
    const auto one = all.failures.find(request);
    if (one == all.failures.end()) return MPI_SUCCESS;
    failure = one->second;
    all.failures.erase(one);
    nfailures = all.failures.size();
  }
  if (failure.comm != MPI_COMM_NULL) PMPI_Comm_call_errhandler(failure.comm, failure.code);
  return failure.code;
}

bool rest_from_call() {
  if (!of_interposer) return false;
  const timespec nap{0, nap_in_call_ns};
  nanosleep(&nap, nullptr);
  return true;
}

}  // namespace tutti::mpi
