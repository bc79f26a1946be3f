#include "backend.h"

#include <ATen/ATen.h>
#include <torch/csrc/utils/pybind.h>

#include <limits>
#include <utility>

#include "gil.h"

namespace tutti_torch {

namespace {

using c10d::OpType;

// How long a group that is destroyed waits for its collectives before it aborts them.
constexpr auto patience = std::chrono::seconds(5);

void check_tensor(const at::Tensor& tensor, const char* what) {
  TORCH_CHECK(tensor.device().is_cpu(), "tutti: ", what, " on a tensor in memory of ",
              tensor.device(),
              ": the compiled form serves tensors of the processor; the one in Python, "
              "tutti_torch.use(\"python\"), also those of NVIDIA's GPUs");
  TORCH_CHECK(tensor.layout() == c10::kStrided, "tutti: ", what,
              " takes dense tensors only; sparse ones may be summed by all_reduce");
}

void check_tensors(const Tensors& tensors, const char* what) {
  for (const auto& tensor : tensors) check_tensor(tensor, what);
}

const at::Tensor& only(const Tensors& tensors, const char* what) {
  TORCH_CHECK(tensors.size() == 1, "tutti: ", what, " takes one tensor, not ", tensors.size());
  check_tensor(tensors[0], what);
  return tensors[0];
}

const Tensors& only(const TensorLists& lists, const char* what) {
  TORCH_CHECK(lists.size() == 1, "tutti: ", what, " takes one list of tensors, not ", lists.size());
  return lists[0];
}

void check_root(int64_t root, int size, const char* what) {
  TORCH_CHECK(root >= 0 && root < size, "tutti: ", what, ": there is no rank ", root, " among ",
              size);
}

void check_type(const at::Tensor& tensor, const at::Tensor& other, const char* what) {
  TORCH_CHECK(tensor.scalar_type() == other.scalar_type(), "tutti: ", what,
              " takes tensors of one type, not of ", tensor.scalar_type(), " and ",
              other.scalar_type());
}

tutti_dtype type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kChar:
      return TUTTI_INT8;
    case at::kShort:
      return TUTTI_INT16;
    case at::kInt:
      return TUTTI_INT32;
    case at::kLong:
      return TUTTI_INT64;
    case at::kByte:
      return TUTTI_UINT8;
    case at::kHalf:
      return TUTTI_FLOAT16;
    case at::kBFloat16:
      return TUTTI_BFLOAT16;
    case at::kFloat:
      return TUTTI_FLOAT32;
    case at::kDouble:
      return TUTTI_FLOAT64;
    case at::kComplexFloat:
      return TUTTI_COMPLEX64;
    case at::kComplexDouble:
      return TUTTI_COMPLEX128;
    case at::kBool:
      return TUTTI_BOOL;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
    case at::kFloat8_e4m3fn:
      return TUTTI_FLOAT8_E4M3;
    case at::kFloat8_e5m2:
      return TUTTI_FLOAT8_E5M2;
#endif
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
    case at::kUInt16:
      return TUTTI_UINT16;
    case at::kUInt32:
      return TUTTI_UINT32;
    case at::kUInt64:
      return TUTTI_UINT64;
#endif
    default:
      break;
  }
  TORCH_CHECK(false, "tutti: no reduction of ", tensor.scalar_type(), " tensors");
}

// An operator for one call; pre-multiplied sums are made for it.
class Operator {
 public:
  Operator(const c10d::ReduceOp& reduce, const at::Tensor& tensor, tutti_comm comm)
      : type_(type_of(tensor)) {
    switch (static_cast<c10d::ReduceOp::RedOpType>(reduce)) {
      case c10d::ReduceOp::SUM:
        op_ = TUTTI_SUM;
        break;
      case c10d::ReduceOp::AVG:
        op_ = TUTTI_AVG;
        break;
      case c10d::ReduceOp::PRODUCT:
        op_ = TUTTI_PROD;
        break;
      case c10d::ReduceOp::MIN:
        op_ = TUTTI_MIN;
        break;
      case c10d::ReduceOp::MAX:
        op_ = TUTTI_MAX;
        break;
      case c10d::ReduceOp::BAND:
        op_ = TUTTI_BAND;
        break;
      case c10d::ReduceOp::BOR:
        op_ = TUTTI_BOR;
        break;
      case c10d::ReduceOp::BXOR:
        op_ = TUTTI_BXOR;
        break;
      case c10d::ReduceOp::PREMUL_SUM: {
        const auto scalar = factor(reduce, tensor);
        check(library().op_create_premul_sum(comm, scalar.data_ptr(), type_, &op_),
              "pre-multiplied sum", nullptr);
        owned_ = true;
        return;
      }
      default:
        TORCH_CHECK(false, "tutti: unknown operator of a reduction");
    }
    TORCH_CHECK(library().op_supports(op_, type_) != 0, "tutti: this operator is not defined on ",
                tensor.scalar_type(), " tensors");
  }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  ~Operator() {
    if (owned_) library().op_free(op_);
  }

  tutti_op op() const { return op_; }
  tutti_dtype type() const { return type_; }

 private:
  static at::Tensor factor(const c10d::ReduceOp& reduce, const at::Tensor& tensor) {
    const auto* supplement =
        dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(reduce.supplement_.get());
    TORCH_CHECK(supplement != nullptr, "tutti: PREMUL_SUM without a factor");
#if TORCH_VERSION_MAJOR >= 2
    const auto& given = supplement->tensor_factor;
#else
    const auto given =
        supplement->tensor_factors.empty() ? at::Tensor() : supplement->tensor_factors[0];
#endif
    if (given.defined()) {
      TORCH_CHECK(given.numel() == 1, "tutti: the factor of PREMUL_SUM is one number");
      return given.to(at::kCPU, tensor.scalar_type()).contiguous();
    }
    return at::full({1}, supplement->double_factor, tensor.options());
  }

  tutti_dtype type_;
  tutti_op op_ = TUTTI_SUM;
  bool owned_ = false;
};

size_t bytes_of(const at::Tensor& tensor) { return tensor.numel() * tensor.element_size(); }

size_t total_bytes(const Tensors& tensors) {
  size_t bytes = 0;
  for (const auto& tensor : tensors) bytes += bytes_of(tensor);
  return bytes;
}

// A flat place for an output. Where the tensor is not contiguous, or several do not lie one after
// the other, a buffer, which store() copies from.
class Output {
 public:
  explicit Output(Tensors tensors) : tensors_(std::move(tensors)) {
    if (tensors_.empty()) return;
    if (!adjacent(tensors_)) {
      int64_t count = 0;
      for (const auto& tensor : tensors_) count += tensor.numel();
      buffer_ = at::empty({count}, tensors_[0].options());
    }
  }

  static bool adjacent(const Tensors& tensors) {
    const char* at = static_cast<const char*>(tensors[0].data_ptr());
    for (const auto& tensor : tensors) {
      if (!tensor.is_contiguous()) return false;
      if (tensor.numel() == 0) continue;
      if (tensor.data_ptr() != at) return false;
      at += bytes_of(tensor);
    }
    return true;
  }

  void* data() const {
    if (tensors_.empty()) return nullptr;
    return buffer_.defined() ? buffer_.data_ptr() : tensors_[0].data_ptr();
  }

  // Of tensors that lie one after the other.
  bool is_apart_from(const Tensors& tensors) const {
    const char* from = static_cast<const char*>(tensors[0].data_ptr());
    const char* to = static_cast<const char*>(data());
    return to == nullptr || from + total_bytes(tensors) <= to || to + total_bytes(tensors_) <= from;
  }

  void load() const {
    each([](const at::Tensor& tensor, const at::Tensor& part) { part.copy_(tensor); });
  }
  void store() const {
    each([](const at::Tensor& tensor, const at::Tensor& part) { tensor.copy_(part); });
  }

 private:
  template <class Copy>
  void each(Copy copy) const {
    if (!buffer_.defined()) return;
    int64_t at = 0;
    for (const auto& tensor : tensors_) {
      copy(tensor, buffer_.narrow(0, at, tensor.numel()).view(tensor.sizes()));
      at += tensor.numel();
    }
  }

  Tensors tensors_;
  at::Tensor buffer_;
};

// The same for inputs, which are only read. Apart from `output`, which is written meanwhile: FSDP
// gives a part of the one as the other.
class Input {
 public:
  explicit Input(const Tensors& tensors, const Output* output = nullptr) {
    if (tensors.empty()) return;
    if (Output::adjacent(tensors) && (output == nullptr || output->is_apart_from(tensors))) {
      flat_ = tensors[0];
    } else if (tensors.size() == 1) {
      flat_ = tensors[0].clone(at::MemoryFormat::Contiguous);
    } else {
      Tensors flat;
      flat.reserve(tensors.size());
      for (const auto& tensor : tensors) {
        // Torch 2.1 concatenates no float8.
        const auto part = tensor.reshape({-1});
        flat.push_back(tensor.element_size() == 1 ? part.view(at::kByte) : part);
      }
      flat_ = at::cat(flat);
    }
  }
  const void* data() const { return flat_.defined() ? flat_.data_ptr() : nullptr; }

 private:
  at::Tensor flat_;
};

bool equal_lengths(const Tensors& tensors) {
  for (const auto& tensor : tensors) {
    if (tensor.numel() != tensors[0].numel()) return false;
  }
  return true;
}

std::vector<size_t> bytes_of_each(const Tensors& tensors) {
  std::vector<size_t> bytes;
  bytes.reserve(tensors.size());
  for (const auto& tensor : tensors) bytes.push_back(bytes_of(tensor));
  return bytes;
}

void check_count(size_t given, int size, const char* what) {
  TORCH_CHECK(given == static_cast<size_t>(size), "tutti: ", what, " takes a tensor for each of ",
              size, " ranks, not ", given);
}

// One for each rank, of the type of `tensor`.
void check_places(const Tensors& places, const at::Tensor& tensor, int size, const char* what) {
  check_tensors(places, what);
  check_count(places.size(), size, what);
  for (const auto& place : places) check_type(place, tensor, what);
}

// The lengths in bytes of blocks along the first dimension; without splits, equal ones.
std::vector<size_t> blocks(const at::Tensor& tensor, const std::vector<int64_t>& splits, int size,
                           const char* which) {
  std::vector<size_t> bytes(size, 0);
  if (splits.empty()) {
    TORCH_CHECK(tensor.dim() > 0 && tensor.size(0) % size == 0, "tutti: all_to_all: the ", which,
                " cannot be cut into ", size, " equal blocks along its first dimension");
    std::fill(bytes.begin(), bytes.end(), bytes_of(tensor) / size);
    return bytes;
  }
  TORCH_CHECK(splits.size() == static_cast<size_t>(size), "tutti: all_to_all: ", splits.size(),
              " split sizes of the ", which, " for ", size, " ranks");
  int64_t rows = 0;
  for (const auto split : splits) {
    TORCH_CHECK(split >= 0, "tutti: all_to_all: a negative split size of the ", which);
    rows += split;
  }
  TORCH_CHECK(tensor.dim() > 0 && rows == tensor.size(0),
              "tutti: all_to_all: the split sizes of the ", which,
              " do not add up to its first dimension");
  const size_t row = rows == 0 ? 0 : bytes_of(tensor) / rows;
  for (int i = 0; i < size; ++i) bytes[i] = splits[i] * row;
  return bytes;
}

Tensors concatenated(const Tensors& first, const Tensors& second) {
  Tensors all = first;
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

void reduce_all(const at::Tensor& tensor, const c10d::ReduceOp& reduce, Adoption& adoption,
                tutti_comm comm, const tutti_call_config* config) {
  const Operator by(reduce, tensor, comm);
  adoption.before_allreduce(tensor, config);
  const Output output({tensor});
  output.load();
  check(library().allreduce_with(TUTTI_IN_PLACE, output.data(), tensor.numel(), by.type(), by.op(),
                                 comm, config),
        "all_reduce", comm);
  output.store();
}

// `places`: one for each rank, or one for all.
void gather_all(const Tensors& places, const at::Tensor& input, tutti_comm comm,
                const tutti_call_config* config) {
  const Output to(places);
  const Input from({input}, &to);
  const auto status = equal_lengths(places)
                          ? library().allgather_with(from.data(), to.data(), bytes_of(input),
                                                     TUTTI_UINT8, comm, config)
                          : library().allgatherv_with(from.data(), bytes_of(input), to.data(),
                                                      bytes_of_each(places).data(), nullptr,
                                                      TUTTI_UINT8, comm, config);
  check(status, "all_gather", comm);
  to.store();
}

// `parts`: one for each rank, or one for all.
void scatter_reduced(const at::Tensor& output, const Tensors& parts, const c10d::ReduceOp& reduce,
                     tutti_comm comm, const tutti_call_config* config) {
  const Operator by(reduce, output, comm);
  const Output to({output});
  const Input from(parts, &to);
  std::vector<size_t> counts;
  for (const auto& part : parts) counts.push_back(part.numel());
  const auto status =
      equal_lengths(parts)
          ? library().reduce_scatter_block_with(from.data(), to.data(), output.numel(), by.type(),
                                                by.op(), comm, config)
          : library().reduce_scatter_with(from.data(), to.data(), counts.data(), by.type(), by.op(),
                                          comm, config);
  check(status, "reduce_scatter", comm);
  to.store();
}

// The sum of the ranks' sparse tensors, in rank order: so it has the same bits on all ranks.
void reduce_sparse(const at::Tensor& tensor, int size, tutti_comm comm,
                   const tutti_call_config* config) {
  at::Tensor input = tensor.coalesce();
  const auto indices = input.indices().contiguous();
  const auto values = input.values().contiguous();
  // Entries, and the shape: ranks must agree on it.
  const int64_t dims = tensor.dim();
  std::vector<int64_t> mine{values.size(0), input.sparse_dim(), dims};
  int64_t hash = 0;
  for (const auto length : tensor.sizes()) hash = hash * 1000003 + length;
  mine.push_back(hash);
  std::vector<int64_t> all(mine.size() * size);
  check(library().allgather_with(mine.data(), all.data(), mine.size(), TUTTI_INT64, comm, config),
        "sparse all_reduce", comm);
  std::vector<size_t> index_counts(size);
  std::vector<size_t> value_bytes(size);
  size_t width = values.element_size();
  for (int64_t d = input.sparse_dim(); d < dims; ++d) width *= tensor.size(d);
  int64_t entries = 0;
  for (int r = 0; r < size; ++r) {
    const int64_t* theirs = all.data() + r * mine.size();
    TORCH_CHECK(theirs[1] == mine[1] && theirs[2] == mine[2] && theirs[3] == mine[3],
                "tutti: sparse all_reduce: rank ", r, " has a tensor of another shape");
    index_counts[r] = theirs[0] * mine[1];
    value_bytes[r] = theirs[0] * width;
    entries += theirs[0];
  }
  auto all_indices = at::empty({entries * mine[1]}, indices.options());
  auto shape = values.sizes().vec();
  shape[0] = entries;
  auto all_values = at::empty(shape, values.options());
  check(library().allgatherv_with(indices.data_ptr(), indices.numel(), all_indices.data_ptr(),
                                  index_counts.data(), nullptr, TUTTI_INT64, comm, config),
        "sparse all_reduce", comm);
  check(library().allgatherv_with(values.data_ptr(), bytes_of(values), all_values.data_ptr(),
                                  value_bytes.data(), nullptr, TUTTI_UINT8, comm, config),
        "sparse all_reduce", comm);
  at::Tensor sum;
  int64_t at_index = 0;
  int64_t at_entry = 0;
  for (int r = 0; r < size; ++r) {
    const int64_t count = index_counts[r] / std::max<int64_t>(mine[1], 1);
    const auto part = at::sparse_coo_tensor(
        all_indices.narrow(0, at_index, index_counts[r]).view({mine[1], count}),
        all_values.narrow(0, at_entry, count), tensor.sizes(), tensor.options());
    sum = sum.defined() ? sum + part : part;
    at_index += index_counts[r];
    at_entry += count;
  }
  tensor.copy_(sum.coalesce());
}

// Handles that ctypes made.
c10::intrusive_ptr<Backend> over_communicators(uintptr_t collectives, uintptr_t messages, int rank,
                                               int size, Milliseconds timeout) {
  // NOLINTBEGIN(performance-no-int-to-ptr)
  return c10::make_intrusive<Backend>(reinterpret_cast<tutti_comm>(collectives),
                                      reinterpret_cast<tutti_comm>(messages), rank, size, timeout);
  // NOLINTEND(performance-no-int-to-ptr)
}

}  // namespace

Backend::State::State(tutti_comm collectives_comm, tutti_comm messages_comm)
    : adoption(std::make_unique<Adoption>(collectives_comm)),
      messages(std::make_shared<Messages>(messages_comm)),
      queue(std::make_shared<CallQueue>()),
      collectives_comm_(collectives_comm),
      messages_comm_(messages_comm) {}

bool Backend::State::runs_here() { return queue->runs_here() || messages->runs_here(); }

void Backend::State::close() {
  const bool done = queue->drain(patience);
  // What was sent and not received, or the other way round, has no end.
  const bool idle = messages->idle();
  if (!done) library().comm_abort(collectives_comm_, "the process group was shut down");
  if (!idle) library().comm_abort(messages_comm_, "the process group was shut down");
  queue->stop();
  messages->stop();
  {
    const std::lock_guard<std::mutex> lock(freeing_);
    freed_ = true;
    library().comm_free(messages_comm_);
    library().comm_free(collectives_comm_);
  }
  adoption.reset();  // tensors are freed when their memory is private again
}

void Backend::State::abort(const char* why) {
  const std::lock_guard<std::mutex> lock(freeing_);
  if (freed_) return;
  library().comm_abort(collectives_comm_, why);
  library().comm_abort(messages_comm_, why);
}

Backend::Backend(tutti_comm collectives, tutti_comm messages, int rank, int size,
                 Milliseconds timeout)
    : Base(rank, size),
      collectives_(collectives),
      timeout_(timeout),
      state_(std::make_shared<State>(collectives, messages)) {}

Backend::~Backend() {
  if (!open_) return;
  // Callbacks of futures may be Python's.
  const auto released = without_gil();
  if (!Serving::here()) {
    state_->close();
    return;
  }
  // What runs here goes on once this has returned, and what is queued behind it.
  end_elsewhere([state = state_] { state->close(); });
}

void Backend::shutdown() {
  TORCH_CHECK(!open_ || !state_->runs_here(),
              "tutti: a process group cannot be destroyed in a callback of its own");
  if (open_.exchange(false)) state_->close();
}

void Backend::abort() { state_->abort("the process group was aborted"); }

c10::intrusive_ptr<Base> Backend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                        const std::vector<int>& ranks,
                                        const c10::intrusive_ptr<Base::Options>& opts) {
  const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
  if (mine == ranks.end()) return {};
  const int rank = static_cast<int>(mine - ranks.begin());
  const int size = static_cast<int>(ranks.size());
  const auto timeout = opts ? opts->timeout : timeout_;
  std::pair<uintptr_t, uintptr_t> comms;
  {
    const pybind11::gil_scoped_acquire locked;
    const auto setup = pybind11::module_::import("tutti_torch._setup");
    comms = setup.attr("communicators")(store, rank, size, timeout.count(), 2, "none")
                .cast<std::pair<uintptr_t, uintptr_t>>();
  }
  return over_communicators(comms.first, comms.second, rank, size, timeout);
}

c10::intrusive_ptr<Base::Options> Backend::getBackendOptions() {
  return c10::make_intrusive<Base::Options>("tutti", timeout_);
}

WorkPtr Backend::issued(WorkPtr work) {
  if (coalescer_.load() == std::this_thread::get_id() && !state_->queue->in_callback())
    coalesced_.push_back(work);
  return work;
}

void Backend::startCoalescing() {
  coalescer_ = std::this_thread::get_id();
  coalesced_.clear();
}

WorkPtr Backend::endCoalescing() {
  coalescer_ = std::thread::id();
  return c10::make_intrusive<JoinedWork>(rank_, std::exchange(coalesced_, {}));
}

WorkPtr Backend::issue(OpType type, const char* title, const Tensors& inputs, Tensors outputs,
                       Milliseconds timeout, std::function<void(const tutti_call_config*)> run) {
  TORCH_CHECK(open_, "tutti: the process group was shut down");
  const int64_t limit = (timeout.count() > 0 ? timeout : timeout_).count();
  auto call = c10::make_intrusive<CallQueue::Call>(
      state_->queue,
      [limit, run = std::move(run)] {
        tutti_call_config config = TUTTI_CALL_CONFIG_INIT;
        config.timeout_ms = limit;
        run(&config);
      },
      rank_, type, title, inputs, std::move(outputs), ++sequence_, rank_);
  state_->queue->push(call);
  return issued(std::move(call));
}

WorkPtr Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  const auto tensor = only(tensors, "broadcast");
  check_root(opts.rootRank, size_, "broadcast");
  const int root = static_cast<int>(opts.rootRank);
  return issue(OpType::BROADCAST, "tutti:broadcast", tensors, tensors, opts.timeout,
               [=, comm = collectives_, mine = root == rank_](const tutti_call_config* config) {
                 const Output buffer({tensor});
                 if (mine) buffer.load();
                 check(library().broadcast_with(buffer.data(), bytes_of(tensor), TUTTI_UINT8, root,
                                                comm, config),
                       "broadcast", comm);
                 if (!mine) buffer.store();
               });
}

WorkPtr Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  TORCH_CHECK(tensors.size() == 1, "tutti: all_reduce takes one tensor, not ", tensors.size());
  const auto tensor = tensors[0];
  const auto by = opts.reduceOp;
  if (tensor.is_sparse()) {
    TORCH_CHECK(tensor.device().is_cpu(), "tutti: all_reduce on a sparse tensor in memory of ",
                tensor.device(), ": only tensors of the processor are served");
    TORCH_CHECK(static_cast<c10d::ReduceOp::RedOpType>(by) == c10d::ReduceOp::SUM,
                "tutti: sparse tensors can only be summed");
    return issue(OpType::ALLREDUCE, "tutti:sparse_all_reduce", tensors, tensors, opts.timeout,
                 [=, comm = collectives_, size = size_](const tutti_call_config* config) {
                   reduce_sparse(tensor, size, comm, config);
                 });
  }
  check_tensor(tensor, "all_reduce");
  return issue(
      OpType::ALLREDUCE, "tutti:all_reduce", tensors, tensors, opts.timeout,
      [=, &adoption = *state_->adoption, comm = collectives_](const tutti_call_config* config) {
        reduce_all(tensor, by, adoption, comm, config);
      });
}

WorkPtr Backend::allreduce_coalesced(Tensors& tensors,
                                     const c10d::AllreduceCoalescedOptions& opts) {
  check_tensors(tensors, "all_reduce_coalesced");
  return issue(OpType::ALLREDUCE_COALESCED, "tutti:all_reduce", tensors, tensors, opts.timeout,
               [=, &adoption = *state_->adoption, by = opts.reduceOp, comm = collectives_,
                all = tensors](const tutti_call_config* config) {
                 for (const auto& tensor : all) reduce_all(tensor, by, adoption, comm, config);
               });
}

WorkPtr Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  const auto tensor = only(tensors, "reduce");
  check_root(opts.rootRank, size_, "reduce");
  const int root = static_cast<int>(opts.rootRank);
  return issue(OpType::REDUCE, "tutti:reduce", tensors, tensors, opts.timeout,
               [=, by = opts.reduceOp, comm = collectives_,
                mine = root == rank_](const tutti_call_config* config) {
                 const Operator reduction(by, tensor, comm);
                 const Output buffer({tensor});
                 buffer.load();
                 check(library().reduce_with(mine ? TUTTI_IN_PLACE : buffer.data(),
                                             mine ? buffer.data() : nullptr, tensor.numel(),
                                             reduction.type(), reduction.op(), root, comm, config),
                       "reduce", comm);
                 if (mine) buffer.store();
               });
}

WorkPtr Backend::allgather(TensorLists& outputs, Tensors& inputs,
                           const c10d::AllgatherOptions& opts) {
  const auto input = only(inputs, "all_gather");
  const auto places = only(outputs, "all_gather");
  check_places(places, input, size_, "all_gather");
  TORCH_CHECK(places[rank_].numel() == input.numel(),
              "tutti: all_gather: the place of the own tensor has another length than it");
  return issue(OpType::ALLGATHER, "tutti:all_gather", inputs, places, opts.timeout,
               [=, comm = collectives_](const tutti_call_config* config) {
                 gather_all(places, input, comm, config);
               });
}

WorkPtr Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                 const c10d::AllgatherOptions& opts) {
  check_tensors({output, input}, "all_gather_into_tensor");
  check_type(output, input, "all_gather_into_tensor");
  TORCH_CHECK(output.numel() == input.numel() * size_,
              "tutti: all_gather_into_tensor: the output must be ", size_,
              " times as long as the input");
  return issue(OpType::_ALLGATHER_BASE, "tutti:_all_gather_base", {input}, {output}, opts.timeout,
               [to = output, from = input, comm = collectives_](const tutti_call_config* config) {
                 gather_all({to}, from, comm, config);
               });
}

WorkPtr Backend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                     const c10d::AllgatherOptions& opts) {
  check_tensors(inputs, "all_gather_coalesced");
  check_count(outputs.size(), size_, "all_gather_coalesced");
  Tensors all;
  for (const auto& list : outputs) {
    check_tensors(list, "all_gather_coalesced");
    TORCH_CHECK(list.size() == inputs.size(), "tutti: all_gather_coalesced takes as many outputs ",
                "from each rank as there are inputs");
    for (size_t i = 0; i < list.size(); ++i) {
      check_type(list[i], inputs[i], "all_gather_coalesced");
      TORCH_CHECK(list[i].numel() == inputs[i].numel(),
                  "tutti: all_gather_coalesced: outputs must be as long as inputs");
    }
    all.insert(all.end(), list.begin(), list.end());
  }
  return issue(
      OpType::ALLGATHER_COALESCED, "tutti:all_gather", inputs, all, opts.timeout,
      [lists = outputs, from = inputs, comm = collectives_](const tutti_call_config* config) {
        for (size_t i = 0; i < from.size(); ++i) {
          Tensors places;
          for (const auto& list : lists) places.push_back(list[i]);
          gather_all(places, from[i], comm, config);
        }
      });
}

WorkPtr Backend::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  const auto input = only(inputs, "gather");
  check_root(opts.rootRank, size_, "gather");
  const int root = static_cast<int>(opts.rootRank);
  Tensors places;
  if (root == rank_) {
    places = only(outputs, "gather");
    check_places(places, input, size_, "gather");
    for (const auto& place : places)
      TORCH_CHECK(place.numel() == input.numel(),
                  "tutti: gather: outputs must be as long as the input");
  } else {
    TORCH_CHECK(outputs.empty() || (outputs.size() == 1 && outputs[0].empty()),
                "tutti: gather takes outputs on rank ", root, " only");
  }
  return issue_gather(std::move(places), input, root, opts.timeout);
}

WorkPtr Backend::gather_single(at::Tensor& output, at::Tensor& input,
                               const c10d::GatherOptions& opts) {
  check_root(opts.rootRank, size_, "gather_single");
  const int root = static_cast<int>(opts.rootRank);
  check_tensor(input, "gather_single");
  Tensors places;
  if (root == rank_) {
    check_tensor(output, "gather_single");
    check_type(output, input, "gather_single");
    TORCH_CHECK(output.numel() == input.numel() * size_,
                "tutti: gather_single: the output must be ", size_, " times as long as the input");
    places = {output};
  }
  return issue_gather(std::move(places), input, root, opts.timeout);
}

WorkPtr Backend::issue_gather(Tensors places, const at::Tensor& input, int root,
                              Milliseconds timeout) {
  return issue(OpType::GATHER, "tutti:gather", {input}, places, timeout,
               [=, comm = collectives_](const tutti_call_config* config) {
                 const Output to(places);
                 const Input from({input}, &to);
                 check(library().gather_with(from.data(), to.data(), bytes_of(input), TUTTI_UINT8,
                                             root, comm, config),
                       "gather", comm);
                 to.store();
               });
}

WorkPtr Backend::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) {
  const auto output = only(outputs, "scatter");
  check_root(opts.rootRank, size_, "scatter");
  const int root = static_cast<int>(opts.rootRank);
  Tensors parts;
  if (root == rank_) {
    parts = only(inputs, "scatter");
    check_places(parts, output, size_, "scatter");
    for (const auto& part : parts)
      TORCH_CHECK(part.numel() == output.numel(),
                  "tutti: scatter: inputs must be as long as the output");
  } else {
    TORCH_CHECK(inputs.empty() || (inputs.size() == 1 && inputs[0].empty()),
                "tutti: scatter takes inputs on rank ", root, " only");
  }
  return issue(OpType::SCATTER, "tutti:scatter", parts, outputs, opts.timeout,
               [=, comm = collectives_](const tutti_call_config* config) {
                 const Output to({output});
                 const Input from(parts, &to);
                 check(library().scatter_with(from.data(), to.data(), bytes_of(output), TUTTI_UINT8,
                                              root, comm, config),
                       "scatter", comm);
                 to.store();
               });
}

WorkPtr Backend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                const c10d::ReduceScatterOptions& opts) {
  const auto output = only(outputs, "reduce_scatter");
  const auto parts = only(inputs, "reduce_scatter");
  check_places(parts, output, size_, "reduce_scatter");
  TORCH_CHECK(parts[rank_].numel() == output.numel(),
              "tutti: reduce_scatter: the output has another length than the own input");
  return issue(OpType::REDUCE_SCATTER, "tutti:reduce_scatter", parts, outputs, opts.timeout,
               [=, by = opts.reduceOp, comm = collectives_](const tutti_call_config* config) {
                 scatter_reduced(output, parts, by, comm, config);
               });
}

WorkPtr Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                      const c10d::ReduceScatterOptions& opts) {
  check_tensors({output, input}, "reduce_scatter_tensor");
  check_type(output, input, "reduce_scatter_tensor");
  TORCH_CHECK(input.numel() == output.numel() * size_,
              "tutti: reduce_scatter_tensor: the input must be ", size_,
              " times as long as the output");
  return issue(
      OpType::_REDUCE_SCATTER_BASE, "tutti:_reduce_scatter_base", {input}, {output}, opts.timeout,
      [to = output, from = input, by = opts.reduceOp, comm = collectives_](
          const tutti_call_config* config) { scatter_reduced(to, {from}, by, comm, config); });
}

WorkPtr Backend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  return allreduce(tensors, opts);
}

WorkPtr Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllgatherOptions& opts) {
  check_tensors(concatenated(outputs, inputs), "all_gather_into_tensor_coalesced");
  TORCH_CHECK(outputs.size() == inputs.size(),
              "tutti: all_gather_into_tensor_coalesced takes as many outputs as inputs");
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_type(outputs[i], inputs[i], "all_gather_into_tensor_coalesced");
    TORCH_CHECK(outputs[i].numel() == inputs[i].numel() * size_,
                "tutti: all_gather_into_tensor_coalesced: each output must be ", size_,
                " times as long as its input");
  }
  return issue(OpType::ALLGATHER_COALESCED, "tutti:all_gather_into_tensor_coalesced", inputs,
               outputs, opts.timeout,
               [to = outputs, from = inputs, comm = collectives_](const tutti_call_config* config) {
                 for (size_t i = 0; i < from.size(); ++i)
                   gather_all({to[i]}, from[i], comm, config);
               });
}

WorkPtr Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::ReduceScatterOptions& opts) {
  check_tensors(concatenated(outputs, inputs), "reduce_scatter_tensor_coalesced");
  TORCH_CHECK(outputs.size() == inputs.size(),
              "tutti: reduce_scatter_tensor_coalesced takes as many outputs as inputs");
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_type(outputs[i], inputs[i], "reduce_scatter_tensor_coalesced");
    TORCH_CHECK(inputs[i].numel() == outputs[i].numel() * size_,
                "tutti: reduce_scatter_tensor_coalesced: each input must be ", size_,
                " times as long as its output");
  }
  return issue(OpType::REDUCE_SCATTER, "tutti:reduce_scatter_tensor_coalesced", inputs, outputs,
               opts.timeout,
               [to = outputs, from = inputs, by = opts.reduceOp,
                comm = collectives_](const tutti_call_config* config) {
                 for (size_t i = 0; i < from.size(); ++i) {
                   scatter_reduced(to[i], {from[i]}, by, comm, config);
                 }
               });
}

WorkPtr Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                               std::vector<int64_t>& output_splits,
                               std::vector<int64_t>& input_splits,
                               const c10d::AllToAllOptions& opts) {
  check_tensors({output, input}, "all_to_all");
  check_type(output, input, "all_to_all");
  const auto received = blocks(output, output_splits, size_, "output");
  const auto sent = blocks(input, input_splits, size_, "input");
  return issue(
      OpType::ALLTOALL_BASE, "tutti:all_to_all", {input}, {output}, opts.timeout,
      [=, comm = collectives_, to = output, from = input](const tutti_call_config* config) {
        const Input flat({from});
        const Output place({to});
        // The form with lengths always: a rank may give splits where another does not.
        check(library().alltoallv_with(flat.data(), sent.data(), nullptr, place.data(),
                                       received.data(), nullptr, TUTTI_UINT8, comm, config),
              "all_to_all", comm);
        place.store();
      });
}

WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  const auto all = concatenated(outputs, inputs);
  check_tensors(all, "all_to_all");
  check_count(outputs.size(), size_, "all_to_all");
  check_count(inputs.size(), size_, "all_to_all");
  for (const auto& tensor : all) check_type(tensor, inputs[0], "all_to_all");
  return issue(
      OpType::ALLTOALL, "tutti:all_to_all", inputs, outputs, opts.timeout,
      [=, comm = collectives_, to = outputs, from = inputs](const tutti_call_config* config) {
        const Input flat(from);
        const Output place(to);
        check(
            library().alltoallv_with(flat.data(), bytes_of_each(from).data(), nullptr, place.data(),
                                     bytes_of_each(to).data(), nullptr, TUTTI_UINT8, comm, config),
            "all_to_all", comm);
        place.store();
      });
}

WorkPtr Backend::barrier(const c10d::BarrierOptions& opts) {
  return issue(OpType::BARRIER, "tutti:barrier", {}, {}, opts.timeout,
               [comm = collectives_](const tutti_call_config* config) {
                 check(library().barrier_with(comm, config), "barrier", comm);
               });
}

WorkPtr Backend::issue_message(bool send, Tensors& tensors, int peer, int tag) {
  const char* what = send ? "send" : "recv";
  TORCH_CHECK(open_, "tutti: the process group was shut down");
  const auto tensor = only(tensors, what);
  const auto flat =
      send ? tensor.contiguous()
           : (tensor.is_contiguous() ? tensor
                                     : at::empty_like(tensor, at::MemoryFormat::Contiguous));
  const bool copied = !flat.is_same(tensor);
  // Keeps the buffer until the message has ended.
  auto finish = [tensor, flat, back = copied && !send] {
    if (back) tensor.copy_(flat);
  };
  auto message = c10::make_intrusive<Messages::Message>(
      state_->messages, std::move(finish), rank_, send ? OpType::SEND : OpType::RECV,
      send ? "tutti:send" : "tutti:recv", tensors, tensors, sequence_, send ? rank_ : peer);
  state_->messages->begin(message, send, flat.data_ptr(), bytes_of(flat), peer, tag, timeout_);
  return issued(std::move(message));
}

WorkPtr Backend::send(Tensors& tensors, int peer, int tag) {
  check_root(peer, size_, "send");
  return issue_message(true, tensors, peer, tag);
}

WorkPtr Backend::recv(Tensors& tensors, int peer, int tag) {
  check_root(peer, size_, "recv");
  return issue_message(false, tensors, peer, tag);
}

WorkPtr Backend::recvAnysource(Tensors& tensors, int tag) {
  // Of two ranks one may send, and an empty tensor may be received from it.
  return issue_message(false, tensors, size_ == 2 ? 1 - rank_ : Messages::any_peer, tag);
}

}  // namespace tutti_torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.attr("torch_release") =
      std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR);
  module.def("load_library", &tutti_torch::load_library);
  module.def(
      "create",
      [](uintptr_t collectives, uintptr_t messages, int rank, int size,
         int64_t timeout_ms) -> c10::intrusive_ptr<tutti_torch::Base> {
        return tutti_torch::over_communicators(collectives, messages, rank, size,
                                               tutti_torch::Milliseconds(timeout_ms));
      },
      pybind11::call_guard<pybind11::gil_scoped_release>());
#if TORCH_VERSION_MAJOR >= 2
  // What torch asks of backends in Python, and does not declare for all: later ones do.
  using tutti_torch::Backend;
  pybind11::class_<Backend, c10::intrusive_ptr<Backend>, tutti_torch::Base> backend(module,
                                                                                    "Backend");
  backend.def("perform_nocolor_split", [](Backend&, const pybind11::object&) {});
  if (!pybind11::hasattr(backend, "options"))
    backend.def_property_readonly("options", [](Backend&) { return pybind11::none(); });
  if (!pybind11::hasattr(backend, "abort")) backend.def("abort", &Backend::abort);
#endif
  pybind11::module_::import("atexit").attr("register")(pybind11::cpp_function(
      &tutti_torch::await_ends, pybind11::call_guard<pybind11::gil_scoped_release>()));
}
