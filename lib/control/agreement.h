// How ranks decide together although some of them fail meanwhile: who is present, and the AND of
// what each passes. A state machine over messages, the links' findings and time: no I/O.
//
// The lowest rank that is not gone coordinates: it collects what all others report, proposes, and
// decides when they have accepted. If it goes, the next one does the same, and proposes what was
// accepted of the one before. That is Paxos with the coordinator's rank as the ballot, one ballot a
// coordinator. Channels are ordered and lose nothing, and what a rank has sent is taken before it
// is found gone. Whoever learns what was decided tells all others before it acts on it.
//
// A rank is gone when it is dead, which its kernel has told, or lost: nobody knows what it does.
// The ranks that report, and those that accept, must be more than half of the members, or half with
// the lowest member, or each of them must have found all other members dead. Any two such groups
// have a rank in common, or all of one are dead. So of two groups that cannot reach each other only
// one goes on, and a rank that was left out never does.
//
//   Guaranteed: all ranks that live and decide, decide the same; a rank that has come and is not
//   taken for lost is in the decision, and none that has not come. With deaths alone all survivors
//   decide. Not guaranteed: that a rank which dies right after it has decided was not alone in it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/status.h"
#include "lib/control/rank_set.h"

namespace tutti {

// What the members are asked; all ask the same.
enum class Matter : uint8_t { agree = 1, shrink = 2 };

// What was decided.
struct Decision {
  RankSet present;
  uint64_t value = 0;  // the AND of what those pass
};

class Agreement {
 public:
  struct Question {
    Matter matter = Matter::agree;
    uint32_t number = 0;  // of the decision, counted alike by all
    RankSet members;      // the own rank among them
    int nranks = 0;       // members are below
    int self = 0;
    uint64_t value = 0;
    uint64_t limit_ns = 0;  // it has ended then; who has not come after half of it is left out
  };
  struct Letter {
    int to;
    std::string text;
  };

  Agreement(Question question, uint64_t now_ns);

  // A message of a member.
  void receive(int from, std::string_view text, uint64_t now_ns);
  // A member is dead for certain, and all that it has sent was received.
  void died(int rank, uint64_t now_ns);
  // Members are lost. Those of one host at once: what one of them heard of another would part them.
  void lost(const RankSet& ranks, uint64_t now_ns);
  // As lost(), but this rank reaches none of several hosts. Where the ranks `near`, those of its
  // own, may not decide by themselves, what it says of the others must not count.
  void cut_off(const RankSet& ranks, const RankSet& near, uint64_t now_ns);
  void advance(uint64_t now_ns);
  // When advance() is due even if nothing happens.
  uint64_t due_ns() const;

  // What to send, in order. Also after it has ended.
  std::vector<Letter> take_letters() { return std::exchange(letters_, {}); }

  bool ended() const { return verdict_.has_value() || !failed_.ok(); }
  // Null unless all has gone well.
  const Decision* verdict() const { return verdict_ ? &*verdict_ : nullptr; }
  // ABORTED (this rank may not go on), TIMEOUT, MISMATCH or CORRUPT, with the rank.
  const Status& failed() const { return failed_; }

  // Of any message: the number of its decision; CORRUPT for what is none.
  static Status number_of(std::string_view text, uint32_t* number);

 private:
  enum class Type : uint8_t { news = 1, report, propose, accept, decide, refuse, quit };
  struct Message;
  struct Report {
    int ballot = -1;  // of what it has accepted; -1: nothing
    Decision accepted;
    uint64_t value = 0;
  };

  bool is_gone(int rank) const { return dead_.has(rank) || lost_.has(rank); }
  bool is_member(int rank) const {
    return rank >= 0 && rank < asked_.nranks && asked_.members.has(rank);
  }
  RankSet here() const { return asked_.members - dead_ - lost_; }
  void take(int from, const Message& message);
  void lose(const RankSet& ranks);
  void step();
  void collect();
  void propose(Decision verdict);
  void collect_accepts();
  void wait_for(const RankSet& missing);
  // More than half of the members, or half with the lowest.
  bool is_quorum(const RankSet& group) const;
  bool may_decide(const RankSet& group, bool* later) const;
  void decide(Decision verdict);
  void refuse(const RankSet& group);
  void fail(Status why);
  Message message(Type type) const;
  void send(int to, const Message& message);
  void send_all(const RankSet& to, const Message& message);
  std::string matter_name(Matter matter) const;

  Question asked_;
  uint64_t now_ns_;
  uint64_t first_ns_;  // when the first of those that this rank knows of has come
  uint64_t length_ns_;
  RankSet dead_, lost_, come_;
  std::vector<uint64_t> came_ns_;  // when the first message of each came
  int coordinator_ = -1;
  uint64_t since_ns_ = 0;  // since when it coordinates, or waits for what it has proposed
  uint64_t due_ns_ = 0;
  std::map<int, Report> reports_;
  std::map<int, RankSet> found_dead_;  // by each member, as it has told
  Report own_;
  std::optional<RankSet> proposed_to_;
  RankSet accepted_by_;
  std::optional<Decision> verdict_;
  Status failed_;
  std::vector<Letter> letters_;
};

}  // namespace tutti
