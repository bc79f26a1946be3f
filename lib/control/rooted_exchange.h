// An all-gather over a star of connections around rank 0.
#pragma once

#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/control/exchange.h"
#include "lib/control/frame_channel.h"
#include "lib/control/host_watch.h"

namespace tutti {

class RootedExchange final : public Exchange {
 public:
  // `channels`: on rank 0 one for each rank (its own unused), on the others one, to rank 0.
  // `heartbeat_ns`: after which a host that does not answer is lost.
  RootedExchange(int rank, int nranks, uint64_t job, std::vector<FrameChannel> channels,
                 uint64_t heartbeat_ns)
      : rank_(rank),
        nranks_(nranks),
        job_(job),
        channels_(std::move(channels)),
        early_(channels_.size()),
        watch_(rank, job, heartbeat_ns) {}
  ~RootedExchange() override { watch_.part(channels_); }

  int rank() const override { return rank_; }
  int nranks() const override { return nranks_; }
  const JobKey& key() const override { return key_; }
  std::string local_address() const override;
  Status allgather(std::string_view mine, uint64_t deadline_ns,
                   std::vector<std::string>* all) override;
  void alarm(const Status& why) override;
  Status look() override;
  bool suspects() const override { return watch_.suspects(); }

  // Collective, once, before anything else: *text becomes what rank 0 passes. A rank sends nothing
  // but beats before that has come.
  Status welcome(std::string* text, uint64_t deadline_ns);
  void set_key(const JobKey& key) { key_ = key; }

 private:
  Status gather(std::string_view mine, uint64_t deadline_ns, std::vector<std::string>* all);
  Status scatter(const std::vector<std::string>& all, uint64_t deadline_ns);
  Status take_part(std::string_view mine, uint64_t deadline_ns, std::vector<std::string>* all);
  // Sends what is queued and waits for rank 0's frame of this round.
  Status hear(uint64_t deadline_ns, std::string* text);
  // Reads the frame of rank `from` in this round; *whole: it has come.
  Status read(int from, std::string* text, bool* whole);
  Status read(int from, uint64_t round, std::string* text, bool* whole);
  Status flush(int to);
  // Sends all that is queued and waits for it to be taken.
  Status flush_all(uint64_t deadline_ns);
  // Looks at the hosts, and waits until an event, or until it is time to look again.
  Status wait(std::vector<pollfd>& set, uint64_t deadline_ns);
  // Of a rank that has done its part: that it is still there.
  Status read_early(int from);
  wire::Header header() const;
  // From here on every all-gather returns the error; rank 0 tells all others.
  Status end(Status error);

  int rank_, nranks_;
  uint64_t job_;
  std::vector<FrameChannel> channels_;
  std::vector<std::optional<std::string>>
      early_;  // by channel: what read_early() found of the next round
  HostWatch watch_;
  JobKey key_{};
  uint64_t round_ = 0;
  Status over_;
};

// When rank 0 ends a wait with that deadline: a little early, so that the others learn who is
// missing before their own.
uint64_t ends_early_ns(uint64_t deadline_ns);

// Sends why a job cannot start, as much of it as the connection takes without waiting.
void tell(FrameChannel& channel, uint64_t job, const Status& error);

}  // namespace tutti
