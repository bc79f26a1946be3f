#include "tools/tutti-soak/operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tools/tutti-soak/vocabulary.h"

namespace tutti::soak {

Operation::Operation(const Call& call, const Seat& seat, Contents& contents, Arenas arenas,
                     Random& random)
    : call_(call),
      seat_(seat),
      contents_(contents),
      arenas_(arenas),
      random_(random),
      dtype_(Vocabulary::get().types()[call.what.type].dtype),
      op_(Vocabulary::get().operators()[call.what.op].op),
      element_(Vocabulary::get().types()[call.what.type].size),
      root_(int(call.root % uint64_t(seat.nranks))) {
  config_.algorithm = call.algorithm;
  config_.flags = call.flags;
  config_.level = call.level;
  if (call.algorithm || call.flags || call.level) config_used_ = &config_;
  plan();
  place();
}

// ---------------------------------------------------------------- plan

void Operation::plan() {
  switch (call_.kind) {
    case Kind::allreduce:
    case Kind::reduce:
    case Kind::scan:
    case Kind::exscan:
    case Kind::coded:
      return plan_reduction();
    case Kind::broadcast:
      return plan_broadcast();
    case Kind::allgather:
    case Kind::allgatherv:
    case Kind::gather:
    case Kind::gatherv:
      return plan_gather();
    case Kind::scatter:
    case Kind::scatterv:
      return plan_scatter();
    case Kind::alltoall:
    case Kind::alltoallv:
      return plan_alltoall();
    case Kind::reduce_scatter_block:
    case Kind::reduce_scatter:
      return plan_reduce_scatter();
    case Kind::sendrecv:
    case Kind::message:
    case Kind::group:
      return plan_messages();
    case Kind::barrier:
    case Kind::count:
      return;
  }
}

void Operation::plan_reduction() {
  const bool gets = call_.kind != Kind::reduce || seat_.rank == root_;
  const int ranks = call_.kind == Kind::scan     ? seat_.rank + 1
                    : call_.kind == Kind::exscan ? seat_.rank
                                                 : seat_.nranks;
  in_place_ = gets && random_.chance(250);
  has_send_ = !in_place_;
  has_recv_ = gets || random_.chance(500);
  send_bytes_ = recv_bytes_ = call_.count * element_;
  in_ = {{0, send_bytes_, Source::given, seat_.rank, 0}};
  if (gets && ranks > 0) out_ = {{0, recv_bytes_, Source::reduced, ranks, 0}};
}

void Operation::plan_broadcast() {
  in_place_ = has_recv_ = true;
  recv_bytes_ = call_.count * element_;
  out_ = {{0, recv_bytes_, Source::moved, root_, 0}};
  if (seat_.rank == root_) in_ = out_;
}

std::vector<size_t> Operation::lengths_from(int rank) const {
  std::vector<size_t> lengths;
  lengths.reserve(size_t(seat_.nranks));
  for (int to = 0; to < seat_.nranks; ++to) lengths.push_back(call_.length(rank, to, seat_.nranks));
  return lengths;
}

std::vector<size_t> Operation::lengths_to(int rank) const {
  std::vector<size_t> lengths;
  lengths.reserve(size_t(seat_.nranks));
  for (int from = 0; from < seat_.nranks; ++from)
    lengths.push_back(call_.length(from, rank, seat_.nranks));
  return lengths;
}

// One after the other; with gaps: some elements between them, in this order or in reverse.
Operation::Blocks Operation::lay_out(const std::vector<size_t>& counts, bool gaps) {
  Blocks blocks{counts, std::vector<size_t>(counts.size())};
  std::vector<size_t> order(counts.size());
  std::iota(order.begin(), order.end(), size_t(0));
  const size_t gap = gaps && random_.chance(300) ? 1 + random_.below(3) : 0;
  if (gaps && random_.chance(200)) std::reverse(order.begin(), order.end());
  blocks.plain = gap == 0 && std::is_sorted(order.begin(), order.end()) && random_.chance(500);
  for (const size_t rank : order) {
    blocks.displs[rank] = blocks.end + gap;
    blocks.end = blocks.displs[rank] + counts[rank];
  }
  return blocks;
}

void Operation::plan_gather() {
  const bool all = call_.kind == Kind::allgather || call_.kind == Kind::allgatherv;
  const bool gets = all || seat_.rank == root_;
  const bool v = call_.kind == Kind::allgatherv || call_.kind == Kind::gatherv;
  const size_t own = call_.length(seat_.rank, 0, seat_.nranks) * element_;
  in_place_ = gets && random_.chance(250);
  has_send_ = !in_place_;
  has_recv_ = gets;
  send_bytes_ = own;
  in_ = {{0, own, Source::moved, seat_.rank, 0}};
  if (!gets) return;
  received_ = lay_out(lengths_to(seat_.rank), v);
  recv_bytes_ = received_.end * element_;
  for (int from = 0; from < seat_.nranks; ++from)
    out_.push_back({received_.displs[size_t(from)] * element_,
                    received_.counts[size_t(from)] * element_, Source::moved, from, 0});
  if (in_place_) in_[0].at = out_[size_t(seat_.rank)].at;
}

void Operation::plan_scatter() {
  const bool gives = seat_.rank == root_;
  const size_t own = call_.length(root_, seat_.rank, seat_.nranks) * element_;
  has_send_ = gives;
  has_recv_ = !gives || !random_.chance(250);  // without it the root calls in place
  recv_bytes_ = own;
  out_ = {{0, own, Source::moved, root_, seat_.rank}};
  if (!gives) return;
  sent_ = lay_out(lengths_from(root_), call_.kind == Kind::scatterv);
  send_bytes_ = sent_.end * element_;
  for (int to = 0; to < seat_.nranks; ++to)
    in_.push_back({sent_.displs[size_t(to)] * element_, sent_.counts[size_t(to)] * element_,
                   Source::moved, root_, to});
}

void Operation::plan_alltoall() {
  const bool v = call_.kind == Kind::alltoallv;
  in_place_ = (!v || call_.symmetric_lengths) && random_.chance(250);
  has_send_ = !in_place_;
  has_recv_ = true;
  received_ = lay_out(lengths_to(seat_.rank), v);
  sent_ = in_place_ ? received_ : lay_out(lengths_from(seat_.rank), v);
  send_bytes_ = sent_.end * element_;
  recv_bytes_ = received_.end * element_;
  for (int peer = 0; peer < seat_.nranks; ++peer) {
    const auto at = size_t(peer);
    in_.push_back({sent_.displs[at] * element_, sent_.counts[at] * element_, Source::moved,
                   seat_.rank, peer});
    out_.push_back({received_.displs[at] * element_, received_.counts[at] * element_, Source::moved,
                    peer, seat_.rank});
  }
}

void Operation::plan_reduce_scatter() {
  sent_ = lay_out(lengths_from(seat_.rank), false);
  const size_t own = sent_.counts[size_t(seat_.rank)] * element_;
  in_place_ = random_.chance(250);
  has_send_ = !in_place_;
  has_recv_ = true;
  send_bytes_ = sent_.end * element_;
  recv_bytes_ = in_place_ ? send_bytes_ : own;
  in_ = {{0, send_bytes_, Source::given, seat_.rank, 0}};
  out_ = {{0, own, Source::reduced, seat_.nranks, 0, sent_.displs[size_t(seat_.rank)] * element_}};
  // The rest is unspecified.
  if (in_place_) any_ = {{own, send_bytes_ - own, Source::moved, 0, 0}};
}

// Blocks are messages; those of length 0 in groups are not sent.
void Operation::plan_messages() {
  const int n = seat_.nranks, self = seat_.rank;
  std::vector<size_t> sent(size_t(n), 0), received(size_t(n), 0);
  const auto add = [&](int from, int to) {
    const size_t length = call_.length(from, to, n);
    if (from == self) sent[size_t(to)] = length;
    if (to == self) received[size_t(from)] = length;
  };
  for (int from = 0; from < n; ++from) {
    if (call_.kind == Kind::message) {
      if (from % 2 == 0 && from + 1 < n) add(from, from + 1);
    } else if (call_.kind == Kind::sendrecv) {
      if (n > 1) add(from, int((uint64_t(from) + 1 + call_.key % uint64_t(n - 1)) % uint64_t(n)));
    } else {
      for (int to = 0; to < n; ++to)
        if (from != to) add(from, to);
    }
  }
  has_send_ = has_recv_ = true;
  sent_ = lay_out(sent, true);
  received_ = lay_out(received, true);
  send_bytes_ = sent_.end * element_;
  recv_bytes_ = received_.end * element_;
  for (int peer = 0; peer < n; ++peer) {
    const auto at = size_t(peer);
    in_.push_back({sent_.displs[at] * element_, sent[at] * element_, Source::moved, self, peer});
    out_.push_back(
        {received_.displs[at] * element_, received[at] * element_, Source::moved, peer, self});
  }
}

// ---------------------------------------------------------------- vectors

Vector Operation::place_one(size_t bytes) {
  const size_t alignment = Vocabulary::get().types()[call_.what.type].alignment;
  const size_t past_line =
      random_.chance(500) ? 0 : alignment * random_.below(std::max<size_t>(64 / alignment, 1));
  const bool symmetric =
      call_.memory == Memory::symmetric || (call_.memory == Memory::mixed && random_.chance(500));
  unsigned char* memory =
      symmetric ? arenas_.symmetric->take(Vector::room(bytes), past_line) : nullptr;
  if (memory == nullptr) memory = arenas_.heap->take(Vector::room(bytes), past_line);
  return {memory, bytes, contents_.bytes(random_.next())};
}

void Operation::place() {
  if (has_send_) send_ = place_one(send_bytes_);
  if (has_recv_) recv_ = place_one(recv_bytes_);
}

std::vector<Part> Operation::parts(const std::vector<Piece>& pieces, int round) const {
  const uint64_t key = mix(call_.key, uint64_t(round));
  std::vector<Part> made;
  made.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    Content content{};
    if (piece.source == Source::moved)
      content = contents_.bytes(mix(key, uint64_t(piece.first), uint64_t(piece.second)));
    else if (piece.source == Source::given)
      content = contents_.given(call_.what, seat_.nranks, piece.first, key);
    else
      content = contents_.reduced(call_.what, seat_.nranks, piece.first, key);
    made.push_back({piece.at, piece.bytes, content.behind(piece.behind)});
  }
  return made;
}

void Operation::fill(int round) {
  if (has_send_) send_.write(parts(in_, round));
  if (has_recv_) recv_.write(parts(in_place_ ? in_ : std::vector<Piece>{}, round));
}

std::string Operation::check(int round) const {
  const std::vector<Part> in = parts(in_, round);
  std::string text;
  const auto look = [&](const char* which, const Vector& vector, const Difference& found) {
    if (found.bytes == 0) return;
    text += fmt::format(
        "{}{} vector of {} bytes: {} wrong, from byte {} ({:#04x}, should be {:#04x}) to {}",
        text.empty() ? "" : "; ", which, vector.bytes(), found.bytes, int64_t(found.first),
        found.got, found.expected, int64_t(found.last));
  };
  if (has_send_) look("send", send_, send_.compare(in, {}, {}));
  if (has_recv_) {
    const std::vector<Part> before = in_place_ ? in : std::vector<Part>{};
    look("receive", recv_, recv_.compare(before, parts(out_, round), parts(any_, round)));
  }
  if (!text.empty() && in_place_) text += " (in place)";
  return text;
}

// ---------------------------------------------------------------- calls

tutti_status Operation::prepare() { return call_.form == Form::persistent ? make() : TUTTI_OK; }

tutti_status Operation::go() {
  if (call_.form != Form::persistent) return make();
  return request_ ? tutti_start(request_) : TUTTI_OK;  // of ranks without a message: nothing
}

template <auto with, auto begin, auto init, class... Arguments>
tutti_status Operation::make_form(Arguments... arguments) {
  switch (call_.form) {
    case Form::blocking:
      return with(arguments..., seat_.comm, config_used_);
    case Form::nonblocking:
      return begin(arguments..., seat_.comm, config_used_, &request_);
    default:
      return init(arguments..., seat_.comm, config_used_, &request_);
  }
}

#define TUTTI_FORMS(name) make_form<tutti_##name##_with, tutti_i##name, tutti_##name##_init>

tutti_status Operation::make() {
  const size_t n = call_.count;
  const size_t own = call_.length(seat_.rank, 0, seat_.nranks);
  switch (call_.kind) {
    case Kind::allreduce:
      return TUTTI_FORMS(allreduce)(send(), recv(), n, dtype_, op_);
    case Kind::reduce:
      return TUTTI_FORMS(reduce)(send(), recv(), n, dtype_, op_, root_);
    case Kind::scan:
      return TUTTI_FORMS(scan)(send(), recv(), n, dtype_, op_);
    case Kind::exscan:
      return TUTTI_FORMS(exscan)(send(), recv(), n, dtype_, op_);
    case Kind::broadcast:
      return TUTTI_FORMS(broadcast)(recv(), n, dtype_, root_);
    case Kind::allgather:
      return TUTTI_FORMS(allgather)(send(), recv(), n, dtype_);
    case Kind::allgatherv:
      return TUTTI_FORMS(allgatherv)(send(), own, recv(), counts(received_), places(received_),
                                     dtype_);
    case Kind::gather:
      return TUTTI_FORMS(gather)(send(), recv(), n, dtype_, root_);
    case Kind::gatherv:
      return TUTTI_FORMS(gatherv)(send(), own, recv(), counts(received_), places(received_), dtype_,
                                  root_);
    case Kind::scatter:
      return TUTTI_FORMS(scatter)(send_data(), scattered(), n, dtype_, root_);
    case Kind::scatterv:
      return TUTTI_FORMS(scatterv)(send_data(), counts(sent_), places(sent_), scattered(),
                                   call_.length(root_, seat_.rank, seat_.nranks), dtype_, root_);
    case Kind::alltoall:
      return TUTTI_FORMS(alltoall)(send(), recv(), n, dtype_);
    case Kind::alltoallv:
      return TUTTI_FORMS(alltoallv)(send(), counts(sent_), places(sent_), recv(), counts(received_),
                                    places(received_), dtype_);
    case Kind::reduce_scatter_block:
      return TUTTI_FORMS(reduce_scatter_block)(send(), recv(), n, dtype_, op_);
    case Kind::reduce_scatter:
      return TUTTI_FORMS(reduce_scatter)(send(), recv(), counts(sent_), dtype_, op_);
    case Kind::barrier:
      return TUTTI_FORMS(barrier)();
    case Kind::coded:
      return make_coded();
    case Kind::sendrecv:
      return make_ring();
    case Kind::message:
      return make_message();
    case Kind::group:
      return make_group();
    case Kind::count:
      break;
  }
  return TUTTI_INTERNAL;
}

tutti_status Operation::make_coded() {
  const tutti_codec* codec = nullptr;
  const tutti_status status = tutti_codec_from_name(call_.codec, &codec);
  if (status != TUTTI_OK) return status;
  return tutti_allreduce_coded(send(), recv(), call_.count, op_, codec, seat_.comm);
}

std::byte* Operation::block(const Vector& vector, const Blocks& blocks, int peer) const {
  return static_cast<std::byte*>(vector.data()) + blocks.displs[size_t(peer)] * element_;
}

// Without a peer any rank's block will do: it is empty.
tutti_status Operation::make_ring() {
  const int n = seat_.nranks;
  const int step = n > 1 ? int(1 + call_.key % uint64_t(n - 1)) : 0;
  const int to = (seat_.rank + step) % n, from = (seat_.rank + n - step) % n;
  const int none = TUTTI_NO_PEER;
  return TUTTI_FORMS(sendrecv)(static_cast<const void*>(block(send_, sent_, to)),
                               sent_.counts[size_t(to)], n > 1 ? to : none, tag,
                               static_cast<void*>(block(recv_, received_, from)),
                               received_.counts[size_t(from)], n > 1 ? from : none, tag, dtype_);
}

tutti_status Operation::make_message() {
  const int peer = seat_.rank ^ 1;
  if (peer >= seat_.nranks) return TUTTI_OK;
  if (seat_.rank % 2 == 0)
    return TUTTI_FORMS(send)(static_cast<const void*>(block(send_, sent_, peer)), call_.count,
                             dtype_, peer, tag);
  return TUTTI_FORMS(recv)(static_cast<void*>(block(recv_, received_, peer)), call_.count, dtype_,
                           peer, tag);
}

tutti_status Operation::make_group() {
  tutti_status status = tutti_group_begin(seat_.comm);
  for (int peer = 0; peer < seat_.nranks && status == TUTTI_OK; ++peer) {
    const size_t give = sent_.counts[size_t(peer)], get = received_.counts[size_t(peer)];
    if (give > 0)
      status = tutti_send(block(send_, sent_, peer), give, dtype_, peer, tag, seat_.comm);
    if (get > 0 && status == TUTTI_OK)
      status = tutti_recv(block(recv_, received_, peer), get, dtype_, peer, tag, seat_.comm);
  }
  return status == TUTTI_OK ? tutti_group_end(seat_.comm) : status;
}

#undef TUTTI_FORMS

}  // namespace tutti::soak
