#include "transports/ucx/worker.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "lib/config/config.h"
#include "lib/control/bytes.h"
#include "transports/ucx/progress_thread.h"
#include "transports/ucx/stream.h"

namespace tutti::ucx {

namespace {

// How long a worker waits for its endpoints to close: a dead peer does not answer.
constexpr uint64_t most_closing_ns = 100'000'000;
constexpr int most_drained = 10'000;
// While a request is incomplete UCX's descriptor may not signal that send space came free.
constexpr uint64_t busy_sleep_ns = 1'000'000;

class Config {
 public:
  explicit Config(const Functions* ucx) : ucx_(ucx) {}
  ~Config() {
    if (config_ != nullptr) ucx_->ucp_config_release(config_);
  }
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;

  Status read(Reach reach) {
    const ucs_status_t status = ucx_->ucp_config_read(nullptr, nullptr, &config_);
    if (status != UCS_OK) return ucx_->failure(status, "its settings cannot be read");
    // UCX prints nothing, unless the program had loaded it before or the user has set its log
    // level.
    if (ucx_->loaded_here && !environment_has("UCX_LOG_LEVEL")) {
      ucx_->ucp_config_modify(config_, "LOG_LEVEL", "fatal");
    }
    // Put operations over tcp, which wait for an acknowledgement, sometimes abort the process (UCX
    // 1.13, tcp_ep.c, "Assertion `ep->flags & UCT_TCP_EP_FLAG_PUT_TX_WAITING_ACK' failed").
    if (!environment_has("UCX_TCP_PUT_ENABLE")) {
      // UCX 1.13 takes a transport's setting here without its name, and ignores unknown ones.
      for (const char* name : {"PUT_ENABLE", "TCP_PUT_ENABLE"}) {
        ucx_->ucp_config_modify(config_, name, "n");
      }
    }
    return confine(reach);
  }
  const ucp_config_t* get() const { return config_; }

 private:
  // UCX listens on every interface that it may use, and believes whoever connects.
  Status confine(Reach reach) {
    if (reach == Reach::network || environment_has("UCX_NET_DEVICES")) return {};
    const bool memory = reach == Reach::memory && !environment_has("UCX_TLS");
    TUTTI_TRY(set("NET_DEVICES", memory ? "" : "lo"));
    return reach == Reach::loopback ? set("SHM_DEVICES", "") : Status();
  }
  Status set(const char* name, const char* value) {
    const ucs_status_t status = ucx_->ucp_config_modify(config_, name, value);
    if (status == UCS_OK) return {};
    return ucx_->failure(status, std::string("its setting ") + name + " cannot be made");
  }

  const Functions* ucx_;
  ucp_config_t* config_ = nullptr;
};

}  // namespace

// ---------------------------------------------------------------- bringing up and down

Status Context::shared(Reach reach, std::shared_ptr<Context>* out) {
  struct Latest {
    std::mutex mutex;
    std::array<std::weak_ptr<Context>, 3> contexts;  // by reach
  };
  Latest& latest = process::own<Latest>();
  const Functions* ucx = nullptr;
  TUTTI_TRY(Functions::get(&ucx));
  const std::lock_guard lock(latest.mutex);
  std::weak_ptr<Context>& context = latest.contexts[size_t(reach)];
  *out = context.lock();
  if (*out != nullptr) return {};
  Config config(ucx);
  TUTTI_TRY(config.read(reach));
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;
  ucp_context_h handle = nullptr;
  const ucs_status_t status =
      ucx->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config.get(), &handle);
  if (status != UCS_OK) return ucx->failure(status, "it cannot be used here");
  *out = std::make_shared<Context>(ucx, handle);
  context = *out;
  return {};
}

bool Context::handles_gpu_memory() const {
  ucp_context_attr_t found{};
  found.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  return ucx->ucp_context_query(handle, &found) == UCS_OK &&
         (found.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
}

Status Worker::create(Reach reach, uint64_t comm_id, int self, size_t nranks,
                      std::unique_ptr<Worker>* out) {
  std::shared_ptr<Context> context;
  TUTTI_TRY(Context::shared(reach, &context));
  out->reset(new Worker(std::move(context), comm_id, self, nranks));
  return (*out)->prepare();
}

Status Worker::prepare() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = ucx_->ucp_worker_create(context_->handle, &params, &worker_);
  if (status != UCS_OK) return ucx_->failure(status, "no worker can be made");
  TUTTI_TRY(handle_kind(Kind::data, take_data));
  TUTTI_TRY(handle_kind(Kind::note, take_note));
  TUTTI_TRY(handle_kind(Kind::hello, take_hello));
  status = ucx_->ucp_worker_get_efd(worker_, &events_);
  if (status != UCS_OK) return ucx_->failure(status, "its events cannot be waited for");
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  status = ucx_->ucp_worker_get_address(worker_, &address, &bytes);
  if (status != UCS_OK) return ucx_->failure(status, "it has no address");
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  ucx_->ucp_worker_release_address(worker_, address);
  return {};
}

Status Worker::handle_kind(Kind kind, ucp_am_recv_callback_t callback) {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                     UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = kind;
  param.flags = UCP_AM_FLAG_WHOLE_MSG;
  param.cb = callback;
  param.arg = this;
  const ucs_status_t status = ucx_->ucp_worker_set_am_recv_handler(worker_, &param);
  return status == UCS_OK ? Status() : ucx_->failure(status, "messages cannot be received");
}

Status Worker::connect(int peer, const std::string& address, bool across_hosts, UcxStream* stream,
                       ucp_ep_h* out) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = across_hosts ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler.cb = [](void* told, ucp_ep_h, ucs_status_t why) {
    static_cast<Told*>(told)->fail(why);
  };
  Endpoint& endpoint = endpoints_[size_t(peer)];
  endpoint.told = std::make_unique<Told>(Told{this, peer});
  params.err_handler.arg = endpoint.told.get();
  const ucs_status_t status = ucx_->ucp_ep_create(worker_, &params, out);
  if (status != UCS_OK) {
    Status failed = ucx_->failure(status, "no way to rank " + std::to_string(peer));
    return {failed.code(), failed.text(), peer};
  }
  endpoint.handle = *out;
  endpoint.across_hosts = across_hosts;
  streams_[size_t(peer)] = stream;
  return {};
}

void Worker::Told::fail(ucs_status_t why) const {
  if (UcxStream* const stream = worker->streams_[size_t(peer)]; stream != nullptr) {
    stream->fail(why);
  }
}

// Before the endpoints are closed: what UCX still holds is lost with them. A peer that does not
// answer delays this by most_closing_ns at most.
void Worker::settle() {
  for (UcxStream* stream : streams_) {
    if (stream != nullptr) stream->leave();
  }
  const auto settled = [](const UcxStream* stream) {
    return stream == nullptr || stream->settled();
  };
  const uint64_t until_ns = now_ns() + most_closing_ns;
  while (!std::all_of(streams_.begin(), streams_.end(), settled) && now_ns() < until_ns) {
    if (!progress()) sched_yield();
  }
  // Drains what has come and nobody wants: tcp would answer it with a reset.
  for (int i = 0; i < most_drained && progress(); ++i) continue;
}

void Worker::close_endpoints() {
  std::vector<Request> closing;
  for (const Endpoint& endpoint : endpoints_) {
    // Within a host UCX closes an endpoint only together with the peer, which may be dead.
    if (endpoint.handle == nullptr || !endpoint.across_hosts) continue;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    closing.push_back(begun(ucx_->ucp_ep_close_nbx(endpoint.handle, &param)));
  }
  const uint64_t until_ns = now_ns() + most_closing_ns;
  for (Request& request : closing) {
    while (!ended(&request) && now_ns() < until_ns) progress();
    if (request.pending != nullptr) ucx_->ucp_request_free(request.pending);
  }
}

Worker::~Worker() {
  close();
  if (worker_ == nullptr) return;
  close_endpoints();
  ucx_->ucp_worker_destroy(worker_);
}

// ---------------------------------------------------------------- requests and events

Request Worker::begun(ucs_status_ptr_t result) const {
  if (result == nullptr) return {};
  if (UCS_PTR_IS_ERR(result)) return {nullptr, true};
  return {result, false};
}

bool Worker::ended(Request* request) const {
  if (request->pending == nullptr) return true;
  const ucs_status_t status = ucx_->ucp_request_check_status(request->pending);
  if (status == UCS_INPROGRESS) return false;
  ucx_->ucp_request_free(request->pending);
  *request = {nullptr, status != UCS_OK};
  return true;
}

std::unique_lock<std::mutex> Worker::hold() {
  std::unique_lock held(mutex_);
  ++uses_;
  return held;
}

void Worker::open() {
  open_ = true;
  tend(this);
}

void Worker::close() {
  if (!open_) return;
  open_ = false;
  stop_tending(this);
  settle();
}

bool Worker::look_after() {
  const std::unique_lock held(mutex_, std::try_to_lock);
  if (!held.owns_lock()) return true;
  if (visited_at_ != uses_) {
    visited_at_ = uses_;  // it was used since the last visit
    return true;
  }
  bool moved = false;
  while (progress()) moved = true;
  return moved;
}

bool Worker::progress() {
  const bool moved = ucx_->ucp_worker_progress(worker_) != 0;
  if (answers_due_) {
    answers_due_ = false;
    for (UcxStream* stream : streams_) {
      if (stream != nullptr) stream->answer();
    }
  }
  return moved;
}

void Worker::advance() {
  while (progress()) continue;
  for (UcxStream* stream : streams_) {
    if (stream != nullptr) stream->advance();
  }
}

bool Worker::arm() {
  advance();
  return ucx_->ucp_worker_arm(worker_) == UCS_OK;
}

uint64_t Worker::most_sleep_ns() const {
  for (const UcxStream* stream : streams_) {
    if (stream != nullptr && stream->busy()) return busy_sleep_ns;
  }
  return never_ns;
}

// ---------------------------------------------------------------- what arrives

void Worker::refuse(const char* what) {
  if (corrupt_.ok()) corrupt_ = {TUTTI_CORRUPT, std::string("ucx: there came ") + what};
}

UcxStream* Worker::sender(uint64_t comm, uint64_t src) {
  if (comm != comm_id_) {
    refuse("a message of another communicator");
  } else if (src >= streams_.size() || int(src) == self_) {
    refuse("a message of a rank that is none");
  } else {
    return streams_[size_t(src)];
  }
  return nullptr;
}

ucs_status_t Worker::take_data(void* self, const void* header, size_t header_bytes, void* bytes,
                               size_t length, const ucp_am_recv_param_t* param) {
  auto* const worker = static_cast<Worker*>(self);
  const auto* const at = static_cast<const uint8_t*>(header);
  if (header_bytes != UcxStream::header_bytes) {
    worker->refuse("a message that is no frame");
    return UCS_OK;
  }
  UcxStream* const stream = worker->sender(get_le<uint64_t>(at + wire::comm_offset),
                                           get_le<uint16_t>(at + wire::src_offset));
  if (stream == nullptr) return UCS_OK;
  const bool by_rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const bool keeps = stream->take_frame(at, static_cast<std::byte*>(bytes), length, by_rendezvous);
  return keeps ? UCS_INPROGRESS : UCS_OK;
}

ucs_status_t Worker::take_note(void* self, const void* header, size_t header_bytes, void*,
                               size_t length, const ucp_am_recv_param_t*) {
  auto* const worker = static_cast<Worker*>(self);
  const auto* const at = static_cast<const uint8_t*>(header);
  if (header_bytes != UcxStream::note_bytes || length != 0) {
    worker->refuse("a note that makes no sense");
    return UCS_OK;
  }
  UcxStream* const stream = worker->sender(get_le<uint64_t>(at), get_le<uint64_t>(at + 8));
  worker->answers_due_ = true;
  if (stream != nullptr) stream->take_note(get_le<uint64_t>(at + 16), at[24]);
  return UCS_OK;
}

ucs_status_t Worker::take_hello(void* self, const void* header, size_t header_bytes, void*,
                                size_t length, const ucp_am_recv_param_t*) {
  auto* const worker = static_cast<Worker*>(self);
  const auto* const at = static_cast<const uint8_t*>(header);
  if (header_bytes != UcxStream::greeting_bytes || length != 0) {
    worker->refuse("a greeting that makes no sense");
    return UCS_OK;
  }
  UcxStream* const stream = worker->sender(get_le<uint64_t>(at), get_le<uint64_t>(at + 8));
  if (stream != nullptr) stream->take_greeting();
  return UCS_OK;
}

}  // namespace tutti::ucx
