#include "trainer/models/group.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "trainer/common/call.h"
#include "trainer/common/timeline.h"

namespace tutti::train {
namespace {

using torch::Tensor;
using Back = std::function<Tensor(const Tensor&)>;

// A node of autograd's graph: y is a function of x, and `back` maps y's gradient to x's.
struct Step : torch::autograd::Node {
  explicit Step(Back back) : back(std::move(back)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& outer) override {
    const torch::NoGradGuard fixed;
    return {back(outer[0])};
  }
  Back back;
};

// The pointer type of a node: since LibTorch 2.12 or so it is intrusive.
using Node = decltype(torch::autograd::impl::grad_accumulator(std::declval<const Tensor&>()));
template <class Pointer, class Work>
Pointer made_node(Work work) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>)
    return std::make_shared<Step>(std::move(work));
  else
    return c10::make_intrusive<Step>(std::move(work));
}

Tensor step(const Tensor& x, Tensor y, Back back) {
  if (!torch::GradMode::is_enabled() || !x.requires_grad()) return y;
  const Node node = made_node<Node>(std::move(back));
  node->set_next_edges(torch::autograd::collect_next_edges(x));
  torch::autograd::set_history(y, node);
  return y;
}

tutti_dtype dtype_in(const Tensor& x) {
  switch (x.scalar_type()) {
    case torch::kFloat32:
      return TUTTI_FLOAT32;
    case torch::kFloat64:
      return TUTTI_FLOAT64;
    case torch::kBFloat16:
      return TUTTI_BFLOAT16;
    case torch::kHalf:
      return TUTTI_FLOAT16;
    default:
      throw std::logic_error("only floats travel between ranks");
  }
}

// Whether the call goes into the GPU's null stream, in which LibTorch computes: those with a
// stream-ordered form do, which those of parts need `even` ones for. A blocking call reads at once,
// so pending work is waited for.
bool on_stream(const Tensor& x, const Group& group, bool even = true) {
  if (!x.is_cuda()) return false;
  const bool streams = group.streams && even;
  if (!streams)
    c10::impl::VirtualGuardImpl(x.device().type()).getDefaultStream(x.device()).synchronize();
  return streams;
}

// Counts a call while it runs.
class Counted {
 public:
  Counted(const Group& group, const GroupCall& call) : made_(group.made), from_(now()) {
    if (made_) made_->calls.push_back(call);
  }
  ~Counted() {
    if (made_) made_->seconds += now() - from_;
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  GroupCalls* made_;
  double from_;
};

Tensor reduced(const Tensor& x, tutti_op op, const Group& group) {
  Tensor y = x.detach().clone(torch::MemoryFormat::Contiguous);
  const tutti_comm comm = group.comm->get();
  const size_t count = size_t(y.numel());
  const Counted counted(group, {GroupCall::Kind::allreduce, count, dtype_in(y), op});
  check(on_stream(y, group) ? tutti_allreduce_on(TUTTI_IN_PLACE, y.data_ptr(), count, dtype_in(y),
                                                 op, comm, &group.sums, nullptr)
                            : tutti_allreduce_with(TUTTI_IN_PLACE, y.data_ptr(), count, dtype_in(y),
                                                   op, comm, &group.sums),
        *group.comm);
  return y;
}

// Elements of each rank's part, so many rows of `all`.
std::vector<size_t> counts(const std::vector<int64_t>& sizes, const Tensor& all) {
  const int64_t row = all.numel() / std::max<int64_t>(all.size(0), 1);
  std::vector<size_t> out;
  for (const int64_t size : sizes) out.push_back(size_t(size * row));
  return out;
}

bool all_equal(const std::vector<size_t>& counts) {
  return std::all_of(counts.begin(), counts.end(), [&](size_t n) { return n == counts.front(); });
}

// With the dimension first, blocks of ranks lie one after the other.
Tensor gathered(const Tensor& x, int64_t dimension, const std::vector<int64_t>& sizes,
                const Group& group) {
  const Tensor mine = x.detach().movedim(dimension, 0).contiguous();
  std::vector<int64_t> shape = mine.sizes().vec();
  shape[0] = std::accumulate(sizes.begin(), sizes.end(), int64_t(0));
  Tensor all = torch::empty(shape, mine.options());
  const std::vector<size_t> lengths = counts(sizes, all);
  const Counted counted(group, {GroupCall::Kind::allgather, size_t(all.numel()), dtype_in(mine)});
  const tutti_comm comm = group.comm->get();
  check(on_stream(mine, group, all_equal(lengths))
            ? tutti_allgather_on(mine.data_ptr(), all.data_ptr(), lengths[0], dtype_in(mine), comm,
                                 nullptr, nullptr)
            : tutti_allgatherv(mine.data_ptr(), size_t(mine.numel()), all.data_ptr(),
                               lengths.data(), nullptr, dtype_in(mine), comm),
        *group.comm);
  return all.movedim(0, dimension).contiguous();
}

Tensor scattered_sum(const Tensor& x, int64_t dimension, const Group& group) {
  const Tensor all = x.detach().movedim(dimension, 0).contiguous();
  const std::vector<int64_t> sizes = parts(all.size(0), group);
  std::vector<int64_t> shape = all.sizes().vec();
  shape[0] = sizes[size_t(group.rank)];
  Tensor mine = torch::empty(shape, all.options());
  const std::vector<size_t> lengths = counts(sizes, all);
  const Counted counted(group,
                        {GroupCall::Kind::reduce_scatter, size_t(all.numel()), dtype_in(all)});
  tutti_call_config config = TUTTI_CALL_CONFIG_INIT;  // not the algorithm, which is an allreduce's
  config.level = group.sums.level;
  const tutti_comm comm = group.comm->get();
  check(on_stream(all, group, all_equal(lengths))
            ? tutti_reduce_scatter_block_on(all.data_ptr(), mine.data_ptr(), lengths[0],
                                            dtype_in(all), TUTTI_SUM, comm, &config, nullptr)
            : tutti_reduce_scatter_with(all.data_ptr(), mine.data_ptr(), lengths.data(),
                                        dtype_in(all), TUTTI_SUM, comm, &config),
        *group.comm);
  return mine.movedim(0, dimension).contiguous();
}

Tensor slice(const Tensor& x, int64_t dimension, const std::vector<int64_t>& sizes,
             const Group& group) {
  const int64_t begin = std::accumulate(sizes.begin(), sizes.begin() + group.rank, int64_t(0));
  return x.detach().narrow(dimension, begin, sizes[size_t(group.rank)]).contiguous();
}

// Messages are sent from host memory.
void send_to(const Tensor& x, int to, const Group& group) {
  const Tensor whole = x.detach().contiguous().to(torch::kCPU);
  const Counted counted(group, {GroupCall::Kind::message, size_t(whole.numel()), dtype_in(whole)});
  check(tutti_send(whole.data_ptr(), size_t(whole.numel()), dtype_in(whole), to, 0,
                   group.comm->get()),
        *group.comm);
}

void receive_from(Tensor& x, int from, const Group& group) {
  Tensor here = x.is_cuda() ? torch::empty_like(x, torch::kCPU) : x;
  const double begun = now();
  check(
      tutti_recv(here.data_ptr(), size_t(here.numel()), dtype_in(here), from, 0, group.comm->get()),
      *group.comm);
  if (group.made) group.made->seconds += now() - begun;
  if (x.is_cuda()) x.copy_(here);
}

}  // namespace

std::vector<int64_t> parts(int64_t total, const Group& group) {
  std::vector<int64_t> sizes;
  for (int r = 0; r < group.size; ++r) sizes.push_back(part_of(total, group.size, r).size());
  return sizes;
}

Tensor own_part(const Tensor& x, int64_t dimension, const Group& group) {
  if (group.size == 1) return x;
  const Span mine = part_of(x.size(dimension), group.size, group.rank);
  return x.narrow(dimension, mine.begin, mine.size());
}

Tensor copy_to(const Tensor& x, const Group& group) {
  if (group.size == 1) return x;
  return step(x, x.detach(), [&group](const Tensor& outer) { return sum_of(outer, group); });
}

Tensor reduce_from(const Tensor& x, const Group& group) {
  if (group.size == 1) return x;
  return step(x, sum_of(x, group), [](const Tensor& outer) { return outer; });
}

Tensor gather_to(const Tensor& x, int64_t dimension, int64_t total, const Group& group) {
  if (group.size == 1) return x;
  return step(
      x, gathered(x, dimension, parts(total, group), group),
      [&group, dimension](const Tensor& outer) { return scattered_sum(outer, dimension, group); });
}

Tensor reduce_scatter_from(const Tensor& x, int64_t dimension, const Group& group) {
  if (group.size == 1) return x;
  return step(x, scattered_sum(x, dimension, group),
              [&group, dimension, sizes = parts(x.size(dimension), group)](const Tensor& outer) {
                return gathered(outer, dimension, sizes, group);
              });
}

Tensor scatter_to(const Tensor& x, int64_t dimension, const Group& group) {
  if (group.size == 1) return x;
  return step(x, own_part(x.detach(), dimension, group).contiguous(),
              [&group, dimension, sizes = parts(x.size(dimension), group)](const Tensor& outer) {
                return gathered(outer, dimension, sizes, group);
              });
}

Tensor gather_from(const Tensor& x, int64_t dimension, const std::vector<int64_t>& sizes,
                   const Group& group) {
  if (group.size == 1) return x;
  return step(x, gathered(x, dimension, sizes, group),
              [&group, dimension, sizes](const Tensor& outer) {
                return slice(outer, dimension, sizes, group);
              });
}

Tensor send(const Tensor& x, int to, const Group& group) {
  send_to(x, to, group);
  return step(x, torch::zeros({}, x.options()),
              [&group, to, shape = x.sizes().vec()](const Tensor& outer) {
                Tensor back = torch::empty(shape, outer.options());
                receive_from(back, to, group);
                return back;
              });
}

Tensor receive(const Tensor& before, std::vector<int64_t> shape, int from, const Group& group) {
  Tensor x = torch::empty(shape, before.options().requires_grad(false));
  receive_from(x, from, group);
  return step(before, x, [&group, from, sizes = before.sizes().vec()](const Tensor& outer) {
    send_to(outer, from, group);
    return torch::zeros(sizes, outer.options());
  });
}

Tensor sum_of(const Tensor& x, const Group& group) {
  return group.size == 1 ? x.detach() : reduced(x, TUTTI_SUM, group);
}

Tensor max_of(const Tensor& x, const Group& group) {
  return group.size == 1 ? x.detach() : reduced(x, TUTTI_MAX, group);
}

// ---------------------------------------------------------------- strips

namespace {

Span overlap(Span a, Span b) {
  const Span both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.size() > 0 ? both : Span{};
}

// Of pictures of which rank r has the rows have[r]: the rows want[rank], each the sum of what this
// rank and its neighbours have of it. `apart`: one rank alone has it, and it stays bit for bit.
Tensor exchanged(const Tensor& x, const std::vector<Span>& have, const std::vector<Span>& want,
                 const Group& group, bool apart) {
  const Span own = have[size_t(group.rank)], wanted = want[size_t(group.rank)];
  std::vector<int64_t> shape = x.sizes().vec();
  shape[2] = wanted.size();
  Tensor y = torch::zeros(shape, x.options());
  const auto place_of = [&](Span rows) {
    return y.narrow(2, rows.begin - wanted.begin, rows.size());
  };
  const auto rows_of = [&](Span rows) { return x.narrow(2, rows.begin - own.begin, rows.size()); };
  if (const Span kept = overlap(own, wanted); kept.size() > 0) place_of(kept).copy_(rows_of(kept));
  // Messages complete at the end of the group: until then their memory must stay valid.
  std::vector<Tensor> sent;
  std::vector<std::pair<Span, Tensor>> came;
  const double begun = now();
  group.comm->group([&] {
    for (const int peer : {group.rank - 1, group.rank + 1}) {
      if (peer < 0 || peer >= group.size) continue;
      if (const Span rows = overlap(own, want[size_t(peer)]); rows.size() > 0)
        send_to(sent.emplace_back(rows_of(rows).contiguous().to(torch::kCPU)), peer, group);
      if (const Span rows = overlap(have[size_t(peer)], wanted); rows.size() > 0) {
        came.emplace_back(
            rows, torch::empty_like(place_of(rows), torch::kCPU, torch::MemoryFormat::Contiguous));
        receive_from(came.back().second, peer, group);
      }
    }
  });
  if (group.made) group.made->seconds += now() - begun;
  for (const auto& [rows, values] : came) {
    Tensor place = place_of(rows);
    const Tensor here = values.to(x.device());
    apart ? place.copy_(here) : place.add_(here);
  }
  return y;
}

}  // namespace

Tensor exchange_rows(const Tensor& x, int64_t height, const std::vector<Span>& needed,
                     const Group& group) {
  std::vector<Span> strips;
  for (int r = 0; r < group.size; ++r) strips.push_back(part_of(height, group.size, r));
  const Span wanted = needed[size_t(group.rank)];
  const Span near{strips[size_t(std::max(group.rank - 1, 0))].begin,
                  strips[size_t(std::min(group.rank + 1, group.size - 1))].end};
  if (overlap(near, wanted).size() != wanted.size())
    throw std::logic_error("a strip needs more rows than its neighbours hold");
  return step(
      x, exchanged(x.detach(), strips, needed, group, true),
      [=, &group](const Tensor& outer) { return exchanged(outer, needed, strips, group, false); });
}

}  // namespace tutti::train
