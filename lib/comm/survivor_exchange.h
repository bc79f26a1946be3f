// The exchange by which survivors make their new communicator: a star around the lowest of them.
#pragma once

#include "lib/comm/survivors.h"
#include "lib/control/exchange.h"

namespace tutti {

class SurvivorExchange final : public Exchange {
 public:
  // `members`: of the old communicator, the own rank among them; they keep their order.
  SurvivorExchange(Survivors& survivors, const RankSet& members);

  int rank() const override { return rank_; }
  int nranks() const override { return int(ranks_.size()); }
  const JobKey& key() const override { return survivors_.key(); }
  Status allgather(std::string_view mine, uint64_t deadline_ns,
                   std::vector<std::string>* all) override;
  void alarm(const Status& why) override;
  Status look() override;

 private:
  Status get(size_t member, uint64_t deadline_ns, std::string* text);
  // Errors name ranks of the old communicator.
  Status in_new_ranks(Status found) const;

  Survivors& survivors_;
  RankSet members_;
  std::vector<int> ranks_;
  int rank_ = 0;
};

}  // namespace tutti
