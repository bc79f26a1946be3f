#include "lib/control/agreement.h"

#include <algorithm>

#include "lib/base/clock.h"
#include "lib/control/bytes.h"

namespace tutti {

namespace {

constexpr uint8_t letter_magic = 0xa6;
constexpr size_t fixed_bytes = 36;

}  // namespace

// 0 magic (1)  1 type (1)  2 matter (1)  3 zero (1)  4 number (4)  8 ballot (4)
// 12 accepted ballot (4)  16 value (8)  24 ranks (4)  28 waited (8), then three sets: present,
// dead, lost.
struct Agreement::Message {
  Type type = Type::news;
  Matter matter = Matter::agree;
  uint32_t number = 0;
  int ballot = -1;    // of the coordinator that it belongs to
  int accepted = -1;  // in a report: the ballot of `verdict`; -1: nothing was accepted
  Decision verdict;   // in a report that has accepted nothing the value is what the rank passes
  uint64_t waited_ns = 0;  // since the first that its sender knows of has come
  RankSet dead, lost;

  std::string encode(int nranks) const {
    const size_t words = (size_t(nranks) + 63) / 64;
    std::string text(fixed_bytes + 3 * 8 * words, '\0');
    auto* at = reinterpret_cast<uint8_t*>(text.data());
    at[0] = letter_magic;
    at[1] = uint8_t(type);
    at[2] = uint8_t(matter);
    put_le<uint32_t>(at + 4, number);
    put_le<int32_t>(at + 8, ballot);
    put_le<int32_t>(at + 12, accepted);
    put_le<uint64_t>(at + 16, verdict.value);
    put_le<uint32_t>(at + 24, uint32_t(nranks));
    put_le<uint64_t>(at + 28, waited_ns);
    at += fixed_bytes;
    for (const RankSet* set : {&verdict.present, &dead, &lost}) {
      for (size_t i = 0; i < words; ++i, at += 8) put_le<uint64_t>(at, set->words()[i]);
    }
    return text;
  }

  static Status parse(std::string_view text, int nranks, Message* out) {
    const Status senseless{TUTTI_CORRUPT, "sent a message about survivors that makes no sense"};
    const size_t words = (size_t(nranks) + 63) / 64;
    const auto* at = reinterpret_cast<const uint8_t*>(text.data());
    if (text.size() != fixed_bytes + 3 * 8 * words || at[0] != letter_magic) return senseless;
    if (at[1] < uint8_t(Type::news) || at[1] > uint8_t(Type::quit)) return senseless;
    if (at[2] != uint8_t(Matter::agree) && at[2] != uint8_t(Matter::shrink)) return senseless;
    if (at[3] != 0) return senseless;
    if (get_le<uint32_t>(at + 24) != uint32_t(nranks)) return senseless;
    out->type = Type(at[1]);
    out->matter = Matter(at[2]);
    out->number = get_le<uint32_t>(at + 4);
    out->ballot = get_le<int32_t>(at + 8);
    out->accepted = get_le<int32_t>(at + 12);
    out->verdict.value = get_le<uint64_t>(at + 16);
    out->waited_ns = get_le<uint64_t>(at + 28);
    if (out->ballot < -1 || out->ballot >= nranks || out->accepted < -1 ||
        out->accepted >= nranks) {
      return senseless;
    }
    at += fixed_bytes;
    const RankSet possible = RankSet::all(nranks);
    for (RankSet* set : {&out->verdict.present, &out->dead, &out->lost}) {
      *set = RankSet(nranks);
      for (size_t i = 0; i < words; ++i, at += 8) set->words()[i] = get_le<uint64_t>(at);
      if (!possible.covers(*set)) return senseless;
    }
    return {};
  }
};

Status Agreement::number_of(std::string_view text, uint32_t* number) {
  const auto* at = reinterpret_cast<const uint8_t*>(text.data());
  if (text.size() < fixed_bytes || at[0] != letter_magic)
    return {TUTTI_CORRUPT, "sent a message about survivors that makes no sense"};
  *number = get_le<uint32_t>(at + 4);
  return {};
}

Agreement::Agreement(Question question, uint64_t now_ns)
    : asked_(std::move(question)),
      now_ns_(now_ns),
      first_ns_(now_ns),
      length_ns_(asked_.limit_ns > now_ns ? asked_.limit_ns - now_ns : 0),
      dead_(asked_.nranks),
      lost_(asked_.nranks),
      come_(asked_.nranks),
      came_ns_(size_t(asked_.nranks)),
      accepted_by_(asked_.nranks) {
  own_.value = asked_.value;
  own_.accepted.present = RankSet(asked_.nranks);
  come_.add(asked_.self);
  send_all(asked_.members, message(Type::news));
  step();
}

Agreement::Message Agreement::message(Type type) const {
  Message made;
  made.type = type;
  made.matter = asked_.matter;
  made.number = asked_.number;
  made.ballot = coordinator_;
  made.verdict.present = RankSet(asked_.nranks);
  made.waited_ns = now_ns_ - first_ns_;
  made.dead = dead_;
  made.lost = lost_;
  return made;
}

void Agreement::send(int to, const Message& message) {
  letters_.push_back({to, message.encode(asked_.nranks)});
}

void Agreement::send_all(const RankSet& to, const Message& message) {
  const std::string text = message.encode(asked_.nranks);
  for (const int rank : to.ranks()) {
    if (rank != asked_.self) letters_.push_back({rank, text});
  }
}

// ---------------------------------------------------------------- what comes in

void Agreement::receive(int from, std::string_view text, uint64_t now_ns) {
  if (ended() || !is_member(from) || from == asked_.self || lost_.has(from)) return;
  now_ns_ = now_ns;
  Message message;
  if (const Status parsed = Message::parse(text, asked_.nranks, &message); !parsed.ok())
    return fail({parsed.code(), rank_name(from) + " " + parsed.text(), from});
  if (message.number != asked_.number) return;
  if (message.matter != asked_.matter) {
    return fail({TUTTI_MISMATCH,
                 rank_name(asked_.self) + " calls " + matter_name(asked_.matter) + ", but " +
                     rank_name(from) + " calls " + matter_name(message.matter),
                 from});
  }
  take(from, message);
  if (!ended()) step();
}

void Agreement::take(int from, const Message& message) {
  if (!come_.has(from)) came_ns_[size_t(from)] = now_ns_;
  come_.add(from);
  const uint64_t waited_ns = std::min({message.waited_ns, length_ns_, now_ns_});
  first_ns_ = std::min(first_ns_, now_ns_ - waited_ns);
  if (!asked_.members.covers(message.verdict.present)) {
    return fail({TUTTI_CORRUPT, rank_name(from) + " counts ranks that are no members", from});
  }
  if (message.type == Type::decide) return decide(message.verdict);
  found_dead_[from] = message.dead & asked_.members;
  const RankSet newly_lost = (message.lost & asked_.members) - lost_ - dead_;
  if (newly_lost.has(asked_.self)) {
    return fail({TUTTI_ABORTED,
                 rank_name(from) + " does not reach " + rank_name(asked_.self) +
                     ", or has waited for it in vain; the others go on without it",
                 asked_.self});
  }
  if (!newly_lost.empty()) lose(newly_lost);
  switch (message.type) {
    case Type::report: {
      Report& report = reports_[from];
      report.ballot = message.accepted;
      report.accepted = message.verdict;
      report.value = message.accepted < 0 ? message.verdict.value : 0;
      break;
    }
    case Type::propose: {
      if (from != coordinator_) break;  // it is gone, or has yet to hear that others are
      since_ns_ = now_ns_;
      own_.ballot = from;
      own_.accepted = message.verdict;
      send(from, this->message(Type::accept));
      break;
    }
    case Type::accept:
      if (coordinator_ == asked_.self && message.ballot == asked_.self) accepted_by_.add(from);
      break;
    case Type::refuse:
      if (from == coordinator_) {
        fail({TUTTI_ABORTED,
              rank_name(from) + " found that too few ranks are left to go on: " +
                  message.verdict.present.describe(),
              -1});
      }
      break;
    case Type::quit:
      lose(RankSet::of(from, asked_.nranks));
      break;
    case Type::news:
    case Type::decide:
      break;
  }
}

void Agreement::died(int rank, uint64_t now_ns) {
  if (ended() || !is_member(rank) || rank == asked_.self) return;
  if (is_gone(rank)) return;  // one that was lost stays so: what it has sent since was not read
  now_ns_ = now_ns;
  dead_.add(rank);
  if (coordinator_ >= 0 && coordinator_ != asked_.self && !is_gone(coordinator_))
    send(coordinator_, message(Type::news));
  step();
}

void Agreement::lost(const RankSet& ranks, uint64_t now_ns) {
  RankSet found = ranks & here();
  found.remove(asked_.self);
  if (ended() || found.empty()) return;
  now_ns_ = now_ns;
  lose(found);
  step();
}

void Agreement::cut_off(const RankSet& ranks, const RankSet& near, uint64_t now_ns) {
  if (ended() || (ranks & here()).empty()) return;
  if (is_quorum(near & here())) return lost(ranks, now_ns);
  fail({TUTTI_ABORTED, rank_name(asked_.self) + " is cut off: none of the others' hosts answers it",
        asked_.self});
}

// All others hear of it, so that they do not wait for each other's patience.
void Agreement::lose(const RankSet& ranks) {
  lost_ |= ranks;
  send_all(here(), message(Type::news));
}

void Agreement::advance(uint64_t now_ns) {
  now_ns_ = now_ns;
  if (!ended() && now_ns >= asked_.limit_ns) {
    const RankSet waited = here() - come_;
    const int rank = waited.empty() ? coordinator_ : waited.first();
    fail({TUTTI_TIMEOUT,
          rank_name(asked_.self) + " waited for " + rank_name(rank) + " in " +
              matter_name(asked_.matter),
          rank});
  }
  if (!ended()) step();
}

uint64_t Agreement::due_ns() const { return ended() ? never_ns : due_ns_; }

// ---------------------------------------------------------------- the coordinator

// Every step gives up on a rank, sends on, or leaves all as it is until something happens.
void Agreement::step() {
  for (bool changed = true; changed && !ended();) {
    due_ns_ = asked_.limit_ns;
    const int coordinator = here().first();
    if (coordinator != coordinator_) {
      coordinator_ = coordinator;
      since_ns_ = now_ns_;
      if (coordinator != asked_.self) {
        Message report = message(Type::report);
        report.accepted = own_.ballot;
        report.verdict = own_.accepted;
        if (own_.ballot < 0) report.verdict.value = own_.value;
        send(coordinator, report);
      }
    }
    const RankSet lost_before = lost_;
    if (coordinator_ != asked_.self) {
      wait_for(RankSet::of(coordinator_, asked_.nranks));
    } else if (!proposed_to_) {
      collect();
    } else {
      collect_accepts();
    }
    changed = !(lost_ == lost_before);
  }
}

// Who has not come when half of the time of who came first is over is lost. Who has come is given
// an eighth of the time for each answer; the coordinator two, for it may itself be waiting for one.
void Agreement::wait_for(const RankSet& missing) {
  const uint64_t late_ns = first_ns_ + length_ns_ / 2, answer_ns = length_ns_ / 8;
  RankSet late(asked_.nranks);
  for (const int rank : missing.ranks()) {
    uint64_t until_ns = late_ns;
    if (come_.has(rank) && rank == coordinator_) {
      const bool collects = own_.ballot != rank;
      until_ns = (collects ? std::max(since_ns_, late_ns) : since_ns_) + 2 * answer_ns;
    } else if (come_.has(rank)) {
      until_ns = std::max(since_ns_, came_ns_[size_t(rank)]) + answer_ns;
    }
    if (now_ns_ >= until_ns) {
      late.add(rank);
    } else {
      due_ns_ = std::min(due_ns_, until_ns);
    }
  }
  if (!late.empty()) lose(late);
}

bool Agreement::is_quorum(const RankSet& group) const {
  const size_t members = asked_.members.count(), present = group.count();
  return 2 * present > members || (2 * present == members && group.has(asked_.members.first()));
}

// Whether a group of members may act for all. *later: not yet, but when all of them have found the
// deaths that this rank knows of.
bool Agreement::may_decide(const RankSet& group, bool* later) const {
  *later = false;
  if (is_quorum(group)) return true;
  const RankSet others = asked_.members - group;
  if (!dead_.covers(others)) return false;
  for (const int rank : group.ranks()) {
    if (rank == asked_.self) continue;
    const auto found = found_dead_.find(rank);
    if (found == found_dead_.end() || !found->second.covers(others)) {
      *later = !is_gone(rank);
      return false;
    }
  }
  return true;
}

void Agreement::collect() {
  RankSet missing = here(), group(asked_.nranks);
  missing.remove(asked_.self);
  group.add(asked_.self);
  for (const auto& [rank, report] : reports_) {
    missing.remove(rank);
    if (!is_gone(rank)) group.add(rank);
  }
  if (!missing.empty()) return wait_for(missing);
  bool later = false;
  if (!may_decide(group, &later)) {
    if (!later) return refuse(group);
    group.remove(asked_.self);
    return wait_for(group);
  }
  Decision value{group, own_.value};
  int highest = own_.ballot;
  if (highest >= 0) value = own_.accepted;
  for (const auto& [rank, report] : reports_) {
    if (report.ballot > highest) {
      highest = report.ballot;
      value = report.accepted;
    } else if (highest < 0 && group.has(rank)) {
      value.value &= report.value;
    }
  }
  since_ns_ = now_ns_;
  proposed_to_ = group;
  propose(std::move(value));
  collect_accepts();
}

void Agreement::propose(Decision verdict) {
  own_.ballot = asked_.self;
  own_.accepted = std::move(verdict);
  accepted_by_.add(asked_.self);
  Message proposal = message(Type::propose);
  proposal.verdict = own_.accepted;
  send_all(*proposed_to_, proposal);
}

void Agreement::collect_accepts() {
  const RankSet missing = (*proposed_to_ & here()) - accepted_by_;
  if (!missing.empty()) return wait_for(missing);
  bool later = false;
  if (may_decide(accepted_by_, &later)) return decide(own_.accepted);
  RankSet group = accepted_by_ & here();
  if (may_decide(group, &later)) return decide(own_.accepted);
  if (!later) return refuse(group);
  group.remove(asked_.self);
  wait_for(group);
}

// ---------------------------------------------------------------- ends

void Agreement::decide(Decision verdict) {
  Message decision = message(Type::decide);
  decision.verdict = verdict;
  send_all(asked_.members - dead_, decision);
  if (verdict.present.has(asked_.self)) {
    verdict_ = std::move(verdict);
    return;
  }
  failed_ = {TUTTI_ABORTED,
             "the others have gone on without " + rank_name(asked_.self) +
                 ", for which they had waited in vain: " + verdict.present.describe(),
             asked_.self};
}

void Agreement::refuse(const RankSet& group) {
  Message refusal = message(Type::refuse);
  refusal.verdict.present = group;
  send_all(here(), refusal);
  const RankSet unknown = asked_.members - group - dead_;
  failed_ = {TUTTI_ABORTED,
             "too few ranks are left to go on: " + group.describe() + " of " +
                 std::to_string(asked_.members.count()) + "; nobody knows what has become of " +
                 unknown.describe(),
             unknown.first()};
}

void Agreement::fail(Status why) {
  send_all(here(), message(Type::quit));
  failed_ = std::move(why);
}

std::string Agreement::matter_name(Matter matter) const {
  return matter == Matter::shrink ? "tutti_comm_shrink()" : "tutti_comm_agree()";
}

}  // namespace tutti
