// Messages about survivors. To one rank anything in any order, as of peers that are wrong: it
// refuses what makes no sense, ends once, in time, and decides only what somebody has proposed. And
// whole jobs of ranks that are right, whose order of events the input chooses: no two of those that
// live decide differently, and of deaths alone all that live decide.
#include "lib/control/agreement.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>

#include "lib/control/bytes.h"
#include "tests/fuzz/input.h"

using namespace tutti;
using fuzz::Input;

namespace {

constexpr uint64_t length_ns = 1 << 20, begin_ns = 1'000'000;
constexpr uint32_t number = 5;

// About the ranks below `nranks`, the first 4 and the last 4 of many.
RankSet set_of(Input& input, int nranks) {
  RankSet set(nranks);
  const uint8_t bits = input.byte();
  for (int i = 0; i < 8; ++i) {
    const int rank = i < 4 ? i : nranks - 8 + i;
    if ((bits >> i & 1) != 0 && rank >= 0 && rank < nranks) set.add(rank);
  }
  return set;
}

// An Agreement, and what must hold after everything that happens to it.
class Watched {
 public:
  Watched(const Agreement::Question& asked, uint64_t now_ns)
      : asked_(asked), machine_(asked, now_ns) {
    look();
  }
  void receive(int from, std::string_view text, uint64_t now_ns) {
    machine_.receive(from, text, now_ns);
    look();
  }
  void died(int rank, uint64_t now_ns) {
    machine_.died(rank, now_ns);
    look();
  }
  void lost(const RankSet& ranks, uint64_t now_ns) {
    machine_.lost(ranks, now_ns);
    look();
  }
  void cut_off(const RankSet& ranks, const RankSet& near, uint64_t now_ns) {
    machine_.cut_off(ranks, near, now_ns);
    look();
  }
  void advance(uint64_t now_ns) {
    machine_.advance(now_ns);
    look();
    if (!machine_.ended() && (now_ns >= asked_.limit_ns || due_ns() <= now_ns)) abort();
  }
  uint64_t due_ns() const { return machine_.due_ns(); }
  bool ended() const { return machine_.ended(); }
  const Decision* verdict() const { return machine_.verdict(); }
  const Status& failed() const { return machine_.failed(); }

  std::deque<Agreement::Letter> outbox;

 private:
  void look() {
    const auto letters = machine_.take_letters();
    if (ended_ && !letters.empty()) abort();
    for (const Agreement::Letter& letter : letters) {
      uint32_t of = 0;
      if (!Agreement::number_of(letter.text, &of).ok() || of != asked_.number) abort();
      if (letter.to == asked_.self || !asked_.members.has(letter.to)) abort();
      outbox.push_back(letter);
    }
    const Decision* const now = verdict();
    if (ended_ && ((now == nullptr) != (decided_ == nullptr) || failed().text() != why_)) abort();
    if (now != nullptr && decided_ != nullptr &&
        (now->value != decided_->value || !(now->present == decided_->present))) {
      abort();
    }
    ended_ = ended();
    if (now != nullptr) {
      decided_ = std::make_unique<Decision>(*now);
      if (!failed().ok() || !now->present.has(asked_.self)) abort();
      if (!asked_.members.covers(now->present)) abort();
    } else if (ended_) {
      why_ = failed().text();
      if (why_.empty() || why_.find('\n') != why_.npos) abort();
    }
  }

  Agreement::Question asked_;
  Agreement machine_;
  bool ended_ = false;
  std::unique_ptr<Decision> decided_;
  std::string why_;
};

// ---------------------------------------------------------------- anything to one rank

enum Type : uint8_t { news = 1, report, propose, accept, decide, refuse, quit };

// As lib/control/agreement.cc has them.
struct Message {
  uint8_t type, matter;
  int32_t ballot, accepted;
  uint64_t value, waited_ns;
  RankSet present, dead, lost;

  std::string encode(int nranks) const {
    std::string text(36, '\0');
    auto* const at = reinterpret_cast<uint8_t*>(text.data());
    at[0] = 0xa6;
    at[1] = type;
    at[2] = matter;
    put_le<uint32_t>(at + 4, number);
    put_le<int32_t>(at + 8, ballot);
    put_le<int32_t>(at + 12, accepted);
    put_le<uint64_t>(at + 16, value);
    put_le<uint32_t>(at + 24, uint32_t(nranks));
    put_le<uint64_t>(at + 28, waited_ns);
    for (const RankSet* set : {&present, &dead, &lost}) {
      for (const uint64_t word : set->words()) {
        uint8_t bytes[8];
        put_le<uint64_t>(bytes, word);
        text.append(reinterpret_cast<const char*>(bytes), 8);
      }
    }
    return text;
  }
};

// Of a text that makes sense one that does not.
void spoil(std::string* text, int nranks, Input& input) {
  auto* const at = reinterpret_cast<uint8_t*>(text->data());
  switch (input.below(9)) {
    case 0:
      text->resize(input.byte() % text->size());
      break;
    case 1:
      text->append(1 + input.byte(), '\0');
      break;
    case 2:
      at[0] ^= uint8_t(1 + input.below(255));
      break;
    case 3:
      at[1] = uint8_t(8 + input.below(249));
      break;
    case 4:
      at[2] = uint8_t(3 + input.below(254));
      break;
    case 5:
      put_le<uint32_t>(at + 24, uint32_t(nranks + 1 + input.byte()));
      break;
    case 6:
      put_le<int32_t>(at + 8, input.below(2) == 0 ? nranks + input.byte() : -2);
      break;
    case 7:
      put_le<int32_t>(at + 12, input.below(2) == 0 ? nranks + input.byte() : -2);
      break;
    case 8:
      if (nranks % 64 != 0)
        text->back() = char(0x80);  // a rank that cannot be
      else
        at[1] = 0;
      break;
  }
}

void be_one_rank(Input& input) {
  Agreement::Question asked;
  asked.matter = Matter(1 + input.below(2));
  asked.number = number;
  asked.nranks = 1 + input.below(70);
  asked.self = input.below(asked.nranks);
  asked.members = input.below(2) == 0 ? RankSet::all(asked.nranks) : set_of(input, asked.nranks);
  asked.members.add(asked.self);
  asked.value = 0xf0 | input.byte();
  asked.limit_ns = begin_ns + length_ns;
  uint64_t now_ns = begin_ns;
  Watched rank(asked, now_ns);
  std::vector<Decision> heard;  // what others have accepted, proposed or decided
  RankSet reported(asked.nranks);
  reported.add(asked.self);
  uint64_t common = asked.value;  // of all that ranks pass
  bool all_here = true;           // nobody can have been taken for lost
  for (int events = 0; events < 200 && !input.empty(); ++events) {
    const uint8_t what = input.below(8);
    const int from = input.below(asked.nranks);
    if (what == 0) {
      RankSet ranks = RankSet::of(from, asked.nranks);
      const uint8_t how = input.below(4);
      if (how == 0) rank.died(from, now_ns);
      if (how != 0) ranks.add(input.below(asked.nranks));
      if (how == 1) rank.lost(ranks, now_ns);
      if (how > 1) {
        RankSet near = RankSet::of(asked.self, asked.nranks);
        near.add(input.below(asked.nranks));
        rank.cut_off(ranks, near, now_ns);
      }
      all_here = false;
    } else if (what == 1) {
      now_ns += uint64_t(input.byte()) << 9;
      rank.advance(now_ns);
      all_here = false;
    } else if (what == 2) {
      rank.receive(from, input.text(), now_ns);
      all_here = false;
    } else {
      Message message;
      message.type = uint8_t(1 + input.below(7));
      const uint8_t how = input.byte();
      message.matter =
          (how & 31) == 31 ? uint8_t(3 - uint8_t(asked.matter)) : uint8_t(asked.matter);
      message.ballot = input.below(asked.nranks + 1) - 1;
      message.accepted = input.below(asked.nranks + 1) - 1;
      message.value = input.byte();
      message.waited_ns = (how & 32) != 0 ? ~uint64_t(0) : uint64_t(input.byte()) << 12;
      message.present = set_of(input, asked.nranks);
      message.dead = set_of(input, asked.nranks);
      message.lost = set_of(input, asked.nranks);
      std::string text = message.encode(asked.nranks);
      const bool taken = !rank.ended() && asked.members.has(from) && from != asked.self;
      if (what == 3) {
        spoil(&text, asked.nranks, input);
        const bool before = rank.ended();
        rank.receive(from, text, now_ns);
        if (rank.verdict() != nullptr && !before) abort();
        if (rank.ended() && !before && rank.failed().code() != TUTTI_CORRUPT) abort();
        if (taken && all_here && rank.failed().rank() != from) abort();
        continue;
      }
      const bool other = message.matter != uint8_t(asked.matter);
      const bool strangers = !asked.members.covers(message.present);
      rank.receive(from, text, now_ns);
      if (!taken) continue;
      if (all_here && other && rank.failed().code() != TUTTI_MISMATCH) abort();
      if (all_here && !other && strangers && rank.failed().code() != TUTTI_CORRUPT) abort();
      all_here &= message.lost.empty() && message.type != quit && message.waited_ns == 0;
      if (message.type == report && message.accepted < 0) {
        reported.add(from);
        common &= message.value;
      } else if (message.type == report || message.type == propose || message.type == decide) {
        heard.push_back({message.present, message.value});
      }
    }
  }
  while (!rank.ended()) rank.advance(now_ns = std::max(now_ns, rank.due_ns()));
  const tutti_status code = rank.failed().code();
  if (const Decision* const verdict = rank.verdict()) {
    const bool others = std::any_of(heard.begin(), heard.end(), [&](const Decision& one) {
      return one.value == verdict->value && one.present == verdict->present;
    });
    const bool own = (common & ~verdict->value) == 0 && (verdict->value & ~asked.value) == 0 &&
                     reported.covers(verdict->present);
    if (!others && !own) abort();
  } else if (code != TUTTI_ABORTED && code != TUTTI_TIMEOUT && code != TUTTI_MISMATCH &&
             code != TUTTI_CORRUPT) {
    abort();
  }
}

// ---------------------------------------------------------------- a job

class Job {
 public:
  explicit Job(int nranks) : nranks_(nranks), ranks_(size_t(nranks)) {
    for (Rank& one : ranks_) one.from.resize(ranks_.size());
  }

  void event(Input& input) {
    const uint8_t what = input.below(13);
    const int a = input.below(nranks_), b = input.below(nranks_);
    switch (what) {
      case 0:
        come(a);
        break;
      case 1:
      case 2:
      case 3:
      case 4:
        deliver(a, b);
        break;
      case 5:
        send(a);
        break;
      case 6:
        send_all(a);
        break;
      case 7:
        die(a);
        break;
      case 8:
        notice(a, b);
        break;
      case 9:
        lose(a, b);
        break;
      case 10:
        wait(a, input.byte());
        break;
      case 11:
        take_all(a);
        break;
      case 12:
        part(input.byte());
        break;
    }
  }

  // All that is under way comes; then time goes on to the end.
  void end(bool all_come) {
    for (int rank = 0; all_come && rank < nranks_; ++rank) come(rank);
    settle();
    for (const Rank& one : ranks_) {
      if (all_come && only_deaths_ && !one.dead && one.machine->verdict() == nullptr) abort();
    }
    do {
      uint64_t next_ns = limit_ns;
      for (const Rank& one : ranks_) {
        if (one.takes_part()) next_ns = std::min(next_ns, one.machine->due_ns());
      }
      now_ns_ = std::max(now_ns_, next_ns);
      for (Rank& one : ranks_) {
        if (one.takes_part()) one.machine->advance(now_ns_);
      }
      settle();
    } while (now_ns_ < limit_ns);
    check();
  }

 private:
  // Each passes all bits but its own, so that a value tells of whom it is.
  static uint64_t value_of(int rank) { return ~(uint64_t{1} << rank); }

  struct Rank {
    std::unique_ptr<Watched> machine;
    bool dead = false;
    std::vector<std::deque<std::string>> from;  // what is under way to it
    bool takes_part() const { return machine != nullptr && !dead; }
  };
  Rank& at(int rank) { return ranks_[size_t(rank)]; }

  void come(int rank) {
    if (at(rank).dead || at(rank).machine) return;
    Agreement::Question asked;
    asked.matter = Matter::shrink;
    asked.number = number;
    asked.members = RankSet::all(nranks_);
    asked.nranks = nranks_;
    asked.self = rank;
    asked.value = value_of(rank);
    asked.limit_ns = limit_ns;
    at(rank).machine = std::make_unique<Watched>(asked, now_ns_);
  }
  bool send(int rank) {
    if (!at(rank).takes_part() || at(rank).machine->outbox.empty()) return false;
    auto& outbox = at(rank).machine->outbox;
    at(outbox.front().to).from[size_t(rank)].push_back(outbox.front().text);
    outbox.pop_front();
    return true;
  }
  bool send_all(int rank) {
    bool any = false;
    while (send(rank)) any = true;
    return any;
  }
  bool deliver(int from, int to) {
    auto& under_way = at(to).from[size_t(from)];
    if (!at(to).takes_part() || under_way.empty()) return false;
    const std::string text = under_way.front();
    under_way.pop_front();
    at(to).machine->receive(from, text, now_ns_);
    return true;
  }
  bool take_all(int to) {
    bool any = false;
    for (int from = 0; from < nranks_; ++from) {
      while (deliver(from, to)) any = true;
      notice(to, from);
    }
    return any;
  }
  // What it has not sent yet is never sent.
  void die(int rank) { at(rank).dead = true; }
  void notice(int rank, int gone) {
    if (at(rank).takes_part() && at(gone).dead && at(rank).from[size_t(gone)].empty())
      at(rank).machine->died(gone, now_ns_);
  }
  void lose(int rank, int gone) {
    if (!at(rank).takes_part() || rank == gone) return;
    at(rank).machine->lost(RankSet::of(gone, nranks_), now_ns_);
    only_deaths_ = false;
  }
  // The ranks of one side, and the others, no longer reach each other.
  void part(uint8_t side) {
    for (int a = 0; a < nranks_; ++a) {
      for (int b = 0; b < nranks_; ++b) {
        if ((side >> a & 1) != (side >> b & 1)) lose(a, b);
      }
    }
  }
  void wait(int rank, uint8_t time) {
    now_ns_ = std::min(now_ns_ + (uint64_t(time) << 10), limit_ns);
    if (at(rank).takes_part()) at(rank).machine->advance(now_ns_);
    only_deaths_ = false;
  }
  void settle() {
    for (bool any = true; any;) {
      any = false;
      for (int rank = 0; rank < nranks_; ++rank) any |= take_all(rank);
      for (int rank = 0; rank < nranks_; ++rank) any |= send_all(rank);
    }
  }

  void check() const {
    const Decision* chosen = nullptr;
    for (const Rank& one : ranks_) {
      if (!one.takes_part()) continue;
      if (!one.machine->ended()) abort();
      const tutti_status code = one.machine->failed().code();
      if (code == TUTTI_CORRUPT || code == TUTTI_MISMATCH) abort();
      const Decision* const verdict = one.machine->verdict();
      if (verdict == nullptr) continue;
      if (chosen == nullptr) chosen = verdict;
      if (!(chosen->present == verdict->present) || chosen->value != verdict->value) abort();
    }
    if (chosen == nullptr) return;
    uint64_t value = ~uint64_t{0};
    for (const int rank : chosen->present.ranks()) {
      if (!ranks_[size_t(rank)].machine) abort();
      value &= value_of(rank);
    }
    if (value != chosen->value) abort();
  }

  static constexpr uint64_t limit_ns = begin_ns + length_ns;
  int nranks_;
  uint64_t now_ns_ = begin_ns;
  bool only_deaths_ = true;
  std::vector<Rank> ranks_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  uint32_t of = 0;
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  if (const Status found = Agreement::number_of(text, &of);
      !found.ok() && (found.code() != TUTTI_CORRUPT || of != 0)) {
    abort();
  }
  Input input(data, bytes);
  const uint8_t kind = input.byte();
  if (kind % 2 == 0) {
    be_one_rank(input);
    return 0;
  }
  Job job(2 + kind / 4 % 5);
  for (int events = 0; events < 300 && !input.empty(); ++events) job.event(input);
  job.end(kind % 4 == 1);
  return 0;
}
