// The exchange by which survivors make their new communicator.
#pragma once

#include "lib/comm/star_exchange.h"
#include "lib/comm/survivors.h"

namespace tutti {

class SurvivorExchange final : public StarExchange {
 public:
  // `members`: of the old communicator, the own rank among them; they keep their order.
  SurvivorExchange(Survivors& survivors, const RankSet& members)
      : StarExchange(members.ranks(), survivors.rank()), survivors_(survivors), members_(members) {}

  const JobKey& key() const override { return survivors_.key(); }
  void alarm(const Status& why) override;
  Status look() override;

 private:
  Status put(int peer, std::string_view text, uint64_t deadline_ns) override;
  Status get(int peer, uint64_t deadline_ns, std::string* text) override;

  Survivors& survivors_;
  RankSet members_;
};

}  // namespace tutti
