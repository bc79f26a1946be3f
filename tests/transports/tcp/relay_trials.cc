// Two ranks whose connections go through a relay that holds no key. It changes one record of one
// connection in each trial, at random: whoever reads on must find out, and nothing wrong may come
// with OK. Before, to show that the relay can: what goes in clear it changes unseen.
//
// relay_trials [--trials N] [--seed S]: trial i has the seed S + i, so a run goes on with --seed.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "lib/control/wire.h"
#include "tests/fault/trials.h"
#include "tests/support/wrapped_exchange.h"
#include "tests/transports/tcp/ranks.h"
#include "tests/transports/tcp/relay.h"

namespace tutti {
namespace {

using testing::Change;
using testing::mark_of;
using testing::Relay;
using testing::Tampering;
using testing::ThreadExchange;
using testing::ThreadExchangeGroup;

constexpr const char* change_names[] = {"none",    "flip",  "swap",   "repeat", "leave out",
                                        "shorten", "stale", "insert", "cut"};
constexpr uint64_t limit_ns = 400'000'000;
enum class Verdict { unseen, late, seen, wrong };

struct Trial {
  explicit Trial(uint64_t seed) : random(seed * 0x9e3779b97f4a7c15u) {
    // A cut connection takes a rank a quarter of a second: that is rarer.
    constexpr Change common[] = {Change::flip,    Change::swap,  Change::repeat, Change::leave_out,
                                 Change::shorten, Change::stale, Change::insert};
    tampering.change = random() % 100 == 0 ? Change::cut : common[random() % std::size(common)];
    tampering.purpose = random() % 4 == 0 ? Purpose::control : Purpose::data;
    tampering.from_client = random() % 2 == 0;
    tampering.random = random();
    constexpr size_t lengths[] = {8, 100, 3000, 40'000, 70'000};
    size_t records = 0;
    for (int i = 0; i < 4; ++i) {
      messages.push_back(lengths[random() % std::size(lengths)]);
      records += (messages.back() + wire::header_bytes + Seal::most_text_bytes - 1) /
                 Seal::most_text_bytes;
    }
    if (tampering.purpose == Purpose::control) records = control_frames;
    // More follows than the longest record, which one may be taken for whose length was changed.
    messages.push_back(70'000);
    tampering.record = random() % records;
  }
  // Rank 1 calls rank 0.
  int victim() const { return tampering.from_client ? 0 : 1; }

  static constexpr size_t control_frames = 6;
  std::mt19937_64 random;
  Tampering tampering;
  std::vector<size_t> messages;
};

char byte_of(int rank, size_t message, size_t at) {
  return char(size_t(rank) * 101 + message * 17 + at * 7 + (at >> 8));
}

// More than may come early: afterwards both directions of the data have their connection.
Status make_data_connection(Link& link, int rank) {
  std::vector<char> bytes(wire::early_bytes + 1);
  link.begin(mark_of(1));
  TUTTI_TRY(testing::send_all(link, 1 - rank, bytes.data(), bytes.size()));
  return testing::recv_all(link, 1 - rank, bytes.data(), bytes.size());
}

// Sends all messages, then takes the other's. *right: whatever came with OK was so.
Status exchange_messages(Link& link, int rank, const Trial& trial, bool* right) {
  std::vector<char> bytes;
  link.begin(mark_of(2));
  for (size_t i = 0; i < trial.messages.size(); ++i) {
    bytes.resize(trial.messages[i]);
    for (size_t at = 0; at < bytes.size(); ++at) bytes[at] = byte_of(rank, i, at);
    TUTTI_TRY(testing::send_all(link, 1 - rank, bytes.data(), bytes.size(), limit_ns));
  }
  for (size_t i = 0; i < trial.messages.size(); ++i) {
    bytes.assign(trial.messages[i], 0);
    TUTTI_TRY(testing::recv_all(link, 1 - rank, bytes.data(), bytes.size(), limit_ns));
    for (size_t at = 0; at < bytes.size(); ++at) *right &= bytes[at] == byte_of(1 - rank, i, at);
  }
  return {};
}

// Calls without data: each tells the other rank of itself over the control channel. Of those, too,
// more follow than the longest record.
Status exchange_control(Link& link, bool is_victim) {
  const uint64_t calls = is_victim ? 1 : Trial::control_frames + 300;
  for (uint64_t call = 1; call <= calls; ++call) link.begin(mark_of(call, 0));
  if (!is_victim) return {};
  Status found;
  for (const uint64_t until_ns = now_ns() + limit_ns; found.ok() && now_ns() < until_ns;) {
    usleep(100);
    found = link.inspect(now_ns());
  }
  return found;
}

struct Told {
  Status opened, ended;
  bool right = true;
};

using Wrap = std::function<std::unique_ptr<Exchange>(Exchange&)>;

void run_ranks(Relay& relay, const Trial& trial, Integrity integrity, Told (&told)[2],
               const Wrap& wrap = {}) {
  static uint64_t comm_id = 1000;
  ++comm_id;
  auto group = std::make_shared<ThreadExchangeGroup>(2);
  testing::on_threads(2, [&](int rank) {
    ThreadExchange threads(group, rank);
    const auto wrapped = wrap ? wrap(threads) : nullptr;
    Exchange& exchange = wrapped != nullptr ? *wrapped : threads;
    const std::vector<uint8_t> peers = {uint8_t(rank == 1), uint8_t(rank == 0)};
    LinkSetup setup{&exchange, comm_id, peers, "", deadline_after_ms(20'000)};
    setup.integrity = integrity;
    std::unique_ptr<Link> link;
    Told& mine = told[rank];
    mine.opened = tcp_transport.open(setup, &link);
    if (!mine.opened.ok()) return;
    std::vector<std::string> all;
    if (trial.tampering.purpose == Purpose::data) {
      mine.opened = make_data_connection(*link, rank);
      static_cast<void>(exchange.allgather("", deadline_after_ms(20'000), &all));
      if (rank == 0) relay.tamper(trial.tampering);
      static_cast<void>(exchange.allgather("", deadline_after_ms(20'000), &all));
      if (!mine.opened.ok()) return;
    }
    mine.ended = trial.tampering.purpose == Purpose::data
                     ? exchange_messages(*link, rank, trial, &mine.right)
                     : exchange_control(*link, rank == trial.victim());
    // The other is looked at by its own checks, not by being told.
    static_cast<void>(exchange.allgather("", deadline_after_ms(20'000), &all));
  });
}

Verdict run(Relay& relay, const Trial& trial, std::string* text) {
  Told told[2];
  relay.tamper(trial.tampering.purpose == Purpose::data ? Tampering{} : trial.tampering);
  run_ranks(relay, trial, Integrity::encrypted, told);
  const Told& victim = told[trial.victim()];
  for (const Told& one : told) {
    *text += (text->empty() ? "" : "; ") + one.opened.text() + one.ended.text();
    if (!one.opened.ok() || !one.right) return Verdict::wrong;
  }
  if (!relay.done()) return Verdict::seen;  // nothing was changed: the first stale one
  if (victim.ended.ok()) return Verdict::unseen;
  const bool of_peer = victim.ended.rank() == 1 - trial.victim();
  switch (victim.ended.code()) {
    case TUTTI_CORRUPT:
      return of_peer ? Verdict::seen : Verdict::wrong;
    case TUTTI_PEER_FAILED:
      return of_peer && trial.tampering.change == Change::cut ? Verdict::seen : Verdict::wrong;
    case TUTTI_TIMEOUT:
      return Verdict::late;
    default:
      return Verdict::wrong;
  }
}

// The first byte behind a frame's header, from rank 1 to rank 0.
bool changes_what_is_in_clear(Relay& relay) {
  Trial trial(1);
  trial.messages.assign(1, 8);
  trial.tampering = {.change = Change::flip, .record = wire::header_bytes, .in_clear = true};
  relay.tamper({.in_clear = true});
  Told told[2];
  run_ranks(relay, trial, Integrity::none, told);
  return told[0].ended.ok() && !told[0].right;
}

// Led astray by what it has heard, a rank calls the relay itself.
class MisledExchange final : public testing::WrappedExchange {
 public:
  MisledExchange(Exchange& inner, Relay& relay) : WrappedExchange(inner), relay_(relay) {}
  Status allgather(std::string_view mine, uint64_t deadline_ns,
                   std::vector<std::string>* all) override {
    TUTTI_TRY(WrappedExchange::allgather(mine, deadline_ns, all));
    std::string& of_rank_0 = all->front();
    auto* const at = reinterpret_cast<uint8_t*>(of_rank_0.data()) + 1;
    Address listens;
    if (rank() == 1 && of_rank_0.size() == 1 + Address::packed_bytes &&
        Address::unpack(at, &listens)) {
      relay_.lead_others(listens);
      relay_.address().pack(at);
    }
    return {};
  }

 private:
  Relay& relay_;
};

bool is_refused_at_another_address(Relay& relay) {
  Trial trial(1);
  relay.tamper({});
  Told told[2];
  run_ranks(relay, trial, Integrity::encrypted, told,
            [&](Exchange& inner) { return std::make_unique<MisledExchange>(inner, relay); });
  relay.lead_others({});
  for (const Told& one : told) {
    if (one.opened.code() == TUTTI_AUTH) continue;
    printf("at another address: %s\n", one.opened.text().c_str());
    return false;
  }
  return true;
}

struct Count {
  int trials = 0, seen = 0, late = 0;
};

bool run_all(Relay& relay, const testing::TrialOptions& options) {
  Count counts[std::size(change_names)];
  int bad = 0;
  for (int i = 0; i < options.trials; ++i) {
    const uint64_t seed = options.seed + uint64_t(i);
    const Trial trial(seed);
    std::string text;
    const Verdict verdict = run(relay, trial, &text);
    Count& count = counts[size_t(trial.tampering.change)];
    ++count.trials;
    count.seen += verdict == Verdict::seen ? 1 : 0;
    count.late += verdict == Verdict::late ? 1 : 0;
    if (verdict == Verdict::unseen || verdict == Verdict::wrong) {
      ++bad;
      printf("seed %llu, %s: %s: %s\n", static_cast<unsigned long long>(seed),
             change_names[size_t(trial.tampering.change)],
             verdict == Verdict::unseen ? "not detected" : "wrong", text.c_str());
    }
    if ((i + 1) % 5000 == 0 && i + 1 < options.trials) {
      printf("%d of %d, next seed %llu\n", i + 1, options.trials,
             static_cast<unsigned long long>(seed + 1));
    }
  }
  for (size_t i = 1; i < std::size(change_names); ++i) {
    const Count& count = counts[i];
    printf("%-10s %6d trials  detected %6d  at the limit %5d  undetected %d\n", change_names[i],
           count.trials, count.seen, count.late, count.trials - count.seen - count.late);
  }
  return bad == 0;
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  tutti::testing::TrialOptions options{.trials = 1000, .most_p99_ms = 0, .most_ms = 0};
  tutti::testing::read_options("relay_trials", argc, argv, 2, options,
                               [](const std::string&, const std::string&) { return false; });
  tutti::Relay relay;
  if (!tutti::is_refused_at_another_address(relay)) return 1;
  tutti::testing::relay_of_connect = &relay;
  if (!tutti::changes_what_is_in_clear(relay)) {
    printf("in clear the relay changed nothing: this program shows nothing\n");
    return 1;
  }
  return tutti::run_all(relay, options) ? 0 : 1;
}
