// UCX's worker of one link: its endpoints, the messages that arrive, and sleeping until one does.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transports/stream/data_stream.h"
#include "transports/ucx/functions.h"

namespace tutti::ucx {

class UcxStream;

// Over what UCX may reach the peers of a link. Each includes what UCX has within a process.
enum class Reach : uint8_t {
  memory,    // that ranks of one host share: no port is open
  loopback,  // sockets on the loopback interface
  network,   // everything that UCX finds
};

// UCX's context: one per process and reach, because querying the devices takes long. Freed with its
// last user.
struct Context {
  const Functions* ucx;
  ucp_context_h handle;

  explicit Context(const Functions* ucx, ucp_context_h handle) : ucx(ucx), handle(handle) {}
  ~Context() { ucx->ucp_cleanup(handle); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Where the environment names devices (UCX_NET_DEVICES) these are used, whatever the reach; where
  // it names transports (UCX_TLS), `memory` is `loopback`.
  static Status shared(Reach reach, std::shared_ptr<Context>* out);
  bool handles_gpu_memory() const;
};

// A request of UCX, or none. `failed`: it ended with an error, or could not begin.
struct Request {
  void* pending = nullptr;
  bool failed = false;
};

class Worker final : public tcp::Carrier {
 public:
  // The kinds of active messages.
  enum Kind : unsigned { data = 1, note = 2, hello = 3 };

  static Status create(Reach reach, uint64_t comm_id, int self, size_t nranks,
                       std::unique_ptr<Worker>* out);
  ~Worker() override;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const std::string& address() const { return address_; }
  uint64_t comm_id() const { return comm_id_; }
  int self() const { return self_; }
  const Functions& ucx() const { return *ucx_; }
  ucp_worker_h handle() const { return worker_; }

  // An endpoint to the peer; `stream` is notified of its failure and gets its messages.
  // `across_hosts`: UCX detects failures of the peer; its fastest transports within a host cannot.
  Status connect(int peer, const std::string& address, bool across_hosts, UcxStream* stream,
                 ucp_ep_h* out);
  // The stream is being destroyed.
  void part(int peer) { streams_[size_t(peer)] = nullptr; }
  // Keeps memory that UCX may still touch until UCX's worker is destroyed.
  void keep(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }

  // Calls UCX's progress once; whether anything moved.
  bool progress();
  // The request that a function ending in _nbx returned.
  Request begun(ucs_status_ptr_t result) const;
  // Whether it has ended; then *request is none.
  bool ended(Request* request) const;

  // The first error in a message that belongs to no stream.
  const Status& corrupt() const { return corrupt_; }

  // From here on, until close(), the progress thread makes progress on it.
  void open();
  // Called by the progress thread: makes progress if nobody else uses the worker. False: nothing
  // moved.
  bool look_after();

  std::unique_lock<std::mutex> hold() override;
  void close() override;
  int fd() const override { return events_; }
  void advance() override;
  bool arm() override;
  uint64_t most_sleep_ns() const override;

 private:
  Worker(std::shared_ptr<Context> context, uint64_t comm_id, int self, size_t nranks)
      : ucx_(context->ucx),
        context_(std::move(context)),
        comm_id_(comm_id),
        self_(self),
        streams_(nranks),
        endpoints_(nranks) {}
  Status prepare();
  Status handle_kind(Kind kind, ucp_am_recv_callback_t callback);
  UcxStream* sender(uint64_t comm, uint64_t src);
  void refuse(const char* what);
  void settle();
  void close_endpoints();
  static ucs_status_t take_data(void* self, const void* header, size_t header_bytes, void* bytes,
                                size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t take_note(void* self, const void* header, size_t header_bytes, void* bytes,
                                size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t take_hello(void* self, const void* header, size_t header_bytes, void* bytes,
                                 size_t length, const ucp_am_recv_param_t* param);

  const Functions* ucx_;
  std::shared_ptr<Context> context_;
  uint64_t comm_id_;
  int self_;
  std::vector<std::shared_ptr<void>> kept_;  // of streams that are gone
  ucp_worker_h worker_ = nullptr;
  int events_ = -1;  // UCX's descriptor, which it owns
  std::string address_;
  // The argument of UCX's error handler for an endpoint.
  struct Told {
    Worker* worker;
    int peer;
    void fail(ucs_status_t why) const;
  };
  struct Endpoint {
    ucp_ep_h handle = nullptr;
    std::unique_ptr<Told> told;
    bool across_hosts = false;
  };
  std::vector<UcxStream*> streams_;  // by rank
  std::vector<Endpoint> endpoints_;
  Status corrupt_;

  std::mutex mutex_;
  uint64_t uses_ = 1;        // how often it was held; connecting is one
  uint64_t visited_at_ = 0;  // `uses_` when the progress thread last looked
  bool open_ = false;
  bool answers_due_ = false;
};

}  // namespace tutti::ucx
