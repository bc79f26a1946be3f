#include "tools/doctor/diagnose.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

namespace tutti::doctor {

namespace {

using record::ReadCall;
using record::ReadComm;
using record::ReadFailure;
using record::ReadWait;

constexpr int64_t long_wait_ns = 1'000'000'000;

std::string duration(int64_t ns) {
  if (ns < 0) ns = 0;
  if (ns < 1'000'000'000) return fmt::format("{} ms", (ns + 500'000) / 1'000'000);
  if (ns < 120'000'000'000) return fmt::format("{:.1f} s", double(ns) / 1e9);
  return fmt::format("{} min", ns / 60'000'000'000);
}

// One rank of one communicator.
struct Member {
  const Subject* subject = nullptr;
  const ReadComm* comm = nullptr;
  explicit operator bool() const { return comm != nullptr; }
  bool operator==(const Member&) const = default;
};

// A call that a rank has entered and not left.
struct Open {
  Member member;
  const ReadCall* call = nullptr;
  explicit operator bool() const { return call != nullptr; }

  const ReadWait* wait() const { return member.comm->wait_of(*call); }
  int64_t since_ns() const { return wait() != nullptr ? wait()->since_ns : call->entered_ns; }
};

Finding kind_of(const ReadFailure& failure) {
  if (failure.code == TUTTI_PEER_FAILED) return Finding::died;
  if (failure.code == TUTTI_TIMEOUT) return Finding::late;
  if (failure.code != TUTTI_MISMATCH) return Finding::failed;
  // In the words of lib/comm/deadlock.cc.
  const bool deadlock = failure.text.find("a deadlock across communicators") != failure.text.npos;
  return deadlock ? Finding::deadlock : Finding::mismatch;
}

bool has_died(const Subject& subject) {
  return subject.life == Life::ended && !subject.record.ended_in_order;
}

// Processes that have a communicator in common are of one job.
std::vector<std::vector<Subject>> jobs_of(std::vector<Subject> subjects) {
  std::vector<size_t> job(subjects.size());
  std::iota(job.begin(), job.end(), size_t{0});
  std::map<uint64_t, size_t> first;
  for (size_t i = 0; i < subjects.size(); ++i) {
    for (const ReadComm& comm : subjects[i].record.comms) {
      const auto [found, added] = first.emplace(comm.id, i);
      if (added || job[found->second] == job[i]) continue;
      const size_t from = job[i], to = job[found->second];
      std::replace(job.begin(), job.end(), from, to);
    }
  }
  std::map<size_t, std::vector<Subject>> jobs;
  for (size_t i = 0; i < subjects.size(); ++i) jobs[job[i]].push_back(std::move(subjects[i]));
  std::vector<std::vector<Subject>> all;
  all.reserve(jobs.size());
  for (auto& [number, members] : jobs) all.push_back(std::move(members));
  return all;
}

int64_t latest_ns(const std::vector<Subject>& job) {
  int64_t latest = 0;
  for (const Subject& one : job) latest = std::max(latest, one.record.latest_ns());
  return latest;
}

class Job {
 public:
  Job(const std::vector<Subject>& subjects, int64_t now_ns) : subjects_(subjects), now_ns_(now_ns) {
    for (const Subject& subject : subjects_)
      for (const ReadComm& comm : subject.record.comms) members_.push_back({&subject, &comm});
    for (const Member& one : members_) most_ranks_ = std::max(most_ranks_, one.comm->nranks);
  }

  Diagnosis diagnose() {
    count();
    if (!of_failure() && !of_deaths(true) && !of_waits() && !of_deaths(false)) healthy();
    return std::move(out_);
  }

 private:
  // ---------------------------------------------------------------- words

  std::string name(const Member& one) const {
    return fmt::format("rank {} (process {} on {})", one.comm->rank, one.subject->record.process,
                       one.subject->record.host);
  }
  static std::string short_name(const Member& one) { return rank_name(one.comm->rank); }

  // Of communicators with fewer ranks than the job's largest.
  std::string which(const ReadComm& comm) const {
    if (comm.nranks == most_ranks_) return {};
    return fmt::format(", on a communicator of {} ranks", comm.nranks);
  }

  // Where it was when it stopped being of use: "in call 3, ...", "after call 2, ...".
  std::string place(const Member& one) const {
    if (const ReadCall* open = one.comm->open()) return "in " + open->describe();
    if (const ReadCall* last = one.comm->last()) return "after " + last->describe();
    return "before its first call";
  }

  std::string end_of(const Subject& subject) const {
    if (!subject.ending.empty()) return subject.ending;
    return subject.record.ended_in_order ? "has ended by exit" : "has died";
  }

  // ---------------------------------------------------------------- looking around

  Member member(uint64_t id, int rank) const {
    const auto found = std::find_if(members_.begin(), members_.end(), [=](const Member& one) {
      return one.comm->id == id && one.comm->rank == rank;
    });
    return found == members_.end() ? Member() : *found;
  }

  void set_link(const Member& from, int peer) {
    const ReadWait& wait = from.comm->wait;
    const bool known = peer >= 0 && wait.peer == peer && !wait.link.empty();
    out_.link = known ? wait.link : from.comm->transport;
    out_.addresses = known ? wait.addresses : "";
  }

  // " over tcp (10.0.0.1:4711 to 10.0.0.2:4712)".
  std::string over_link() const {
    if (out_.link.empty()) return {};
    return " over " + out_.link + (out_.addresses.empty() ? "" : " (" + out_.addresses + ")");
  }

  // The call that a process has been blocked in longest.
  Open longest_open(const Subject& subject) const {
    Open longest;
    for (const ReadComm& comm : subject.record.comms) {
      const ReadCall* const call = comm.freed ? nullptr : comm.open();
      if (call == nullptr) continue;
      const Open open{{&subject, &comm}, call};
      if (!longest || open.since_ns() < longest.since_ns()) longest = open;
    }
    return longest;
  }

  // ---------------------------------------------------------------- results

  void set(Finding finding, std::string sentence) {
    out_.finding = finding;
    out_.sentence = std::move(sentence);
  }
  static Person person(const Member& one) {
    return {one.comm->rank, one.subject->record.process, one.subject->record.host};
  }
  void set_people(const Member& who, int rank, const Member& waiting) {
    if (who) out_.who = person(who);
    out_.who.rank = rank;
    out_.waiting = person(waiting);
    out_.comm = waiting.comm->id;
    out_.nranks = waiting.comm->nranks;
    set_link(waiting, rank);
  }
  void set_call(const ReadCall& call) {
    out_.call = call.number;
    out_.what = call.describe();
  }

  void count() {
    out_.processes = subjects_.size();
    std::set<uint64_t> ids;
    std::map<uint64_t, uint64_t> calls;
    for (const Member& one : members_) {
      ids.insert(one.comm->id);
      uint64_t& most = calls[one.comm->id];
      if (const ReadCall* last = one.comm->last()) most = std::max(most, last->number);
    }
    out_.communicators = ids.size();
    for (const auto& [id, number] : calls) out_.calls += number;
  }

  void healthy() {
    size_t ended = 0;
    for (const Subject& one : subjects_)
      ended += one.life == Life::ended || one.record.ended_in_order;
    set(Finding::healthy,
        fmt::format(
            "nothing is wrong: {} process{}, {} communicator{}, {} call{}; {}", out_.processes,
            out_.processes == 1 ? "" : "es", out_.communicators, out_.communicators == 1 ? "" : "s",
            out_.calls, out_.calls == 1 ? "" : "s",
            ended == subjects_.size() ? "all have ended in order" : "nobody waits for long"));
  }

  // ---------------------------------------------------------------- failures

  bool of_failure() {
    Member first;
    for (const Member& one : members_) {
      const ReadFailure& failure = one.comm->failure;
      if (failure.code == TUTTI_OK) continue;
      if (!first || failure.at_ns < first.comm->failure.at_ns) first = one;
    }
    if (!first) return false;
    first = cause_of(first);
    const ReadFailure& failure = first.comm->failure;
    const Member culprit = member(first.comm->id, failure.rank);
    const ReadCall* const call = failed_call(first);
    set_people(culprit, failure.rank, first);
    if (call != nullptr) set_call(*call);
    out_.why = failure.text;
    if (failure.code == TUTTI_PEER_FAILED && culprit == first) {  // it is itself cut off
      set(Finding::failed,
          fmt::format("{} failed {}", name(first), failure.text) + which(*first.comm));
    } else if (failure.code == TUTTI_PEER_FAILED && culprit) {
      of_lost_peer(first, culprit);
    } else if (kind_of(failure) == Finding::mismatch && call != nullptr &&
               of_mismatch({first, call})) {
      return true;
    } else if (failure.code == TUTTI_TIMEOUT && culprit && call != nullptr) {
      of_absent({first, call}, culprit, "until the deadline");
    } else {
      set(kind_of(failure),
          fmt::format("{} failed {}", name(first), failure.text) + which(*first.comm));
    }
    return true;
  }

  // Who loses a rank that has ended because of a failure of its own has found the consequence.
  Member cause_of(Member one) const {
    for (size_t steps = 0; steps < members_.size(); ++steps) {
      const ReadFailure& failure = one.comm->failure;
      if (failure.code != TUTTI_PEER_FAILED && failure.code != TUTTI_ABORTED) break;
      Member earlier;
      for (const Member& other : members_) {
        const Member lost = member(one.comm->id, failure.rank);
        const ReadFailure& own = other.comm->failure;
        if (!lost || other.subject != lost.subject || own.code == TUTTI_OK) continue;
        const bool returns = other.comm->id == one.comm->id && own.rank == one.comm->rank &&
                             own.code == failure.code;
        if (!returns && (!earlier || own.at_ns < earlier.comm->failure.at_ns)) earlier = other;
      }
      if (!earlier || earlier == one) break;
      one = earlier;
    }
    return one;
  }

  // What the rank was in when its communicator failed.
  static const ReadCall* failed_call(const Member& one) {
    const ReadCall* found = nullptr;
    for (const ReadCall& call : one.comm->calls) {
      if (call.state != record::State::failed) continue;
      if (found == nullptr || one.comm->wait_of(call) != nullptr) found = &call;
    }
    return found;
  }

  void of_lost_peer(const Member& finder, const Member& lost) {
    const std::string how = over_link();
    const bool lives = lost.subject->life == Life::running || lost.subject->life == Life::stopped;
    // It has found a failure itself: both ends of a cut, for each of whom the other is lost.
    if (lives || lost.comm->failure.code != TUTTI_OK) {
      set(Finding::failed,
          fmt::format("{} lost its connection to {}{}, which {}, {}: {}", name(finder), name(lost),
                      how, lives ? "lives" : "lived on", place(lost), out_.why));
      return;
    }
    const bool orderly = lost.subject->record.ended_in_order && lost.comm->open() == nullptr;
    set(orderly ? Finding::left : Finding::died,
        fmt::format("{} {} {}{}; {} found out{} {}", name(lost), end_of(*lost.subject), place(lost),
                    which(*lost.comm), short_name(finder), how,
                    place(finder) == place(lost) ? "in the same call" : place(finder)));
  }

  // `open` is, or was, waited in for `culprit`.
  void of_absent(const Open& open, const Member& culprit, const std::string& how_long) {
    set_people(culprit, culprit.comm->rank, open.member);
    set_call(*open.call);
    const std::string waiter =
        fmt::format("; {} waited for it{} {}", short_name(open.member), over_link(), how_long);
    const std::string on = which(*culprit.comm);
    const ReadCall* const last = culprit.comm->last();
    const ReadCall* const inside = culprit.comm->open();
    const bool entered = inside != nullptr && inside->number == open.call->number;
    const std::string where =
        entered           ? "in " + inside->describe()
        : last == nullptr ? "before its first call"
                          : "after " + last->describe() + ", before " + open.call->describe();
    if (culprit.subject->life == Life::stopped) {
      set(Finding::stopped, fmt::format("{} is stopped, by a signal or a debugger, {}{}{}",
                                        name(culprit), where, on, waiter));
    } else if (culprit.subject->record.ended_in_order || culprit.comm->freed) {
      set(Finding::left,
          fmt::format("{} {} {}{}{}", name(culprit),
                      culprit.subject->record.ended_in_order ? "has ended by exit"
                                                             : "has freed the communicator",
                      where, on, waiter));
    } else if (has_died(*culprit.subject) && how_long != "until the deadline" && !all_ended()) {
      set(Finding::died,
          fmt::format("{} {} {}{}{}", name(culprit), end_of(*culprit.subject), where, on, waiter));
    } else if (entered) {
      set(Finding::stuck, fmt::format("{} is in {} but sends nothing more{}{}", name(culprit),
                                      inside->describe(), on, waiter));
    } else if (open.call->number == 0) {
      set(Finding::late, fmt::format("{} takes no part in {} of {}{}: it is {}{}", name(culprit),
                                     open.call->describe(), name(open.member), on,
                                     doing(*culprit.subject), waiter));
    } else if (last != nullptr && last->number > open.call->number) {
      set(Finding::stuck,
          fmt::format("{} is already {}{}{}", name(culprit), place(culprit), on, waiter));
    } else {
      set(Finding::late, fmt::format("{} has not entered {}{}: {}{}", name(culprit),
                                     open.call->describe(), on, latest_of(culprit), waiter));
    }
  }

  std::string latest_of(const Member& one) const {
    const ReadCall* const last = one.comm->last();
    std::string text =
        last == nullptr ? "it has not made any call" : "its latest is " + last->describe();
    if (last != nullptr) {
      const int64_t then = last->left_ns != 0 ? last->left_ns : last->entered_ns;
      text += fmt::format(", {} before", duration(seen_ns() - then));
    }
    const Open elsewhere = longest_open(*one.subject);
    if (elsewhere && elsewhere.member.comm != one.comm)
      text += ", and it is in " + elsewhere.call->describe() + " on another communicator";
    return text;
  }

  std::string doing(const Subject& subject) const {
    const Open open = longest_open(subject);
    return open ? "in " + open.call->describe() : "in no call";
  }

  // When the communicators failed, or now.
  int64_t seen_ns() const {
    int64_t first = 0;
    for (const Member& one : members_) {
      const ReadFailure& failure = one.comm->failure;
      if (failure.code != TUTTI_OK && (first == 0 || failure.at_ns < first)) first = failure.at_ns;
    }
    return first != 0 ? first : now_ns_;
  }

  // ---------------------------------------------------------------- deaths

  bool all_ended() const {
    return std::all_of(subjects_.begin(), subjects_.end(),
                       [](const Subject& one) { return one.life == Life::ended; });
  }

  // Somebody is gone, and nobody has found out. Where all were killed and nobody knows who was
  // first, who waited for whom says more.
  bool of_deaths(bool first_known) {
    const bool all = all_ended();
    for (const Subject& subject : subjects_) {
      if (!has_died(subject) && subject.ending.empty()) continue;
      if (first_known && all && subject.ending.empty()) continue;
      for (const ReadComm& comm : subject.record.comms) {
        if (comm.freed) continue;
        const Member dead{&subject, &comm};
        out_.who = person(dead);
        out_.comm = comm.id;
        out_.nranks = comm.nranks;
        out_.link = comm.transport;
        if (comm.open() != nullptr) set_call(*comm.open());
        const bool alone = all && subject.ending.empty();
        set(Finding::died, fmt::format("{} {} {}{}{}", name(dead), end_of(subject), place(dead),
                                       which(comm), alone ? ", and so have all others" : ""));
        return true;
      }
    }
    return false;
  }

  // ---------------------------------------------------------------- who waits for whom

  bool of_waits() {
    Open longest;
    for (const Subject& subject : subjects_) {
      const Open open = longest_open(subject);
      if (!open || (longest && open.since_ns() >= longest.since_ns())) continue;
      const bool ended = subject.life == Life::ended;
      if (ended ? open.wait() == nullptr && !has_died(subject)
                : now_ns_ - open.since_ns() < long_wait_ns)
        continue;
      longest = open;
    }
    if (!longest) return false;
    if (of_mismatch(longest)) return true;
    follow(longest);
    return true;
  }

  // Ranks whose calls of one number differ: one whose call the fewest make, and one that makes
  // another.
  bool of_mismatch(const Open& open) {
    if (open.call->number == 0) return false;
    std::vector<Open> all;
    for (const Member& one : members_) {
      if (one.comm->id != open.member.comm->id) continue;
      for (const ReadCall& call : one.comm->calls)
        if (call.number == open.call->number) all.push_back({one, &call});
    }
    const auto differ = [](const Open& a, const Open& b) {
      return !a.call->signature.same_call(b.call->signature);
    };
    const auto others = [&](const Open& one) {
      return std::count_if(all.begin(), all.end(), [&](auto& other) { return differ(one, other); });
    };
    // Of two ranks that differ the second.
    const auto odd = std::max_element(all.begin(), all.end(), [&](auto& a, auto& b) {
      return std::pair(others(a), a.member.comm->rank) < std::pair(others(b), b.member.comm->rank);
    });
    if (odd == all.end() || others(*odd) == 0) return false;
    const auto usual = std::min_element(all.begin(), all.end(), [&](auto& a, auto& b) {
      return std::pair(!differ(*odd, a), others(a)) < std::pair(!differ(*odd, b), others(b));
    });
    set_people(odd->member, odd->member.comm->rank, usual->member);
    set_call(*odd->call);
    set(Finding::mismatch,
        fmt::format("{} makes {}{}, but {} makes {}: all ranks must make the same call",
                    name(odd->member), odd->call->describe(), which(*odd->member.comm),
                    name(usual->member), usual->call->signature.describe()));
    return true;
  }

  // For whom a call waits.
  int awaited(const Open& open) const {
    const ReadCall& call = *open.call;
    if (call.number == 0) {
      const int peer = open.wait() != nullptr ? open.wait()->peer : call.peer;
      return peer == record::any_rank ? -1 : peer;
    }
    const ReadComm& comm = *open.member.comm;
    const auto is_behind = [&](int rank) {
      const Member one = member(comm.id, rank);
      const ReadCall* const last = one ? one.comm->last() : nullptr;
      return !one || last == nullptr || last->number < call.number;
    };
    const int named = open.wait() != nullptr ? open.wait()->peer : -1;
    if (named >= 0 && is_behind(named)) return named;
    for (int rank = 0; rank < comm.nranks; ++rank)
      if (rank != comm.rank && is_behind(rank)) return rank;
    return named;
  }

  // From call to call, until one waits for a rank that waits for nobody, or for itself.
  void follow(const Open& start) {
    std::vector<Open> path{start};
    const std::string how_long = "for " + duration(now_ns_ - start.since_ns());
    for (;;) {
      const Open& open = path.back();
      const int rank = awaited(open);
      if (rank < 0) return of_nobody(open, how_long);
      const Member peer = member(open.member.comm->id, rank);
      if (!peer) return of_no_record(open, rank, how_long);
      const bool absent = peer.subject->life == Life::stopped || has_left(peer);
      const Open next = absent ? Open() : next_of(open, peer);
      if (!next) {
        const Open nearest = direct(open, rank);
        return of_absent(nearest, peer, "for " + duration(now_ns_ - nearest.since_ns()));
      }
      const auto found = std::find_if(path.begin(), path.end(), [&](const Open& one) {
        return one.member == next.member && one.call == next.call;
      });
      if (found != path.end()) return of_cycle(path, size_t(found - path.begin()), how_long);
      path.push_back(next);
    }
  }

  // The call, or the same of a member that waits for `rank` itself, where there is one: it knows
  // the link.
  Open direct(const Open& open, int rank) const {
    if (open.wait() != nullptr && open.wait()->peer == rank) return open;
    for (const Member& one : members_) {
      if (one.comm->id != open.member.comm->id || one.comm->open() == nullptr) continue;
      const Open other{one, one.comm->open()};
      const bool same = other.call->number == open.call->number;
      if (same && other.wait() != nullptr && other.wait()->peer == rank) return other;
    }
    return open;
  }

  bool has_left(const Member& one) const {
    return one.comm->freed || one.subject->record.ended_in_order ||
           (has_died(*one.subject) && !all_ended());
  }

  // What keeps the peer from taking part in the call.
  Open next_of(const Open& open, const Member& peer) const {
    if (const ReadCall* inside = peer.comm->open()) {
      const Open same{peer, inside};
      if (inside->number != open.call->number || awaited(same) >= 0) return same;
      return {};
    }
    const Open elsewhere = longest_open(*peer.subject);
    return elsewhere && now_ns_ - elsewhere.since_ns() >= long_wait_ns ? elsewhere : Open();
  }

  void of_nobody(const Open& open, const std::string& how_long) {
    set_people(open.member, open.member.comm->rank, open.member);
    set_call(*open.call);
    const bool any = open.call->number == 0 && open.call->peer == record::any_rank;
    set(Finding::stuck, fmt::format("{} is in {}{} {}, and {}", name(open.member),
                                    open.call->describe(), which(*open.member.comm), how_long,
                                    any ? "none sends it" : "no record says for whom it waits"));
  }

  void of_no_record(const Open& open, int rank, const std::string& how_long) {
    set_people({}, rank, open.member);
    set_call(*open.call);
    set(Finding::late,
        fmt::format("rank {}, for which {} has waited {} in {}{}{}, has left no record here", rank,
                    name(open.member), how_long, open.call->describe(), which(*open.member.comm),
                    over_link()));
  }

  void of_cycle(const std::vector<Open>& path, size_t from, const std::string& how_long) {
    const Open& first = path[from];
    const Open& last = path.back();
    const bool several = std::any_of(path.begin() + ptrdiff_t(from), path.end(), [&](auto& one) {
      return one.member.comm->id != first.member.comm->id;
    });
    const bool messages = std::any_of(path.begin() + ptrdiff_t(from), path.end(),
                                      [](auto& one) { return one.call->number == 0; });
    if (!several && !messages) return of_absent(last, first.member, how_long);
    set_people(last.member, last.member.comm->rank, first.member);
    set_call(*first.call);
    const Open& second = path[from + 1 < path.size() ? from + 1 : from];
    set(Finding::deadlock,
        fmt::format("{} waits in {} for {}, which waits in {}{}: a deadlock{}, {}",
                    name(first.member), first.call->describe(), name(second.member),
                    second.call->describe(), several ? " on another communicator" : "",
                    several ? " across communicators" : "", how_long));
  }

  const std::vector<Subject>& subjects_;
  int64_t now_ns_;
  std::vector<Member> members_;
  int most_ranks_ = 0;
  Diagnosis out_;
};

}  // namespace

const char* name_of(Finding finding) {
  static constexpr const char* names[] = {"healthy", "died",     "left",     "stopped", "late",
                                          "stuck",   "mismatch", "deadlock", "failed"};
  return names[size_t(finding)];
}

Diagnosis diagnose(std::vector<Subject> subjects, int64_t now_ns) {
  const std::vector<std::vector<Subject>> jobs = jobs_of(std::move(subjects));
  if (jobs.empty()) {
    Diagnosis none;
    none.sentence = "nothing is wrong: no process has made a communicator";
    return none;
  }
  const auto latest = std::max_element(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) {
    return latest_ns(a) < latest_ns(b);
  });
  Diagnosis found = Job(*latest, now_ns != 0 ? now_ns : latest_ns(*latest)).diagnose();
  found.other_jobs = jobs.size() - 1;
  return found;
}

}  // namespace tutti::doctor
