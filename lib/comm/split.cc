// New communicators out of one: the ranks of a group find each other by messages over the parent.
#include <algorithm>
#include <cstring>

#include "lib/comm/comm.h"

namespace tutti {

namespace {

// An exchange among some ranks of a communicator: a star around the group's first rank.
class GroupExchange final : public Exchange {
 public:
  GroupExchange(Communicator& parent, std::vector<int> members, const JobKey& key)
      : parent_(parent), members_(std::move(members)), key_(key) {
    const auto own = std::find(members_.begin(), members_.end(), parent.rank());
    rank_ = int(own - members_.begin());
  }

  int rank() const override { return rank_; }
  int nranks() const override { return int(members_.size()); }
  const JobKey& key() const override { return key_; }

  Status allgather(std::string_view mine, uint64_t deadline_ns,
                   std::vector<std::string>* all) override {
    all->assign(members_.size(), {});
    (*all)[size_t(rank_)] = mine;
    if (rank_ != 0) {
      TUTTI_TRY(put(0, mine, deadline_ns));
      for (std::string& text : *all) TUTTI_TRY(get(0, &text, deadline_ns));
      return {};
    }
    for (int r = 1; r < nranks(); ++r) TUTTI_TRY(get(r, &(*all)[size_t(r)], deadline_ns));
    for (int r = 1; r < nranks(); ++r) {
      for (const std::string& text : *all) TUTTI_TRY(put(r, text, deadline_ns));
    }
    return {};
  }

 private:
  static constexpr int tag = -2;  // users' tags are not negative
  static constexpr uint64_t most_bytes = 64 << 10;

  CallSettings settings(uint64_t deadline_ns) const {
    const uint64_t now = now_ns();
    const uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
    return {.timeout_ms = int64_t(left / 1'000'000u) + 1, .algorithm = {}, .unfused = false};
  }
  Status checked(tutti_status status) const {
    return status == TUTTI_OK ? Status() : parent_.last_error();
  }
  Status put(int member, std::string_view text, uint64_t deadline_ns) {
    const uint64_t bytes = text.size();
    const int peer = members_[size_t(member)];
    TUTTI_TRY(checked(parent_.send(&bytes, 8, TUTTI_UINT8, peer, tag, settings(deadline_ns))));
    return checked(parent_.send(text.data(), bytes, TUTTI_UINT8, peer, tag, settings(deadline_ns)));
  }
  Status get(int member, std::string* text, uint64_t deadline_ns) {
    uint64_t bytes = 0;
    const int peer = members_[size_t(member)];
    TUTTI_TRY(checked(parent_.recv(&bytes, 8, TUTTI_UINT8, peer, tag, settings(deadline_ns))));
    if (bytes > most_bytes) {
      return {TUTTI_CORRUPT, "rank " + std::to_string(peer) + " sent a text that is too long",
              peer};
    }
    text->resize(bytes);
    return checked(
        parent_.recv(text->data(), bytes, TUTTI_UINT8, peer, tag, settings(deadline_ns)));
  }

  Communicator& parent_;
  std::vector<int> members_;
  const JobKey& key_;
  int rank_;
};

struct Membership {
  int32_t color;
  int32_t key;
};

}  // namespace

tutti_status Communicator::split(int color, int key, std::unique_ptr<Communicator>* out) {
  const uint64_t deadline_ns = deadline_after_ms(settings_.setup_ms);
  std::vector<int> members(static_cast<size_t>(nranks_));
  for (int rank = 0; rank < nranks_; ++rank) members[size_t(rank)] = rank;

  const Membership mine{color, key};
  std::vector<std::string> all;
  Status gathered =
      GroupExchange(*this, members, key_)
          .allgather({reinterpret_cast<const char*>(&mine), sizeof(mine)}, deadline_ns, &all);
  if (!gathered.ok()) return fail(std::move(gathered));
  if (color < 0) return TUTTI_OK;

  std::vector<Membership> memberships(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].size() != sizeof(Membership)) {
      return fail({TUTTI_MISMATCH,
                   "rank " + std::to_string(rank) + " does not take part in the split", int(rank)});
    }
    std::memcpy(&memberships[rank], all[rank].data(), sizeof(Membership));
  }
  std::erase_if(members, [&](int rank) { return memberships[size_t(rank)].color != color; });
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return memberships[size_t(a)].key < memberships[size_t(b)].key;
  });
  Status made = create(std::make_unique<GroupExchange>(*this, members, key_), settings_, out);
  return made.ok() ? TUTTI_OK : fail(std::move(made));
}

}  // namespace tutti
