#include "lib/comm/survivors.h"

#include <algorithm>
#include <utility>

#include "lib/control/bytes.h"
#include "lib/control/wire.h"

namespace tutti {

namespace {

// 0 magic (1)  1 what (1)  2 zero (2)  4 number (4), then the text.
constexpr uint8_t text_magic = 0xa7;
constexpr size_t head_bytes = 8;
enum class What : uint8_t { text = 0, alarm = 1 };

// A rank that sleeps looks at least so often whether another one has died.
constexpr uint64_t look_ns = 2'000'000;
// What is said last is out by then, or its receiver does not take anything.
constexpr uint64_t drain_ns = 20'000'000;

std::string with_head(What what, uint32_t number, std::string_view text) {
  std::string whole(head_bytes, '\0');
  auto* at = reinterpret_cast<uint8_t*>(whole.data());
  at[0] = text_magic;
  at[1] = uint8_t(what);
  put_le<uint32_t>(at + 4, number);
  return whole.append(text);
}

// For certain: it does not go on by itself.
bool is_dead(Presence presence) { return presence == Presence::dead || presence == Presence::left; }

bool is_text(std::string_view mail) {
  return mail.size() >= head_bytes && uint8_t(mail[0]) == text_magic;
}

}  // namespace

Survivors::Survivors(Connection& connection)
    : connection_(connection),
      presence_(size_t(connection.nranks), Presence::here),
      decides_(size_t(connection.nranks)),
      texts_(size_t(connection.nranks)) {}

RankSet Survivors::failed() {
  pump(nullptr);
  RankSet failed(nranks());
  for (int rank = 0; rank < nranks(); ++rank) {
    const Presence presence = presence_[size_t(rank)];
    if (presence != Presence::here && presence != Presence::left) failed.add(rank);
  }
  return failed;
}

void Survivors::move_on() {
  if (connection_.link != nullptr) connection_.link->move_on();
}

// ---------------------------------------------------------------- mail

bool Survivors::pump(Agreement* running) {
  bool moved = false;
  RankSet gone(nranks());
  for (bool again = true; std::exchange(again, false);) {  // who is lost with others is found then
    for (int rank = 0; rank < nranks(); ++rank) {
      if (rank == this->rank() || !is_here(rank)) continue;
      // First: what it has sent before it died can be taken after.
      const Presence found = connection_.link->presence(rank, now_ns());
      for (std::string mail; connection_.link->take_mail(rank, &mail); moved = true)
        sort(rank, std::move(mail), running);
      if (found == Presence::here) continue;
      presence_[size_t(rank)] = found;
      gone.add(rank);
      moved = again = true;
    }
  }
  if (running != nullptr) tell(*running, gone);
  return moved;
}

void Survivors::tell(Agreement& running, const RankSet& gone) {
  RankSet lost(nranks());
  bool cut_off = false;
  for (const int rank : gone.ranks()) {
    const Presence found = presence_[size_t(rank)];
    if (is_dead(found)) {
      running.died(rank, now_ns());
    } else {
      lost.add(rank);
      cut_off = cut_off || found == Presence::cut_off;
    }
  }
  if (lost.empty()) return;
  if (cut_off) {
    running.cut_off(lost, near(), now_ns());
  } else {
    running.lost(lost, now_ns());
  }
}

RankSet Survivors::near() const {
  RankSet near(nranks());
  for (int rank = 0; rank < nranks(); ++rank) {
    const bool own = rank == this->rank();
    if (own || (is_here(rank) && !connection_.link->is_on_other_host(rank))) near.add(rank);
  }
  return near;
}

void Survivors::sort(int from, std::string mail, Agreement* running) {
  uint32_t number = 0;
  const bool text = is_text(mail);
  if (text) {
    number = get_le<uint32_t>(reinterpret_cast<const uint8_t*>(mail.data()) + 4);
  } else if (!Agreement::number_of(mail, &number).ok()) {
    return;
  }
  const auto behind = int32_t(number - number_);
  if (behind < 0) return;
  if (behind > 0) return later_.push_back({from, std::move(mail)});
  if (!text) {
    decides_[size_t(from)] = true;
    if (running != nullptr) return running->receive(from, mail, now_ns());
    return later_.push_back({from, std::move(mail)});
  }
  const std::string_view content = std::string_view(mail).substr(head_bytes);
  if (What(mail[1]) == What::text) {
    texts_[size_t(from)].emplace_back(content);
    return;
  }
  Status why;
  const auto* bytes = reinterpret_cast<const uint8_t*>(content.data());
  const Status parsed = wire::parse_status({bytes, content.size()}, &why);
  if (!parsed.ok()) why = {parsed.code(), "from " + rank_name(from) + ": " + parsed.text(), from};
  if (alarm_.ok()) alarm_ = std::move(why);
}

void Survivors::send(Agreement& running) {
  for (const Agreement::Letter& letter : running.take_letters()) {
    if (is_here(letter.to)) connection_.link->post_mail(letter.to, letter.text);
  }
}

void Survivors::look_until(uint64_t limit_ns, Agreement* running,
                           const std::function<bool()>& done) {
  for (;;) {
    const bool moved = pump(running);
    const uint64_t now = now_ns();
    if (running != nullptr) {
      running->advance(now);
      send(*running);
    }
    if (done() || now >= limit_ns) return;
    if (moved) continue;
    const uint64_t due_ns = running != nullptr ? running->due_ns() : never_ns;
    connection_.link->sleep_for_mail(std::min({limit_ns, due_ns, now + look_ns}));
  }
}

void Survivors::drain() {
  if (connection_.link == nullptr) return;
  look_until(later_ns(now_ns(), drain_ns), nullptr, [&] {
    for (int rank = 0; rank < nranks(); ++rank) {
      if (rank != this->rank() && is_here(rank) && !connection_.link->mail_is_out(rank))
        return false;
    }
    return true;
  });
}

// ---------------------------------------------------------------- deciding

Status Survivors::decide(Matter matter, const RankSet& members, uint64_t value, uint64_t limit_ns,
                         Decision* out) {
  Agreement::Question question;
  question.matter = matter;
  question.number = number_;
  question.members = members;
  question.nranks = nranks();
  question.self = rank();
  question.value = value;
  question.limit_ns = limit_ns;
  Agreement running(std::move(question), now_ns());
  for (Letter& letter : std::exchange(later_, {}))
    sort(letter.from, std::move(letter.text), &running);
  RankSet gone(nranks());
  for (int rank = 0; rank < nranks(); ++rank) {
    if (!is_here(rank)) gone.add(rank);
  }
  tell(running, gone);
  if (connection_.link != nullptr) {
    look_until(never_ns, &running, [&] { return running.ended(); });
    next();
    drain();
  }
  if (running.verdict() == nullptr) return running.failed();
  *out = *running.verdict();
  // Who was left out and comes later must not take those that have left by then for dead.
  for (const int rank : (members - out->present).ranks())
    if (!is_dead(presence_[size_t(rank)])) move_on();
  return {};
}

void Survivors::next() {
  ++number_;
  decides_.assign(decides_.size(), false);
  for (auto& texts : texts_) texts.clear();
  alarm_ = {};
  for (Letter& letter : std::exchange(later_, {}))
    sort(letter.from, std::move(letter.text), nullptr);
}

// ---------------------------------------------------------------- exchanging

Status Survivors::missed(int rank) const {
  if (!alarm_.ok()) return alarm_;
  if (!is_here(rank))
    return {TUTTI_PEER_FAILED, rank_name(rank) + " has gone while survivors met", rank};
  if (decides_[size_t(rank)] && texts_[size_t(rank)].empty()) {
    return {TUTTI_ABORTED, rank_name(rank) + " could not make the new communicator", rank};
  }
  return {};
}

void Survivors::put(int to, std::string_view text) {
  if (is_here(to)) connection_.link->post_mail(to, with_head(What::text, number_, text));
}

Status Survivors::get(int from, uint64_t deadline_ns, std::string* text) {
  auto& texts = texts_[size_t(from)];
  look_until(deadline_ns, nullptr, [&] { return !texts.empty() || !missed(from).ok(); });
  if (texts.empty()) {
    TUTTI_TRY(missed(from));
    return {TUTTI_TIMEOUT, rank_name(from) + " did not answer while survivors met", from};
  }
  *text = std::move(texts.front());
  texts.pop_front();
  return {};
}

void Survivors::alarm(const RankSet& members, const Status& why) {
  for (const int to : members.ranks()) {
    if (to == rank() || !is_here(to)) continue;
    connection_.link->post_mail(to, with_head(What::alarm, number_, wire::encode_status(why)));
  }
}

Status Survivors::look(const RankSet& members) {
  pump(nullptr);
  for (const int one : members.ranks()) {
    if (one != rank()) TUTTI_TRY(missed(one));
  }
  return {};
}

}  // namespace tutti
