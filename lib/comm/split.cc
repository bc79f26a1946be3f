// New communicators out of one.
#include <algorithm>
#include <cstring>

#include "lib/comm/comm.h"
#include "lib/comm/group_exchange.h"

namespace tutti {

namespace {

struct Membership {
  int32_t color;
  int32_t key;
};

}  // namespace

tutti_status Communicator::split(int color, int key, std::unique_ptr<Communicator>* out) {
  if (grouping_) return fail({TUTTI_INVALID, "a group of messages is open"});
  const uint64_t deadline_ns = deadline_after_ms(settings_.setup_ms);
  const Membership mine{color, key};
  std::vector<std::string> all;
  Status gathered =
      GroupExchange(*this, key_)
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
  std::vector<int> members;
  for (int rank = 0; rank < nranks_; ++rank) {
    if (memberships[size_t(rank)].color == color) members.push_back(rank);
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return memberships[size_t(a)].key < memberships[size_t(b)].key;
  });
  Status made = create(std::make_unique<GroupExchange>(*this, members, key_), settings_, out);
  return made.ok() ? TUTTI_OK : fail(std::move(made));
}

}  // namespace tutti
