#include "lib/slots/slot_link.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>

#include "lib/base/clock.h"
#include "lib/base/mapping.h"
#include "lib/base/printable.h"

namespace tutti::slots {

namespace {

constexpr uint64_t watch_period_ns = 5'000'000;

// Not the FUTEX_PRIVATE forms: the word lies in memory that processes share.
void futex_wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, uint64_t timeout_ns) {
  const timespec timeout{time_t(timeout_ns / 1'000'000'000u), long(timeout_ns % 1'000'000'000u)};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, expected, &timeout, nullptr,
          0);
}

// Registers once per process: the barrier reaches only registered processes.
bool membarrier_registered() {
  static const bool done =
      syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  return done;
}

// When the library is loaded, if the process has one thread then: with more of them the kernel
// waits for a grace period of RCU, some 16 ms.
[[maybe_unused]] const bool registered_at_load = __libc_single_threaded && membarrier_registered();

}  // namespace

uint32_t second_digest(const CallSignature& signature) {
  return uint32_t(signature_hash(signature));
}

std::string rank_calls(int rank, const CallMark& mark) {
  return rank_name(rank) + " calls " + mark.signature.describe();
}

std::vector<int> group_of(const LinkSetup& setup, uint32_t* self) {
  std::vector<int> ranks;
  for (int rank = 0; rank < setup.exchange->nranks(); ++rank) {
    if (rank == setup.exchange->rank()) *self = uint32_t(ranks.size());
    if (rank == setup.exchange->rank() || setup.peers[rank]) ranks.push_back(rank);
  }
  return ranks;
}

SlotLink::SlotLink(SlotLinkParts parts)
    : slots_(parts.segment.geometry().slots),
      slice_bytes_(parts.segment.geometry().slice_bytes),
      most_prefetched_(std::min<size_t>(parts.write_prefetch_bytes, slice_bytes_ - 1)),
      outgoing_(parts.comm_nranks),
      incoming_(parts.comm_nranks),
      carries_(parts.comm_nranks),
      segment_(parts.segment),
      self_(parts.self),
      own_(&segment_.rank(self_)),
      name_(std::move(parts.name)),
      mapping_(std::move(parts.mapping)),
      watch_(std::move(parts.watch)),
      ranks_(std::move(parts.ranks)),
      local_(parts.comm_nranks, -1),
      mail_(segment_, self_),
      watched_(ranks_.size()) {
  membarrier_registered();
  for (uint32_t local = 0; local < ranks_.size(); ++local) {
    local_[ranks_[local]] = int(local);
    if (local == self_) continue;
    others_doorbells_.push_back(&segment_.rank(local).doorbell);
    Outgoing& out = outgoing_[ranks_[local]];
    out.lines = segment_.slot_lines(self_, local);
    out.data = segment_.slot_data(self_, local);
    out.credit_line = &segment_.credit(self_, local);
    out.local = local;
    Incoming& in = incoming_[ranks_[local]];
    in.lines = segment_.slot_lines(local, self_);
    in.data = segment_.slot_data(local, self_);
    in.credit_line = &segment_.credit(local, self_);
    in.local = local;
  }
  if (ranks_.size() == parts.comm_nranks) cells_.emplace(segment_, self_);
}

SlotLink::~SlotLink() { leave(false); }

void SlotLink::leave(bool in_call) noexcept {
  if (in_call) return abandon_call();
  own_->left_in.store(own_->epoch.load(std::memory_order_relaxed), std::memory_order_relaxed);
  store(own_->left, moved_on_ ? 2u : 1u, std::memory_order_release);
  wake_all();
}

// As abort() with a status that says so, but nothing is allocated.
void SlotLink::abandon_call() noexcept {
  AbortRecord& record = segment_.abort_record();
  if (!compare_exchange(record.state, 0u, 1u)) return;
  will_write(&record.code, sizeof(record) - offsetof(AbortRecord, code));
  record.code = TUTTI_PEER_FAILED;
  record.rank = ranks_[self_];
  record.call = own_->epoch.load(std::memory_order_relaxed);
  char* at = record.text;
  const auto append = [&at](std::string_view text) {
    at = std::copy(text.begin(), text.end(), at);
  };
  const auto append_number = [&](uint64_t number) {
    at = std::to_chars(at, record.text + AbortRecord::text_bytes, number).ptr;
  };
  append("rank ");
  append_number(uint64_t(record.rank));
  append(" exited in the middle of a call; its last was ");
  append_number(record.call);
  record.length = uint32_t(at - record.text);
  publish_abort(record);
}

Next SlotLink::next(int peer, const CallMark& mark) {
  const Incoming& ring = incoming_[peer];
  const SlotLine& line = ring.lines[ring.received & (slots_ - 1)];
  const uint64_t flag = load(line.flag, std::memory_order_acquire);
  if (flag_sequence(flag) != ring.received + 1) return Next::nothing;
  will_read(&line.second, sizeof(line.second));
  const bool same =
      flag_digest(flag) == mark.digest && line.second == second_digest(mark.signature);
  return same ? Next::this_one : Next::another;
}

std::span<const std::byte> SlotLink::peek_rest(int peer, size_t most, size_t granule) {
  const Incoming& ring = incoming_[peer];
  const size_t there = ring.bytes - ring.offset;
  const std::byte* const data = data_of(ring, ring.received & (slots_ - 1));
  will_read(data + ring.offset, there);
  return {data + ring.offset, whole_granules(there < most ? there : most, granule)};
}

std::span<const std::byte> SlotLink::refuse_slot(int peer) {
  corrupt_ = peer;
  return {};
}

std::span<const std::byte> SlotLink::peek_carried(int peer, size_t most, size_t granule) {
  uint32_t& carried = incoming_[peer].carried;
  std::vector<std::byte>& carry = carries_[peer];
  if (carry.size() < granule) carry.resize(granule);
  while (carried < granule) {
    const std::span<const std::byte> data = peek_slot(peer, granule - carried, 1);
    if (data.empty()) return {};
    std::memcpy(carry.data() + carried, data.data(), data.size());
    carried += uint32_t(data.size());
    consume_slot(peer, data.size());
  }
  return {carry.data(), whole_granules(std::min<size_t>(carried, most), granule)};
}

void SlotLink::consume_carried(int peer, size_t bytes) {
  uint32_t& carried = incoming_[peer].carried;
  std::vector<std::byte>& carry = carries_[peer];
  carried -= uint32_t(bytes);
  std::memmove(carry.data(), carry.data() + bytes, carried);
}

namespace {

// Word `i` of what was just stored in words. The asm keeps the compiler from merging loads: wider
// loads defeat store-to-load forwarding.
inline uint64_t word_of(const void* from, size_t i) {
  uint64_t word;
  std::memcpy(&word, static_cast<const std::byte*>(from) + 8 * i, sizeof(word));
  asm("" : "+r"(word));
  return word;
}

}  // namespace

void SlotLink::begin(const CallMark& mark) {
  constexpr size_t words = sizeof(CallSignature) / 8;
  mark_.epoch = mark.epoch;
#pragma GCC unroll 4
  for (size_t i = 0; i < words; ++i) {
    const uint64_t word = word_of(&mark.signature, i);
    std::memcpy(reinterpret_cast<std::byte*>(&mark_.signature) + 8 * i, &word, sizeof(word));
  }
  mark_.digest = mark.digest;
  mark_.peer = mark.peer;
  digest_ = mark.digest;
  second_ = 0;
  mismatched_peer_ = -1;
  results_.forget();
  suspect_ = -1;
  if (mark.epoch == 0) return;  // point to point: peers compare digests only
  RankLines& lines = *own_;
  CallLine& call = lines.calls[mark.epoch % RankLines::kept];
  store(call.epoch, uint64_t{0}, std::memory_order_relaxed);
  fence(std::memory_order_release);
#pragma GCC unroll 4
  for (size_t i = 0; i < words; ++i) {
    store(call.signature[i], word_of(&mark.signature, i), std::memory_order_relaxed);
  }
  store(call.epoch, mark.epoch, std::memory_order_release);
  store(lines.epoch, mark.epoch, std::memory_order_release);
}

uint64_t SlotLink::latest_epoch(uint32_t local) const {
  return load(segment_.rank(local).epoch, std::memory_order_acquire);
}

std::optional<CallMark> SlotLink::read_call(uint32_t local, uint64_t epoch) const {
  const CallLine& call = segment_.rank(local).calls[epoch % RankLines::kept];
  if (epoch == 0 || load(call.epoch, std::memory_order_acquire) != epoch) return std::nullopt;
  uint64_t words[sizeof(CallSignature) / 8];
  for (size_t i = 0; i < std::size(words); ++i) {
    words[i] = load(call.signature[i], std::memory_order_relaxed);
  }
  fence(std::memory_order_acquire);
  if (load(call.epoch, std::memory_order_relaxed) != epoch) return std::nullopt;
  CallMark mark;
  mark.epoch = epoch;
  std::memcpy(&mark.signature, words, sizeof(words));
  mark.digest = call_digest(epoch, mark.signature);
  return mark;
}

std::optional<CallMark> SlotLink::last_seen(int peer) const {
  if (local_[peer] < 0) return std::nullopt;
  return read_call(uint32_t(local_[peer]), latest_epoch(uint32_t(local_[peer])));
}

Status SlotLink::find_failure(uint64_t now_ns) {
  if (corrupt_ >= 0) {
    return {TUTTI_CORRUPT,
            rank_name(corrupt_) + " says that a slot of " + std::to_string(slice_bytes_) +
                " bytes holds " + std::to_string(incoming_[corrupt_].bytes),
            corrupt_, mark_.epoch};
  }
  Status found = compare_calls(now_ns);
  if (found.ok()) return find_dead(now_ns);
  if (found.code() != TUTTI_PEER_FAILED) return found;
  // The peer may have left because another rank died: then that death is the error to report.
  watched_ns_ = 0;
  Status dead = find_dead(now_ns);
  return dead.ok() ? found : dead;
}

Status SlotLink::inspect(uint64_t now_ns) {
  TUTTI_TRY(find_abort());
  Status found = find_failure(now_ns);
  if (found.code() != TUTTI_PEER_FAILED) return found;
  // A rank that has given a reason, and left or died, may have done both since the first look.
  if (reason_comes(now_ns)) return {};
  TUTTI_TRY(find_abort());
  return found;
}

// Another rank writes it, unless it has died in that.
bool SlotLink::reason_comes(uint64_t now_ns) {
  constexpr uint64_t most_ns = 20'000'000;
  if (load(segment_.abort_record().state, std::memory_order_acquire) != 1) return false;
  if (reason_awaited_ns_ == 0) reason_awaited_ns_ = now_ns;
  return now_ns - reason_awaited_ns_ < most_ns;
}

Status SlotLink::find_abort() const {
  const AbortRecord& record = segment_.abort_record();
  if (load(record.state, std::memory_order_acquire) != 2) return {};
  will_read(&record.code, sizeof(record) - offsetof(AbortRecord, code));
  const size_t length = std::min<size_t>(record.length, AbortRecord::text_bytes);
  return {tutti_status(record.code), printable({record.text, length}), record.rank, record.call};
}

Status SlotLink::compare_call(uint32_t local, const CallMark& mark, uint64_t now_ns) {
  const std::optional<CallMark> theirs = read_call(local, mark.epoch);
  if (!theirs || theirs->signature == mark.signature) return {};
  if (theirs->signature.same_call(mark.signature)) return compare_results(mark, now_ns);
  return {TUTTI_MISMATCH,
          "call " + std::to_string(mark.epoch) + ": " + rank_calls(ranks_[self_], mark) + ", but " +
              rank_calls(ranks_[local], *theirs),
          ranks_[local], mark.epoch};
}

Status SlotLink::compare_results(const CallMark& mark, uint64_t now_ns) {
  std::vector<Announced> peers;
  for (uint32_t local = 0; local < ranks_.size(); ++local) {
    if (local == self_) continue;
    const std::optional<CallMark> theirs = read_call(local, mark.epoch);
    if (!theirs || !theirs->signature.same_call(mark.signature)) continue;
    peers.push_back({ranks_[local], theirs->digest});
  }
  waits_for_results_ = true;
  return results_.judge(mark, ranks_[self_], peers, ranks_.size(), now_ns);
}

Status SlotLink::compare_earlier(uint32_t local) {
  for (uint64_t back = 1; back < RankLines::kept && back < mark_.epoch; ++back) {
    const std::optional<CallMark> mine = read_call(self_, mark_.epoch - back);
    if (mine) TUTTI_TRY(compare_call(local, *mine, 0));
  }
  return {};
}

Status SlotLink::compare_calls(uint64_t now_ns) {
  waits_for_results_ = false;
  int suspect = -1;
  for (uint32_t local = 0; local < ranks_.size(); ++local) {
    if (local == self_) continue;
    const int peer = ranks_[local];
    // Before its latest call: it may enter this one, end it and leave between the two looks.
    const bool gone = load(segment_.rank(local).left, std::memory_order_acquire) != 0;
    const uint64_t latest = latest_epoch(local);
    if (mark_.epoch != 0) {
      TUTTI_TRY(compare_call(local, mark_, now_ns));
      // One that differed before, on ranks that did not hear of it, may be why nothing comes.
      if (latest >= mark_.epoch) TUTTI_TRY(compare_earlier(local));
    }
    // Point to point: a peer inside a collective call that this rank has not entered will not
    // serve it. What it sent before is visible by now: no data at a second look is proof.
    const bool elsewhere = mark_.epoch == 0 && latest > own_->epoch.load();
    const std::optional<CallMark> theirs =
        elsewhere && peer == mark_.peer ? read_call(local, latest) : std::nullopt;
    if (theirs) {
      if (suspect_ == peer) {
        return {TUTTI_MISMATCH,
                rank_calls(ranks_[self_], mark_) + ", but " + rank_calls(peer, *theirs) +
                    " (call " + std::to_string(latest) + ")",
                peer, latest};
      }
      suspect = peer;
    }
    if (gone && mark_.epoch == 0 && peer == mark_.peer) {  // here, too, the second look is proof
      if (suspect_ == peer) {
        return {TUTTI_PEER_FAILED,
                rank_name(peer) + " has freed the communicator; rank " +
                    std::to_string(ranks_[self_]) + " is in " + mark_.signature.describe(),
                peer, mark_.epoch};
      }
      suspect = peer;
    }
    if (gone && mark_.epoch > latest) {
      return {TUTTI_PEER_FAILED,
              rank_name(peer) + " has freed the communicator, its last call was " +
                  std::to_string(latest) + "; rank " + std::to_string(ranks_[self_]) +
                  " is in call " + std::to_string(mark_.epoch),
              peer, mark_.epoch};
    }
  }
  suspect_ = suspect;
  if (mismatched_peer_ >= 0 && !waits_for_results_) {
    TUTTI_TRY(compare_earlier(uint32_t(local_[mismatched_peer_])));
    const std::optional<CallMark> theirs = last_seen(mismatched_peer_);
    std::string text = rank_calls(ranks_[self_], mark_) + ", but what rank " +
                       std::to_string(mismatched_peer_) + " sent belongs to another call";
    if (theirs && theirs->epoch == mark_.epoch) {
      text += ", or it made other calls before this one";
    } else if (theirs) {
      text += "; its latest is " + theirs->signature.describe();
    }
    return {TUTTI_MISMATCH, std::move(text), mismatched_peer_, mark_.epoch};
  }
  return {};
}

// In order, and has not entered a call since, as another thread may that runs while the process
// exits.
bool SlotLink::has_left(uint32_t local) const {
  const RankLines& lines = segment_.rank(local);
  return lines.left.load(std::memory_order_acquire) != 0 &&
         lines.epoch.load(std::memory_order_relaxed) <=
             lines.left_in.load(std::memory_order_relaxed);
}

Status SlotLink::find_dead(uint64_t now_ns) {
  if (watch_ == nullptr || now_ns - watched_ns_ < watch_period_ns) return {};
  watched_ns_ = now_ns;
  for (uint32_t local = 0; local < ranks_.size(); ++local) {
    // A rank that has left in order is no failure; compare_calls() finds those that left too early.
    // It may have left since the first look.
    if (local == self_ || has_left(local) || !watch_->dead(local) || has_left(local)) continue;
    return {TUTTI_PEER_FAILED,
            rank_name(ranks_[local]) + " died; its last call was " +
                std::to_string(latest_epoch(local)),
            ranks_[local], mark_.epoch};
  }
  return {};
}

void SlotLink::ring(std::atomic<uint32_t>& doorbell) {
  if (exchange(doorbell, 0u) != 0) futex_wake(doorbell);
}

void SlotLink::arm() {
  store(own_->doorbell, 1u, std::memory_order_seq_cst);
  if (membarrier_registered()) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

void SlotLink::disarm() { store(own_->doorbell, 0u, std::memory_order_relaxed); }

void SlotLink::sleep(uint64_t until_ns) {
  // Without the barrier a wake-up can be missed: then sleep only briefly.
  constexpr uint64_t unsure_ns = 200'000;
  const uint64_t now = now_ns();
  if (until_ns > now) {
    const uint64_t left = until_ns - now;
    futex_wait(own_->doorbell, 1, membarrier_registered() ? left : std::min(left, unsure_ns));
  }
  disarm();
}

void SlotLink::abort(const Status& reason) {
  AbortRecord& record = segment_.abort_record();
  if (!compare_exchange(record.state, 0u, 1u)) return;
  will_write(&record.code, sizeof(record) - offsetof(AbortRecord, code));
  record.code = reason.code();
  record.rank = reason.rank();
  record.call = reason.call();
  record.length = uint32_t(std::min(reason.text().size(), AbortRecord::text_bytes));
  std::memcpy(record.text, reason.text().data(), record.length);
  publish_abort(record);
}

void SlotLink::publish_abort(AbortRecord& record) noexcept {
  store(record.state, 2u, std::memory_order_release);
  // Pairs with arm(): a rank whose doorbell is not set yet sees the record before it sleeps.
  fence(std::memory_order_seq_cst);
  for (uint32_t local = 0; local < ranks_.size(); ++local) ring(segment_.rank(local).doorbell);
}

void SlotLink::post_mail(int peer, std::string_view text) {
  const auto local = uint32_t(local_[peer]);
  mail_.post(local, text);
  if (mail_.push(local)) wake(local);
}

bool SlotLink::take_mail(int peer, std::string* text) {
  const auto local = uint32_t(local_[peer]);
  bool moved = false;
  const bool took = mail_.take(local, text, &moved);
  if (mail_.push(local) || moved) wake(local);
  return took;
}

Presence SlotLink::presence(int peer, uint64_t now_ns) {
  constexpr uint64_t period_ns = 1'000'000;
  const auto local = uint32_t(local_[peer]);
  if (mail_.is_broken(local)) return Presence::lost;
  Watched& watched = watched_[local];
  if (watch_ != nullptr && !watched.dead && now_ns - watched.looked_ns >= period_ns) {
    watched.looked_ns = now_ns;
    watched.dead = watch_->dead(local);
  }
  // After the look at its process, which may have ended since it left.
  if (const uint32_t left = load(segment_.rank(local).left, std::memory_order_acquire); left != 0)
    return left == 1 ? Presence::left : Presence::lost;
  return watched.dead ? Presence::dead : Presence::here;
}

// Who waits for one peer's mail may be waited for by another one, whose mail goes on here.
void SlotLink::sleep_for_mail(uint64_t until_ns) {
  arm();
  bool moved = false;
  for (uint32_t local = 0; local < uint32_t(ranks_.size()); ++local) {
    if (local == self_ || !mail_.push(local)) continue;
    wake(local);
    moved = true;
  }
  if (moved || mail_.has_come()) return disarm();
  sleep(until_ns);
}

void SlotLink::post_note(const Note& note) {
  const std::lock_guard lock(note_mutex_);
  if (note == note_) return;
  note_ = note;
  NoteLines& lines = own_->note;
  uint64_t words[sizeof(Note) / 8];
  std::memcpy(words, &note, sizeof(words));
  const uint32_t sequence = lines.sequence.load(std::memory_order_relaxed);
  store(lines.sequence, sequence + 1, std::memory_order_relaxed);
  fence(std::memory_order_release);
  for (size_t i = 0; i < std::size(words); ++i) {
    store(lines.words[i], words[i], std::memory_order_relaxed);
  }
  store(lines.sequence, sequence + 2, std::memory_order_release);
}

Note SlotLink::read_note(int peer) const {
  constexpr int tries = 8;
  if (local_[peer] < 0) return {};
  const NoteLines& lines = segment_.rank(uint32_t(local_[peer])).note;
  uint64_t words[sizeof(Note) / 8];
  for (int i = 0; i < tries; ++i) {
    const uint32_t sequence = load(lines.sequence, std::memory_order_acquire);
    if (sequence % 2 != 0) continue;
    for (size_t word = 0; word < std::size(words); ++word) {
      words[word] = load(lines.words[word], std::memory_order_relaxed);
    }
    fence(std::memory_order_acquire);
    if (load(lines.sequence, std::memory_order_relaxed) != sequence) continue;
    Note note;
    std::memcpy(&note, words, sizeof(words));
    return note;
  }
  return {};
}

}  // namespace tutti::slots
