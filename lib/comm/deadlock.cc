#include "lib/comm/deadlock.h"

#include <dirent.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/base/process.h"
#include "lib/progress/in_flight.h"
#include "transports/registry.h"

namespace tutti::deadlock {

namespace {

// A wait shorter than this posts nothing; a longer one looks and posts once in a period.
constexpr uint64_t quiet_ns = 300'000'000;
constexpr uint64_t look_period_ns = 10'000'000;
constexpr uint64_t sure_ns = 1'000'000'000;

struct Registry {
  std::mutex mutex;
  std::vector<Member*> members;
};

// A forked child leaves those of its parent alone.
Registry& registry() { return process::own<Registry>(); }

// Whether the process has no thread but this one and the library's.
bool is_alone() {
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir("/proc/self/task"), closedir);
  if (tasks == nullptr) return false;
  uint32_t threads = 0;
  while (const dirent* const entry = readdir(tasks.get())) threads += entry->d_name[0] != '.';
  return threads == 1 + (in_flight::progress_thread_runs() ? 1u : 0u) + transport_threads();
}

}  // namespace

void add(Member* member) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.members.push_back(member);
}

void remove(Member* member) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  std::erase(r.members, member);
}

Status CycleSearch::look(const Link& link, const CallMark& mark, uint64_t now_ns) {
  if (mark.epoch != epoch_) start(mark, now_ns);
  if (now_ns - started_ns_ < quiet_ns || now_ns - looked_ns_ < look_period_ns) return {};
  looked_ns_ = now_ns;
  if (!posted_ || alone_) alone_ = is_alone();
  Note note;
  if (!gather(link, mark, &note)) {
    cycle_ns_ = 0;
  } else if (cycle_ns_ == 0) {
    cycle_ns_ = now_ns;
  }
  post(note);
  return cycle_ns_ != 0 && now_ns - cycle_ns_ >= sure_ns ? cycle(mark) : Status();
}

Status CycleSearch::cycle(const CallMark& mark) {
  found_ = true;
  const std::string text =
      rank_name(rank_) + " waits in call " + std::to_string(mark.epoch) + ", " +
      mark.signature.describe() + ", for rank " + std::to_string(closing_peer_) +
      ", which waits in call " + std::to_string(closing_note_.epoch) + ", " +
      closing_note_.signature.describe() +
      ", on another communicator, and that call cannot go on before this one: a deadlock across "
      "communicators; all ranks must make their calls on them in one order";
  return {TUTTI_MISMATCH, text, closing_peer_, mark.epoch};
}

void CycleSearch::start(const CallMark& mark, uint64_t now_ns) {
  epoch_ = mark.epoch;
  const uint64_t words[] = {seed_, mark.epoch};
  label_ = hash_of(words);
  started_ns_ = now_ns;
  looked_ns_ = 0;
  cycle_ns_ = 0;
  found_ = false;
}

bool CycleSearch::gather(const Link& link, const CallMark& mark, Note* note) {
  bool closes = false;
  std::vector<uint64_t> others;
  for (int peer = 0; peer < nranks_; ++peer) {
    if (peer == rank_) continue;
    const Note theirs = link.read_note(peer);
    if (theirs.empty() || theirs.entered >= mark.epoch || !needs_(peer)) continue;
    // The peer may have entered the call since.
    const std::optional<CallMark> seen = link.last_seen(peer);
    if (seen && seen->epoch >= mark.epoch) continue;
    for (const uint64_t label : theirs.labels()) {
      if (label != label_) {
        others.push_back(label);
      } else {
        closes = true;
        closing_peer_ = peer;
        closing_note_ = theirs;
      }
    }
  }
  // The least ones are kept, so that in a cycle of more waits than a note has room for some labels
  // go all the way round.
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  if (others.size() > Note::most_labels - 1) others.resize(Note::most_labels - 1);
  note->epoch = mark.epoch;
  note->signature = mark.signature;
  note->all_labels[0] = label_;
  std::copy(others.begin(), others.end(), note->all_labels.begin() + 1);
  note->count = uint32_t(1 + others.size());
  return closes;
}

void CycleSearch::post(const Note& note) {
  const void* const thread = this_thread();
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  posted_ = true;
  for (Member* const member : r.members) {
    if (member == own_) continue;
    if (member->rests_with(thread, alone_)) {
      member->post(note);
      member->label_ = label_;
    } else if (member->label_ == label_) {
      member->post({});
      member->label_ = 0;
    }
  }
}

void CycleSearch::leave() {
  posted_ = false;
  if (found_) return;
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  for (Member* const member : r.members) {
    if (member->label_ != label_) continue;
    member->post({});
    member->label_ = 0;
  }
}

}  // namespace tutti::deadlock
