// The ranks of a communicator among themselves beside its calls, whatever has become of these: they
// decide together who is present (lib/control/agreement.h), and exchange what a new communicator is
// made with. All goes by the mail of the link, which outlives failed calls and needs no rank in
// particular.
//
// Ranks decide one thing after another, and number it alike. What belongs to a decision that this
// rank has not come to waits.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "lib/comm/connection.h"
#include "lib/control/agreement.h"

namespace tutti {

// One thread at a time, while no call is in progress.
class Survivors {
 public:
  explicit Survivors(Connection& connection);

  int rank() const { return connection_.rank; }
  int nranks() const { return connection_.nranks; }
  const JobKey& key() const { return connection_.key; }

  // The ranks that are known to be dead or lost, as of now.
  RankSet failed();

  // Collective over `members`: what those that are left decide.
  Status decide(Matter matter, const RankSet& members, uint64_t value, uint64_t limit_ns,
                Decision* out);
  // This rank goes on elsewhere, without those that were left out.
  void move_on();

  // Texts for SurvivorExchange, between two decisions.
  void put(int to, std::string_view text);
  // PEER_FAILED where it is gone, ABORTED where it has given up; an alarm.
  Status get(int from, uint64_t deadline_ns, std::string* text);
  void alarm(const RankSet& members, const Status& why);
  // An error if one of them has given an alarm, is gone or has given up.
  Status look(const RankSet& members);

 private:
  struct Letter {
    int from;
    std::string text;
  };

  // Takes what has come; whether there was anything.
  bool pump(Agreement* running);
  void sort(int from, std::string text, Agreement* running);
  void send(Agreement& running);
  // Who is gone; those that are lost all at once.
  void tell(Agreement& running, const RankSet& gone);
  // The ranks of this host that are here, this one among them.
  RankSet near() const;
  void next();
  // Until done(), which is asked after every look.
  void look_until(uint64_t limit_ns, Agreement* running, const std::function<bool()>& done);
  void drain();
  bool is_here(int rank) const { return presence_[size_t(rank)] == Presence::here; }
  Status missed(int rank) const;

  Connection& connection_;
  uint32_t number_ = 1;  // of the next decision
  std::vector<Presence> presence_;
  std::vector<bool> decides_;  // has come to the decision number_
  std::vector<std::deque<std::string>> texts_;
  Status alarm_;
  std::vector<Letter> later_;  // of a decision that this rank has not come to
};

}  // namespace tutti
