// Strangers at every port of jobs of real processes that make communicators and calls: whether one
// is taken for a member, and whether a job is harmed. Each trial is a job and follows from its
// seed.
//
//   strangers [--trials N] [--seed FIRST] [--transports LIST] [--ranks LIST] [--kinds LIST]
//             [--moments LIST] [--strangers N] [--most-ms MS]
//
//   scan     connects and hangs up
//   silence  connects and says nothing
//   drip     says a right greeting, but for its key, a byte a second
//   garbage  says random bytes, also behind what greetings and frames begin with
//   key      does all that a member does, with another key
//   rank     likewise with the job's key, but calls another rank, or for a rank that cannot call
//   job      likewise, but for another communicator
//   epoch    likewise, but as a member of an earlier communicator of the same ranks
//   replay   says what members have said, just now or on an earlier connection
//
// They come at the start, while the job's communicator is made, or in mid-job: while others are
// made of it and while pairs connect at first use. Whenever a rank is about to greet another one,
// or to prove that it is a member, it is held until the strangers have come to the same port; its
// greeting and the key that it holds are known to them. --strangers N come in a trial, now and then
// five times as many at once.
//
// A stranger is accepted that gets an answer (who replays: more than the challenge), or is still
// there after 6 s of a rank that is not held. A job is harmed whose ranks do not all get right
// results with OK, or of which a call takes longer than --most-ms, not counting the time that ranks
// are held. Trial i of a line has the seed FIRST + i.
#include <dlfcn.h>
#include <openssl/hmac.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/control/bytes.h"
#include "lib/control/handshake.h"
#include "lib/control/socket.h"
#include "lib/control/wire.h"
#include "tests/fault/job.h"
#include "tests/fault/trials.h"
#include "tutti/tutti.h"

namespace {

using tutti::Address;
using tutti::Claim;
using tutti::deadline_after_ms;
using tutti::Fd;
using tutti::get_le;
using tutti::Handshake;
using tutti::JobKey;
using tutti::now_ns;
using tutti::testing::fork_ranks;
using tutti::testing::Job;
using tutti::testing::join;
using tutti::testing::named_in;
using tutti::testing::read_options;
using tutti::testing::TrialOptions;

constexpr int most_ranks = 8;
constexpr int rounds = 4;  // in mid-job: the communicator, and three that are made of it
constexpr int calls_a_round = 8;
constexpr int most_calls = 1 + rounds * (calls_a_round + 1);
constexpr int most_recorded = 256;
constexpr int64_t limit_ms = 15'000;     // of a call
constexpr int64_t watchdog_ms = 60'000;  // a job that lasts so long hangs
constexpr int64_t patience_ms = 6'000;   // after which a stranger must be out
constexpr int64_t long_hold_ms = 6'500;  // of a greeting, so that this is seen

constexpr char magic[9] = "tutti-h3";
constexpr size_t hello_bytes = 128, challenge_bytes = 64, proof_bytes = 32;
using Hello = std::array<uint8_t, hello_bytes>;

enum class Kind { scan, silence, drip, garbage, key, rank, job, epoch, replay };
struct KindName {
  Kind kind;
  const char* name;
};
constexpr KindName kinds[] = {
    {Kind::scan, "scan"},       {Kind::silence, "silence"}, {Kind::drip, "drip"},
    {Kind::garbage, "garbage"}, {Kind::key, "key"},         {Kind::rank, "rank"},
    {Kind::job, "job"},         {Kind::epoch, "epoch"},     {Kind::replay, "replay"}};

struct Moment {
  bool is_start;
  const char* name;
};
constexpr Moment moments[] = {{true, "start"}, {false, "mid-job"}};

struct Options : TrialOptions {
  Options() : TrialOptions{1, 5000, 5000} {}
  std::vector<KindName> kinds{std::begin(::kinds), std::end(::kinds)};
  std::vector<Moment> moments{std::begin(::moments), std::end(::moments)};
  int strangers = 16;
};

struct Case {
  std::string transport;
  int nranks;
  KindName kind;
  Moment moment;

  std::string text() const {
    return transport + ", " + std::to_string(nranks) + " ranks, " + kind.name + ", " + moment.name;
  }
  // About how often a rank greets another one.
  size_t greetings() const {
    const auto n = size_t(nranks);
    const size_t pairs = n * (n - 1) / 2;
    if (moment.is_start) return n - 1 + pairs;
    return pairs * (transport == "tcp" ? 2 * rounds - 1 : rounds - 1);
  }
};

struct Trial {
  uint64_t seed;
  std::mt19937_64 random;
  bool encrypted;
  bool at_proof;                  // ranks are held before that
  size_t held_longer;             // this greeting is
  std::vector<size_t> strangers;  // at which greeting each comes

  Trial(const Case& c, const Options& options, uint64_t seed)
      : seed(seed), random(seed * 0x9e3779b97f4a7c15u) {
    encrypted = c.transport == "tcp" && random() % 2 == 0;
    at_proof = random() % 2 == 0;
    const bool is_slow = c.kind.kind == Kind::silence || c.kind.kind == Kind::drip;
    const size_t places = 1 + c.greetings() * 2 / 3;
    held_longer = is_slow && seed % 4 == 0 ? random() % places : SIZE_MAX;
    const bool at_once = seed % 4 == 1;
    const size_t place = random() % places;
    strangers.resize(size_t(options.strangers) * (at_once ? 5 : 1));
    for (size_t& at : strangers) at = at_once ? place : random() % places;
  }
};

// A rank that is about to greet another one.
struct Greeting {
  enum : int { none, waits, goes_on };
  std::atomic<int> stage;
  bool is_start;
  Address to;
  Hello hello;
  std::array<uint8_t, 32> key;

  Claim claim() const {
    const uint8_t* const at = hello.data();
    Claim claim;
    claim.purpose = tutti::Purpose(at[8]);
    claim.agrees_on_secret = at[9] != 0;
    claim.client = get_le<int32_t>(at + 12);
    claim.server = get_le<int32_t>(at + 16);
    claim.nranks = get_le<uint32_t>(at + 20);
    claim.job = get_le<uint64_t>(at + 24);
    std::copy_n(at + 32, claim.binding.size(), claim.binding.begin());
    return claim;
  }
};

// What the processes of a trial share.
struct Board {
  Greeting greetings[most_ranks];
  std::atomic<int> held;  // ranks
  std::atomic<uint64_t> held_since_ns, held_ns;
  std::atomic<uint64_t> begun_ns[most_calls];  // by the last rank
  // What members have said: their greetings and proofs.
  std::atomic<int> recorded;
  struct {
    std::atomic<bool> is_whole;
    char said[hello_bytes + proof_bytes];
  } records[most_recorded];
  struct Told {
    int status, call;
    bool wrong;
    double ms;  // the longest call
    char text[500];
  } told[most_ranks];
};

Board* board = nullptr;

// ---------------------------------------------------------------- a rank

Greeting* own_greeting = nullptr;  // null: this process is no rank
std::array<uint8_t, 32> own_key;   // with which it has greeted last
bool at_proof = false;             // as of Trial

void hold(int fd, const Hello& hello) {
  own_greeting->to = tutti::peer_address(fd);
  own_greeting->hello = hello;
  own_greeting->key = own_key;
  if (board->held.fetch_add(1) == 0) board->held_since_ns = now_ns();
  own_greeting->stage = Greeting::waits;
  const uint64_t limit_ns = deadline_after_ms(watchdog_ms);
  while (own_greeting->stage != Greeting::goes_on && now_ns() < limit_ns) usleep(50);
  if (board->held.fetch_sub(1) == 1) board->held_ns += now_ns() - board->held_since_ns;
}

void record(const Hello& hello, const uint8_t* proof) {
  const int place = board->recorded.fetch_add(1);
  if (place >= most_recorded) return;
  auto& record = board->records[place];
  std::copy_n(hello.data(), hello_bytes, record.said);
  std::copy_n(proof, proof_bytes, record.said + hello_bytes);
  record.is_whole = true;
}

void before_send(int fd, const uint8_t* bytes, size_t length) {
  thread_local std::map<int, Hello> greeted;  // what goes next over these is the proof
  if (length == hello_bytes && std::memcmp(bytes, magic, 8) == 0) {
    std::copy_n(bytes, hello_bytes, greeted[fd].begin());
    if (!at_proof) hold(fd, greeted[fd]);
  } else if (const auto found = greeted.find(fd); found != greeted.end()) {
    if (length == proof_bytes) record(found->second, bytes);
    if (length == proof_bytes && at_proof) hold(fd, found->second);
    greeted.erase(found);
  }
}

class Rank {
 public:
  Rank(const Case& c, const Trial& trial, int rank)
      : case_(c), trial_(trial), rank_(rank), told_(board->told[rank]) {
    own_greeting = &board->greetings[rank];
    at_proof = trial.at_proof;
    own_greeting->is_start = true;
  }

  void run(const int* ids) {
    setenv("TUTTI_INTEGRITY", trial_.encrypted ? "encrypted" : "auto", 1);
    tutti_comm comm = nullptr;
    const auto create = [&] {
      return join(case_.transport, limit_ms, rank_, case_.nranks, ids, &comm);
    };
    if (!timed(nullptr, create)) return;
    own_greeting->is_start = false;
    bool well = make_calls(comm, 0);
    for (int round = 1; well && !case_.moment.is_start && round < rounds; ++round) {
      tutti_comm derived = nullptr;
      well =
          timed(comm, [&] { return tutti_comm_dup(comm, &derived); }) && make_calls(derived, round);
      if (derived != nullptr) tutti_comm_free(derived);
    }
    tutti_comm_free(comm);
  }

 private:
  bool make_calls(tutti_comm comm, int round) {
    Job job(comm, rank_, case_.nranks, trial_.seed + uint64_t(round));
    for (int i = 0; i < calls_a_round; ++i) {
      const bool well = timed(comm, [&] { return job.make(told_.call); });
      told_.wrong = told_.wrong || !job.right();
      if (!well) return false;
    }
    return true;
  }

  // From when all ranks are in the call; `comm`: null while there is none.
  template <class Make>
  bool timed(tutti_comm comm, Make&& make) {
    std::atomic<uint64_t>& begun = board->begun_ns[told_.call];
    const uint64_t own_ns = now_ns(), held_ns = board->held_ns;
    for (uint64_t last = begun; last < own_ns && !begun.compare_exchange_weak(last, own_ns);)
      continue;
    told_.status = make();
    const uint64_t held_meanwhile_ns = board->held_ns - held_ns;
    told_.ms = std::max(told_.ms, double(int64_t(now_ns() - begun - held_meanwhile_ns)) / 1e6);
    if (told_.status != TUTTI_OK) {
      tutti_error error{};
      if (comm != nullptr) tutti_comm_last_error(comm, &error);
      const char* const text = error.text != nullptr ? error.text : tutti_last_error();
      snprintf(told_.text, sizeof(told_.text), "%s", text);
      return false;
    }
    ++told_.call;
    return true;
  }

  const Case& case_;
  const Trial& trial_;
  int rank_;
  Board::Told& told_;
};

// ---------------------------------------------------------------- strangers

// What was seen of members; it outlives the job.
struct Seen {
  Claim claim;
  JobKey key;
};
std::list<Seen> seen;
constexpr size_t most_seen = 100;

class Stranger {
 public:
  enum class Ended { no, unmet, refused, accepted };

  Stranger(Kind kind, const Greeting& member, std::mt19937_64& random)
      : kind_(kind),
        hangs_up_(kind == Kind::scan),
        server_(board->greetings[member.claim().server]),
        give_up_ns_(deadline_after_ms(patience_ms)),
        socket_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    prepare(member, random);
    if (kind == Kind::scan && random() % 2 == 0) {
      const linger at_once{1, 0};
      setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    }
    if (::connect(socket_.get(), &member.to.any, member.to.length()) != 0 && errno != EINPROGRESS)
      end(errno == ECONNREFUSED ? Ended::unmet : Ended::refused);
    go_on();
  }

  Ended ended() const { return ended_; }

  void go_on() {
    if (ended_ == Ended::no && !is_met()) return;
    if (ended_ == Ended::no && hangs_up_) end(Ended::refused);
    if (ended_ == Ended::no) say();
    if (ended_ == Ended::no) hear();
    // Who is held itself can turn out nobody.
    if (server_.stage == Greeting::waits) give_up_ns_ = deadline_after_ms(patience_ms);
    if (ended_ == Ended::no && now_ns() > give_up_ns_) end(Ended::accepted);
  }

 private:
  void end(Ended how) {
    ended_ = how;
    socket_.reset();
  }

  bool is_met() {
    pollfd entry{socket_.get(), POLLOUT, 0};
    if (::poll(&entry, 1, 0) != 1) return false;  // a look
    if ((entry.revents & POLLERR) == 0) return true;
    int error_number = 0;
    socklen_t length = sizeof(error_number);
    getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error_number, &length);
    end(error_number == ECONNREFUSED && said_ == 0 ? Ended::unmet : Ended::refused);
    return false;
  }

  static std::string random_text(std::mt19937_64& random, size_t most) {
    std::string text(1 + random() % most, '\0');
    for (char& byte : text) byte = char(random());
    return text;
  }
  static std::string text_of(const Hello& hello) { return {hello.begin(), hello.end()}; }

  void prepare(const Greeting& member, std::mt19937_64& random) {
    Claim claim = member.claim();
    JobKey key;
    std::copy(member.key.begin(), member.key.end(), key.begin());
    switch (kind_) {
      case Kind::scan:
      case Kind::silence:
        return;
      case Kind::garbage:
        text_ = garbage(claim, random);
        return;
      case Kind::drip:
      case Kind::key:
        key[random() % key.size()] ^= uint8_t(1u << (random() % 8));
        break;
      case Kind::rank:
        change_rank(claim, random);
        break;
      case Kind::job:
        claim.job ^= random() | 1;
        break;
      case Kind::epoch:
        go_back(claim, key, random);
        break;
      case Kind::replay:
        replay(member, random);
        return;
    }
    JobKey fresh;
    for (uint8_t& byte : fresh) byte = uint8_t(random());
    handshake_ = Handshake::client(key, claim, fresh);
    if (kind_ != Kind::drip) return;
    text_ = {handshake_->output().begin(), handshake_->output().end()};
    handshake_.reset();
  }

  static std::string garbage(const Claim& claim, std::mt19937_64& random) {
    const std::string noise = random_text(random, 4096);
    tutti::wire::Header header;
    header.type = tutti::wire::Type(1 + random() % 11);
    header.comm = claim.job;
    header.length = uint32_t(random() % 2 == 0 ? noise.size() : random());
    const auto frame = tutti::wire::encode(header);
    switch (random() % 4) {
      case 0:
        return noise;
      case 1:
        return magic + noise;
      case 2:
        return std::string(frame.begin(), frame.end()) + noise;
      default:
        return "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    }
  }

  static void change_rank(Claim& claim, std::mt19937_64& random) {
    const auto by = int32_t(random() % 8);
    switch (random() % 5) {
      case 0:
        claim.server = claim.server > 0 ? claim.server - 1 : claim.server + 1 + by;
        return;
      case 1:
        claim.client = claim.server;
        return;
      case 2:
        claim.client = claim.server - 1;
        return;
      case 3:
        claim.client = -1 - by;
        return;
      default:
        claim.client = int32_t(claim.nranks) + by;
    }
  }

  static void go_back(Claim& claim, JobKey& key, std::mt19937_64& random) {
    std::vector<const Seen*> earlier;
    for (const Seen& one : seen)
      if (one.claim.job != claim.job) earlier.push_back(&one);
    if (earlier.empty()) {
      --claim.job;
      return;
    }
    const Seen& one = *earlier[random() % earlier.size()];
    if (random() % 2 == 0) {
      claim.job = one.claim.job;
    } else {
      claim = one.claim;
      key = one.key;
    }
  }

  void replay(const Greeting& member, std::mt19937_64& random) {
    may_hear_ = challenge_bytes;
    text_ = text_of(member.hello);
    const int records = std::min(board->recorded.load(), most_recorded);
    const auto& record = board->records[records > 0 ? random() % uint64_t(records) : 0];
    const bool is_there = record.is_whole;
    const std::string said = is_there ? std::string(record.said, sizeof(record.said)) : "";
    switch (random() % 4) {
      case 0:  // then the challenge comes back as a proof
        return;
      case 1:
        proof_ = random_text(random, proof_bytes);
        return;
      case 2:
        if (is_there) proof_ = said.substr(hello_bytes);
        return;
      default:
        if (is_there) text_ = said + random_text(random, 100);
    }
  }

  void say() {
    if (handshake_) {
      const auto output = handshake_->output();
      if (output.empty()) return;
      const ssize_t sent = ::send(socket_.get(), output.data(), output.size(), MSG_NOSIGNAL);
      if (sent > 0) handshake_->sent(size_t(sent));
    } else if (said_ < text_.size() && now_ns() >= say_ns_) {
      const size_t some = kind_ == Kind::drip ? 1 : text_.size() - said_;
      const ssize_t sent = ::send(socket_.get(), text_.data() + said_, some, MSG_NOSIGNAL);
      if (sent > 0) said_ += size_t(sent);
      if (kind_ == Kind::drip) say_ns_ = deadline_after_ms(1000);
    }
  }

  void hear() {
    uint8_t bytes[256];
    const ssize_t got = ::recv(socket_.get(), bytes, sizeof(bytes), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return end(heard_ > may_hear_ ? Ended::accepted : Ended::refused);
    heard_ += size_t(got);
    if (handshake_) handshake_->receive({bytes, size_t(got)});
    if (kind_ == Kind::replay && heard_ == challenge_bytes) {
      if (proof_.empty()) proof_.assign(reinterpret_cast<char*>(bytes) + got - 32, proof_bytes);
      text_ += proof_;
    }
  }

  Kind kind_;
  bool hangs_up_;
  const Greeting& server_;
  uint64_t give_up_ns_;
  Fd socket_;
  Ended ended_ = Ended::no;
  std::optional<Handshake> handshake_;
  std::string text_, proof_;
  size_t said_ = 0, heard_ = 0, may_hear_ = 0;
  uint64_t say_ns_ = 0;
};

// The strangers of a job; stepped, as it goes on.
class Strangers {
 public:
  Strangers(const Case& c, Trial& trial) : case_(c), trial_(trial) {
    std::sort(trial.strangers.begin(), trial.strangers.end());
  }

  void go_on() {
    for (int rank = 0; rank < case_.nranks; ++rank) {
      Greeting& greeting = board->greetings[rank];
      if (greeting.stage != Greeting::waits) continue;
      uint64_t& until_ns = until_ns_[rank];
      if (until_ns == 0) until_ns = deadline_after_ms(meet(greeting));
      if (now_ns() < until_ns) continue;
      until_ns = 0;
      greeting.stage = Greeting::goes_on;
    }
    for (auto one = here_.begin(); one != here_.end();) {
      one->go_on();
      if (one->ended() == Stranger::Ended::no) {
        ++one;
        continue;
      }
      refused += one->ended() == Stranger::Ended::refused;
      accepted += one->ended() == Stranger::Ended::accepted;
      one = here_.erase(one);
    }
  }
  bool are_gone() const { return here_.empty(); }

  int refused = 0, accepted = 0;

 private:
  // For how many ms the greeting is held.
  int64_t meet(const Greeting& greeting) {
    if (greeting.is_start == case_.moment.is_start) {
      while (came_ < trial_.strangers.size() && trial_.strangers[came_] <= met_) {
        here_.emplace_back(case_.kind.kind, greeting, trial_.random);
        ++came_;
      }
      if (met_++ == trial_.held_longer) return long_hold_ms;
    }
    JobKey key;
    std::copy(greeting.key.begin(), greeting.key.end(), key.begin());
    seen.push_back({greeting.claim(), key});
    if (seen.size() > most_seen) seen.pop_front();
    return int64_t(trial_.random() % 4);
  }

  const Case& case_;
  Trial& trial_;
  size_t met_ = 0, came_ = 0;
  uint64_t until_ns_[most_ranks] = {};
  std::list<Stranger> here_;
};

// ---------------------------------------------------------------- trials

struct Tally {
  int refused = 0, accepted = 0, harmed = 0;
  double most_ms = 0;
};

void run(const Case& c, Trial trial, const Options& options, Tally* tally) {
  std::memset(static_cast<void*>(board), 0, sizeof(Board));
  for (int rank = 0; rank < c.nranks; ++rank) board->told[rank].status = -1;
  std::vector<pid_t> processes = fork_ranks(c.nranks, [&](int rank, const int* ids) {
    Rank(c, trial, rank).run(ids);
    _exit(0);
  });
  Strangers strangers(c, trial);
  const uint64_t limit_ns = deadline_after_ms(watchdog_ms);
  std::vector<pid_t> live = processes;
  while ((!live.empty() && now_ns() < limit_ns) || !strangers.are_gone()) {
    strangers.go_on();
    std::erase_if(live, [](pid_t process) { return waitpid(process, nullptr, WNOHANG) != 0; });
    usleep(100);
  }
  bool harmed = false;
  for (int rank = 0; rank < c.nranks; ++rank) {
    const Board::Told& told = board->told[rank];
    const bool hangs = std::find(live.begin(), live.end(), processes[size_t(rank)]) != live.end();
    tally->most_ms = std::max(tally->most_ms, told.ms);
    if (!hangs && !told.wrong && told.status == TUTTI_OK && told.ms <= options.most_ms) continue;
    harmed = true;
    printf("%s, seed %llu: rank %d %s, in call %d (status %d, at most %.1f ms a call): %s\n",
           c.text().c_str(), static_cast<unsigned long long>(trial.seed), rank,
           hangs        ? "hangs"
           : told.wrong ? "has a wrong result"
                        : "was harmed",
           told.call, told.status, told.ms, told.text);
  }
  for (const pid_t process : live) {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
  if (strangers.accepted > 0) {
    printf("%s, seed %llu: %d strangers were accepted\n", c.text().c_str(),
           static_cast<unsigned long long>(trial.seed), strangers.accepted);
  }
  tally->refused += strangers.refused;
  tally->accepted += strangers.accepted;
  tally->harmed += harmed ? 1 : 0;
}

bool run_all(const Case& c, const Options& options, int* attempts) {
  Tally tally;
  for (int i = 0; i < options.trials; ++i) {
    run(c, Trial(c, options, options.seed + uint64_t(i)), options, &tally);
    tutti::testing::tell_progress(c.text(), i + 1, options);
  }
  const int came = tally.refused + tally.accepted;
  printf(
      "%-4s %2d ranks  %-7s  %-7s  %4d jobs  strangers %5d  refused %5d  accepted %d  jobs harmed "
      "%d  most ms of a call %7.1f\n",
      c.transport.c_str(), c.nranks, c.kind.name, c.moment.name, options.trials, came,
      tally.refused, tally.accepted, tally.harmed, tally.most_ms);
  *attempts += came;
  return came > 0 && tally.accepted + tally.harmed == 0;
}

Options options_of(int argc, char** argv) {
  Options options;
  options.transports = tutti::testing::all_transports();
  std::erase(options.transports, "shm");  // which strangers do not reach
  read_options("strangers", argc, argv, most_ranks, options,
               [&](const std::string& option, const std::string& value) {
                 if (option == "--kinds") {
                   options.kinds = named_in(value, kinds, "strangers", "kind");
                 } else if (option == "--moments") {
                   options.moments = named_in(value, moments, "strangers", "moment");
                 } else if (option == "--strangers") {
                   options.strangers = std::max(1, std::stoi(value));
                 } else {
                   return false;
                 }
                 return true;
               });
  return options;
}

}  // namespace

// In place of the C library's, for the whole program: ranks are held before they greet.
extern "C" ssize_t send(int fd, const void* bytes, size_t length, int flags) {
  if (own_greeting != nullptr) before_send(fd, static_cast<const uint8_t*>(bytes), length);
  return ::syscall(SYS_sendto, fd, bytes, length, flags, nullptr, 0);
}

// In place of OpenSSL's: the key of a communicator never leaves its ranks, but is seen where they
// use it.
extern "C" unsigned char* HMAC(const EVP_MD* kind, const void* key, int key_bytes,
                               const unsigned char* text, size_t bytes, unsigned char* out,
                               unsigned* length) {
  static const auto original = reinterpret_cast<decltype(&HMAC)>(dlsym(RTLD_NEXT, "HMAC"));
  constexpr char label[] = "tutti handshake: hello";
  if (own_greeting != nullptr && size_t(key_bytes) == own_key.size() && bytes > sizeof(label) &&
      std::memcmp(text, label, sizeof(label)) == 0) {
    std::copy_n(static_cast<const uint8_t*>(key), own_key.size(), own_key.begin());
  }
  return original(kind, key, key_bytes, text, bytes, out, length);
}

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const Options options = options_of(argc, argv);
  board = tutti::testing::share<Board>();
  int failed = 0, attempts = 0;
  for (const std::string& transport : options.transports) {
    for (const int nranks : options.ranks) {
      for (const Moment& moment : options.moments) {
        for (const KindName& kind : options.kinds)
          failed += run_all({transport, nranks, kind, moment}, options, &attempts) ? 0 : 1;
      }
    }
  }
  printf("%d strangers\n", attempts);
  if (failed != 0) printf("%d lines are wrong or too late\n", failed);
  return failed == 0 ? 0 : 1;
}
