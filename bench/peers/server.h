// A rank of one implementation: sleeps in the kernel until it gets an order, so that it uses no CPU
// while others have their turn, and carries it out. The same code for every implementation: only
// the two calls differ.
#pragma once

#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/clock.h"
#include "bench/collectives.h"
#include "bench/live.h"
#include "bench/oracle.h"
#include "bench/peers/descriptor.h"
#include "bench/peers/gate.h"
#include "bench/peers/protocol.h"

namespace tutti::bench {

class Implementation {
 public:
  virtual ~Implementation() = default;
  virtual std::string version() const = 0;
  virtual int rank() const = 0;
  virtual int nranks() const = 0;
  // A vector of the kind of memory that this implementation is measured with. Collective.
  virtual std::shared_ptr<float[]> vector(size_t count) {
    return std::shared_ptr<float[]>(new float[count]);
  }
  // The collective that it was made for, on float32, with sum and root 0; where there is one buffer
  // only, it is `out`. Both ways of failing end the process.
  virtual void call(const float* in, float* out, size_t count) = 0;
};

// Prints the cause and ends the process at once: other threads may be blocked inside a library.
[[noreturn]] inline void give_up(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  _exit(1);
}

class PeerServer {
 public:
  PeerServer(Implementation& implementation, const Collective& collective, const char* socket_name,
             int team)
      : implementation_(implementation),
        collective_(collective),
        place_{implementation.rank(), implementation.nranks(), 0, 0},
        oracle_(TUTTI_FLOAT32, TUTTI_SUM, implementation.nranks(), implementation.rank()) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    connect(socket_name);
    PeerHello hello;
    hello.team = team;
    hello.rank = implementation.rank();
    std::snprintf(hello.cpus, sizeof hello.cpus, "%s", cpus().c_str());
    std::snprintf(hello.version, sizeof hello.version, "%s", implementation.version().c_str());
    write_all(&hello, sizeof hello);
    const int memory = DescriptorMessage().receive(fd_);  // the answer to the hello
    if (memory < 0) _exit(1);                             // the controller is gone
    gate_ = std::make_unique<Gate>(memory, place_.rank, place_.nranks);
    if (!gate_->opened()) give_up("cannot map the memory in which ranks meet");
    close(memory);
  }
  ~PeerServer() { close(fd_); }

  // Returns when told to quit.
  void serve() {
    for (PeerOrder order; next(order);) {
      PeerReply reply;
      std::vector<double> batches;
      if (order.task == PeerTask::prepare) prepare(order.bytes);
      if (order.task == PeerTask::check) reply.wrong = check();
      if (order.task == PeerTask::run) batches = run(order);
      write_all(&reply, sizeof reply);
      write_all(batches.data(), batches.size() * sizeof(double));
    }
  }

 private:
  bool next(PeerOrder& order) {
    read_all(&order, sizeof order);
    return order.task != PeerTask::quit;
  }

  void prepare(size_t bytes) {
    place_.count = collective_.count_within(place_.nranks, bytes / sizeof(float));
    longest_ = collective_.longest(place_.nranks, place_.count);
    in_.reset();
    out_.reset();
    in_ = implementation_.vector(longest_);
    out_ = implementation_.vector(longest_);
    oracle_.fill(in_.get(), longest_);
    std::memset(out_.get(), 0, longest_ * sizeof(float));
  }

  uint64_t check() {
    std::memset(out_.get(), 0xcb, longest_ * sizeof(float));
    const size_t given = collective_.lengths(place_).send;
    float* input = collective_.in_place == InPlace::always ? out_.get() : in_.get();
    oracle_.fill(input, given);
    implementation_.call(in_.get(), out_.get(), place_.count);
    const auto* output = reinterpret_cast<const unsigned char*>(out_.get());
    return collective_.wrong({oracle_, place_, output, sizeof(float)}) +
           oracle_.wrong_inputs(input, given);
  }

  std::vector<double> run(const PeerOrder& order) {
    std::vector<double> batches(order.batches);
    calls_us(order.warm_calls, order.live != 0);
    for (double& batch : batches) batch = calls_us(order.calls, order.live != 0);
    return batches;
  }

  // From where all ranks have met; live, each call by itself.
  double calls_us(uint64_t n, bool live) {
    const auto meet = [this] { gate_->pass(); };
    const auto call = [this] { implementation_.call(in_.get(), out_.get(), place_.count); };
    if (live) {
      const Touched touched = vectors();
      double us = 0;
      for (uint64_t i = 0; i < n; ++i) us += live_call_us(touched, meet, call);
      return us;
    }
    meet();
    const auto begin = Clock::now();
    for (uint64_t i = 0; i < n; ++i) call();
    return us_since(begin);
  }

  // What this rank gives and gets in one call.
  Touched vectors() const {
    const Lengths lengths = collective_.lengths(place_);
    float* const input = collective_.in_place == InPlace::always ? out_.get() : in_.get();
    return {reinterpret_cast<unsigned char*>(input), lengths.send * sizeof(float),
            reinterpret_cast<const unsigned char*>(out_.get()), lengths.recv * sizeof(float)};
  }

  static std::string cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    std::string text;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) text += (text.empty() ? "" : ",") + std::to_string(cpu);
    return text;
  }

  // An abstract name: nothing on disk, gone with the controller.
  void connect(const char* name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const size_t length = std::strlen(name);
    if (length > sizeof address.sun_path - 1) give_up("the socket's name is too long");
    std::memcpy(address.sun_path + 1, name, length);
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd_ < 0 || ::connect(fd_, reinterpret_cast<sockaddr*>(&address),
                             socklen_t(offsetof(sockaddr_un, sun_path) + 1 + length)) != 0)
      give_up("cannot reach the controller");
  }

  void read_all(void* data, size_t bytes) {
    for (auto* at = static_cast<char*>(data); bytes;) {
      const ssize_t got = read(fd_, at, bytes);
      if (got <= 0) _exit(1);  // the controller is gone
      at += got;
      bytes -= size_t(got);
    }
  }

  void write_all(const void* data, size_t bytes) {
    for (auto* at = static_cast<const char*>(data); bytes;) {
      const ssize_t put = send(fd_, at, bytes, MSG_NOSIGNAL);
      if (put <= 0) _exit(1);
      at += put;
      bytes -= size_t(put);
    }
  }

  Implementation& implementation_;
  const Collective& collective_;
  Place place_;
  Oracle oracle_;
  int fd_ = -1;
  std::unique_ptr<Gate> gate_;
  size_t longest_ = 0;
  std::shared_ptr<float[]> in_, out_;
};

}  // namespace tutti::bench
