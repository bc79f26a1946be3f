// Communicators derived from another one.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "lib/comm/comm.h"
#include "lib/comm/group_exchange.h"
#include "lib/control/agree.h"
#include "lib/control/host.h"

namespace tutti {

namespace {

// What a rank says of itself in a split.
struct Membership {
  int32_t color;
  int32_t key;
};
struct HostMembership {
  HostRecord host;
  int32_t key;
};

// What a rank says of the list it passed: a digest, and as many ranks as an error shows.
struct ListRecord {
  static constexpr size_t shown = 13;
  uint64_t digest = 0;
  uint32_t length = 0;
  int32_t first[shown] = {};

  explicit ListRecord(std::span<const int> ranks = {}) : length(uint32_t(ranks.size())) {
    std::vector<uint64_t> words(ranks.begin(), ranks.end());
    words.push_back(ranks.size());
    digest = hash_of(words);
    std::copy_n(ranks.begin(), std::min(ranks.size(), shown), first);
  }
  bool operator==(const ListRecord&) const = default;

  std::string describe() const {
    std::string text = length == 1 ? "rank" : "ranks";
    for (size_t i = 0; i < std::min<size_t>(length, shown); ++i) {
      text += (i == 0 ? " " : ", ") + std::to_string(first[i]);
    }
    return length > shown ? text + " ... (" + std::to_string(length) + ")" : text;
  }
};

template <class Entry>
std::vector<int> in_order(const std::vector<Entry>& places, auto&& belongs) {
  std::vector<int> members;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    if (belongs(places[rank])) members.push_back(int(rank));
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return places[size_t(a)].key < places[size_t(b)].key; });
  return members;
}

}  // namespace

template <class Entry>
Status Communicator::tell_entries(const Entry& mine, std::vector<Entry>* all) {
  const uint64_t deadline_ns = deadline_after_ms(connection_.settings.setup_ms);
  std::vector<std::string> texts;
  TUTTI_TRY(
      GroupExchange(*this, connection_.key)
          .allgather({reinterpret_cast<const char*>(&mine), sizeof(mine)}, deadline_ns, &texts));
  all->resize(texts.size());
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].size() != sizeof(Entry)) {
      return {TUTTI_MISMATCH, rank_name(rank) + " does not take part in the split", int(rank)};
    }
    std::memcpy(&(*all)[rank], texts[rank].data(), sizeof(Entry));
  }
  return {};
}

Status Communicator::tell_all(const Status& mine, std::string_view text,
                              std::vector<std::string>* all) {
  GroupExchange everybody(*this, connection_.key);
  return tutti::agree_on(everybody, mine, text, deadline_after_ms(connection_.settings.setup_ms),
                         all);
}

tutti_status Communicator::make_part(const std::vector<int>& members,
                                     std::unique_ptr<Communicator>* out) {
  Status made = create(std::make_unique<GroupExchange>(*this, members, connection_.key),
                       connection_.settings, out);
  if (made.ok()) return TUTTI_OK;
  if (made.rank() < 0 || size_t(made.rank()) >= members.size()) {
    Status of_this = look(members);  // perhaps of a rank that is no member
    return fail(of_this.ok() ? std::move(made) : std::move(of_this));
  }
  const int here = members[size_t(made.rank())];
  if (here == made.rank()) return fail(std::move(made));
  return fail({made.code(),
               rank_name(here) + ", which is " + std::to_string(made.rank()) +
                   " of the new communicator: " + made.text(),
               here});
}

tutti_status Communicator::split(int color, int key, std::unique_ptr<Communicator>* out) {
  if (Status closed = outside_group(); !closed.ok()) return fail(std::move(closed));
  std::vector<Membership> all;
  if (Status told = tell_entries(Membership{color, key}, &all); !told.ok()) {
    return fail(std::move(told));
  }
  if (color < 0) return TUTTI_OK;
  return make_part(in_order(all, [&](const Membership& one) { return one.color == color; }), out);
}

tutti_status Communicator::split_host(int key, std::unique_ptr<Communicator>* out) {
  if (Status closed = outside_group(); !closed.ok()) return fail(std::move(closed));
  HostMembership mine{{}, key};
  const Status known = HostRecord::own(&mine.host);
  std::vector<HostMembership> all;
  Status told = tell_entries(mine, &all);
  if (told.ok()) {
    GroupExchange everybody(*this, connection_.key);
    told = agree(everybody, known, deadline_after_ms(connection_.settings.setup_ms));
  }
  if (!told.ok()) return fail(std::move(told));
  const auto here = [&](const HostMembership& one) { return one.host.same_host(mine.host); };
  return make_part(in_order(all, here), out);
}

// First all members send their list to all others, so that two whose lists differ find out, unless
// neither list has the other rank.
tutti_status Communicator::create_group(std::vector<int> members,
                                        std::unique_ptr<Communicator>* out) {
  if (Status closed = outside_group(); !closed.ok()) return fail(std::move(closed));
  constexpr int tag = -3;  // users' tags are not negative
  const ListRecord mine(members);
  std::vector<ListRecord> lists(members.size());
  std::vector<Message> messages;
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i] == connection_.rank) continue;
    messages.push_back(Message::to_send(&mine, sizeof(mine), TUTTI_UINT8, members[i], tag));
    messages.push_back(Message::to_receive(&lists[i], sizeof(mine), TUTTI_UINT8, members[i], tag));
  }
  if (!messages.empty()) {
    const tutti_status told = run_on_host(messages, connection_.settings.setup_ms);
    if (told != TUTTI_OK) return told;
  }
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i] == connection_.rank || lists[i] == mine) continue;
    const std::string peer = std::to_string(members[i]);
    failures_.break_down({TUTTI_MISMATCH,
                          rank_name(connection_.rank) + " makes a group of " + mine.describe() +
                              ", rank " + peer + " one of " + lists[i].describe(),
                          members[i]},
                         "in tutti_comm_create_group()", 0);
    return fail(failures_.why());
  }
  return make_part(members, out);
}

}  // namespace tutti
