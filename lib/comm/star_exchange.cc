#include "lib/comm/star_exchange.h"

#include <algorithm>

namespace tutti {

namespace {

// -1: it is none of them.
int place_of(int rank, const std::vector<int>& members) {
  const auto at = std::find(members.begin(), members.end(), rank);
  return at == members.end() ? -1 : int(at - members.begin());
}

}  // namespace

StarExchange::StarExchange(std::vector<int> members, int self)
    : members_(std::move(members)), rank_(place_of(self, members_)) {}

Status StarExchange::allgather(std::string_view mine, uint64_t deadline_ns,
                               std::vector<std::string>* all) {
  all->assign(members_.size(), {});
  (*all)[size_t(rank_)] = mine;
  if (rank_ != 0) {
    TUTTI_TRY(put(members_[0], mine, deadline_ns));
    for (std::string& text : *all) TUTTI_TRY(get(members_[0], deadline_ns, &text));
    if ((*all)[size_t(rank_)] == mine) return {};
    return {TUTTI_CORRUPT, "what rank 0 sent while the communicator was made makes no sense", 0};
  }
  for (size_t r = 1; r < members_.size(); ++r) TUTTI_TRY(get(members_[r], deadline_ns, &(*all)[r]));
  for (size_t r = 1; r < members_.size(); ++r) {
    for (const std::string& text : *all) TUTTI_TRY(put(members_[r], text, deadline_ns));
  }
  return {};
}

bool StarExchange::renumbers() const {
  for (size_t i = 0; i < members_.size(); ++i)
    if (members_[i] != int(i)) return true;
  return false;
}

int StarExchange::in_communicator(const Status& why) const {
  const bool named = why.rank() >= 0 && why.rank() < nranks();
  return named ? members_[size_t(why.rank())] : -1;
}

Status StarExchange::in_exchange(Status found) const {
  return {found.code(), found.text(), place_of(found.rank(), members_)};
}

}  // namespace tutti
