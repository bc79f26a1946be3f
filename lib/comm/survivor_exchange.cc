#include "lib/comm/survivor_exchange.h"

#include <algorithm>

namespace tutti {

SurvivorExchange::SurvivorExchange(Survivors& survivors, const RankSet& members)
    : survivors_(survivors), members_(members), ranks_(members.ranks()) {
  rank_ = int(std::find(ranks_.begin(), ranks_.end(), survivors.rank()) - ranks_.begin());
}

Status SurvivorExchange::in_new_ranks(Status found) const {
  const auto at = std::find(ranks_.begin(), ranks_.end(), found.rank());
  return {found.code(), found.text(), at == ranks_.end() ? -1 : int(at - ranks_.begin())};
}

Status SurvivorExchange::get(size_t member, uint64_t deadline_ns, std::string* text) {
  Status got = survivors_.get(ranks_[member], deadline_ns, text);
  return got.ok() ? got : in_new_ranks(std::move(got));
}

Status SurvivorExchange::allgather(std::string_view mine, uint64_t deadline_ns,
                                   std::vector<std::string>* all) {
  all->assign(ranks_.size(), {});
  (*all)[size_t(rank_)] = mine;
  if (rank_ != 0) {
    survivors_.put(ranks_[0], mine);
    for (std::string& text : *all) TUTTI_TRY(get(0, deadline_ns, &text));
    return {};
  }
  for (size_t member = 1; member < ranks_.size(); ++member)
    TUTTI_TRY(get(member, deadline_ns, &(*all)[member]));
  for (size_t member = 1; member < ranks_.size(); ++member) {
    for (const std::string& text : *all) survivors_.put(ranks_[member], text);
  }
  return {};
}

void SurvivorExchange::alarm(const Status& why) {
  const bool named = why.rank() >= 0 && size_t(why.rank()) < ranks_.size();
  survivors_.alarm(members_, {why.code(), why.text(), named ? ranks_[size_t(why.rank())] : -1});
}

Status SurvivorExchange::look() {
  Status found = survivors_.look(members_);
  return found.ok() ? found : in_new_ranks(std::move(found));
}

}  // namespace tutti
