#include "tools/tutti-soak/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tools/tutti-soak/random.h"
#include "tools/tutti-soak/vocabulary.h"

namespace tutti::soak {
namespace {

constexpr const char* kind_names[] = {"allreduce",       "reduce",
                                      "broadcast",       "allgather",
                                      "allgatherv",      "gather",
                                      "gatherv",         "scatter",
                                      "scatterv",        "alltoall",
                                      "alltoallv",       "scan",
                                      "exscan",          "reduce_scatter_block",
                                      "reduce_scatter",  "barrier",
                                      "allreduce_coded", "sendrecv",
                                      "message",         "group"};
static_assert(std::size(kind_names) == size_t(Kind::count));

// Steps for which a manner lasts.
constexpr uint64_t steps_of_manner = 16;

constexpr const char* team_names[] = {"all ranks", "a copy", "all reversed", "the half"};

// The collective as algorithms name it.
std::string family_of(Kind kind) {
  if (kind == Kind::reduce_scatter_block) return "reduce_scatter";
  std::string name = kind_name(kind);
  if (name.back() == 'v') name.pop_back();
  return name;
}

Kind draw_kind(Random& random) {
  if (random.chance(250)) return Kind::allreduce;
  return Kind(random.below(uint64_t(Kind::count)));
}

// Most calls are short, so that there are many; the longest are rare.
size_t draw_bytes(Random& random, size_t element) {
  static constexpr size_t limits[] = {2u << 10,   16u << 10, 128u << 10,
                                      512u << 10, 2u << 20,  4u << 20};
  static constexpr uint64_t shares[] = {500, 780, 930, 980, 996, 1000};
  if (random.chance(20)) return 0;
  if (random.chance(200)) return element * (1 + random.below(16));
  const uint64_t share = random.below(1000);
  const size_t limit =
      limits[std::upper_bound(std::begin(shares), std::end(shares), share) - std::begin(shares)];
  size_t bits = 0;
  while ((size_t(2) << bits) <= limit) ++bits;
  if (random.chance(400)) {  // anywhere
    const size_t length = size_t(1) << random.below(bits + 1);
    return length + random.below(length);
  }
  // Lengths at which the library may switch paths: powers of two, and the payload of a cache line
  // of 64 bytes beside its flag.
  static constexpr size_t lines[] = {8, 48, 56, 64, 112, 120, 128};
  const size_t border =
      random.chance(200) ? random.pick(lines) : size_t(1) << (3 + random.below(bits - 2));
  const size_t beside[] = {border, border + element, border - std::min(border, element),
                           border + 64, border - std::min<size_t>(border, 64)};
  return random.pick(beside);
}

Arithmetic draw_arithmetic(Random& random, Kind kind) {
  const Vocabulary& words = Vocabulary::get();
  if (kind == Kind::coded) {
    return {TUTTI_FLOAT32, TUTTI_SUM, true};
  }
  const auto& [type, op] =
      random.chance(350) ? random.pick(words.frequent_pairs()) : random.pick(words.pairs());
  return {type, op};
}

Form draw_form(Random& random, Kind kind) {
  if (kind == Kind::coded || kind == Kind::group) return Form::blocking;
  return random.chance(650)   ? Form::blocking
         : random.chance(700) ? Form::nonblocking
                              : Form::persistent;
}

void draw_config(Random& random, Call* call) {
  const auto& names = Vocabulary::get().algorithms(family_of(call->kind));
  if (!names.empty() && random.chance(100)) call->algorithm = random.pick(names);
  if (random.chance(70)) call->flags = TUTTI_CALL_UNFUSED;
  if (call->reduces() && random.chance(150)) call->level = tutti_level(1 + random.below(4));
}

// No buffer may be longer than a share of the step's bytes; blocks of v forms may be twice as long
// as the count says.
void set_length(Random& random, size_t bytes, int nranks, size_t most_bytes, Call* call) {
  const size_t element = Vocabulary::get().types()[call->what.type].size;
  const auto blocks = size_t(call->in_blocks() ? nranks : 1);
  const size_t most = call->in_blocks() || call->kind == Kind::sendrecv ? most_bytes / (4 * blocks)
                                                                        : most_bytes / 2;
  // Either the block or all blocks together are that long.
  if (random.chance(500)) bytes /= blocks;
  call->count = (std::min(bytes, most) + element / 2) / element;
}

Call draw_call(Random& random, int nranks, size_t most_bytes) {
  Call call;
  call.kind = draw_kind(random);
  call.form = draw_form(random, call.kind);
  call.team = random.chance(500) ? Team::all : Team(random.below(uint64_t(Team::count)));
  call.what = draw_arithmetic(random, call.kind);
  call.spread = Spread(random.below(4));
  call.symmetric_lengths = random.chance(500);
  const uint64_t where = random.below(100);
  call.memory = where < 55 ? Memory::heap : where < 75 ? Memory::symmetric : Memory::mixed;
  call.root = random.below(64);
  if (call.kind == Kind::coded)
    call.codec = random.chance(500) ? "bf16" : "fp8";
  else if (call.kind <= Kind::barrier)
    draw_config(random, &call);
  call.key = random.next();

  const size_t element = Vocabulary::get().types()[call.what.type].size;
  set_length(random, draw_bytes(random, element), nranks, most_bytes, &call);
  return call;
}

// As programs do: the same call again and again, with several lengths, which take different paths.
void make_sequence(Random& random, int nranks, std::vector<Call>* calls) {
  calls->resize(std::min<size_t>(calls->size(), 6));
  Call& first = calls->front();
  if (!first.codec && random.chance(250)) {
    first.kind = Kind::allreduce;
    first.algorithm = nullptr;  // of another collective
  }
  if (first.reduces() && !first.codec && random.chance(400)) {
    first.what.op = Vocabulary::get().late_operator();
    if (first.what.type == TUTTI_BOOL) first.what.type = TUTTI_UINT8;
  }
  // Up to 4 KiB, 64 KiB and 4 MiB; the last is slow with many ranks.
  const uint64_t shorter = nranks > 4 ? 50 : 35, middle = nranks > 4 ? 90 : 70;
  size_t lengths[3];
  for (size_t& bytes : lengths) {
    const uint64_t class_of = random.below(100);
    bytes = size_t(1) << (class_of < shorter  ? 3 + random.below(9)
                          : class_of < middle ? 12 + random.below(4)
                                              : 16 + random.below(6));
    bytes += random.below(bytes);
  }
  for (Call& call : *calls) {
    const uint64_t key = call.key;
    call = first;
    call.key = key;
    set_length(random, random.pick(lengths), nranks, most_step_bytes / calls->size(), &call);
  }
}

}  // namespace

const char* kind_name(Kind kind) { return kind_names[size_t(kind)]; }

bool Call::reduces() const {
  switch (kind) {
    case Kind::allreduce:
    case Kind::reduce:
    case Kind::scan:
    case Kind::exscan:
    case Kind::reduce_scatter_block:
    case Kind::reduce_scatter:
    case Kind::coded:
      return true;
    default:
      return false;
  }
}

bool Call::in_blocks() const {
  return kind == Kind::group || (kind >= Kind::allgather && kind <= Kind::alltoallv) ||
         kind == Kind::reduce_scatter_block || kind == Kind::reduce_scatter;
}

size_t Call::length(int from, int to, int nranks) const {
  const auto n = size_t(nranks);
  uint64_t block = 0;
  switch (kind) {
    case Kind::allgatherv:
    case Kind::gatherv:
    case Kind::sendrecv:
      block = uint64_t(from);
      break;
    case Kind::scatterv:
    case Kind::reduce_scatter:
      block = uint64_t(to);
      break;
    case Kind::alltoallv:
    case Kind::group:
      block = uint64_t(from) * n + uint64_t(to);
      if (symmetric_lengths)
        block = uint64_t(std::min(from, to)) * n + uint64_t(std::max(from, to));
      break;
    default:
      return count;
  }
  switch (spread) {
    case Spread::alike:
      return count;
    case Spread::ragged:
      return mix(key, block) % (2 * count + 1);
    case Spread::some_empty:
      return mix(key, block) % 2 ? count : 0;
    case Spread::one:
      return block % n == key % n ? count : 0;
  }
  return count;
}

Manner manner_of(uint64_t seed, uint64_t step) {
  const uint64_t drawn = mix(seed, step / steps_of_manner);
  return {.late = drawn % 2 == 1, .stalled = drawn / 2 % 2 == 1};
}

Step draw_step(uint64_t seed, uint64_t step, int nranks) {
  Random random(mix(seed, step));
  Step drawn;
  const size_t n = random.chance(400) ? 1 : 2 + random.below(most_step_calls - 1);
  bool again = false;
  for (size_t i = 0; i < n; ++i) {
    drawn.calls.push_back(draw_call(random, nranks, most_step_bytes / n));
    again = again || drawn.calls.back().form == Form::persistent;
  }
  if (n > 1 && random.chance(450)) {
    make_sequence(random, nranks, &drawn.calls);
    again = drawn.calls.front().form == Form::persistent;
  }
  if (again || random.chance(150)) drawn.rounds = int(2 + random.below(3));
  return drawn;
}

std::string describe(const Call& call) {
  std::string text = kind_name(call.kind);
  const Vocabulary& words = Vocabulary::get();
  if (call.kind != Kind::barrier)
    text +=
        fmt::format(" of {} {}", call.count, tutti_dtype_name(words.types()[call.what.type].dtype));
  if (call.reduces()) text += ", " + words.operators()[call.what.op].name;
  if (call.codec) text += fmt::format(", codec {}", call.codec);
  if (call.algorithm) text += fmt::format(", by {}", call.algorithm);
  if (call.flags & TUTTI_CALL_UNFUSED) text += ", unfused";
  if (call.level) text += fmt::format(", level {}", tutti_level_name(call.level));
  static constexpr const char* forms[] = {"", ", nonblocking", ", persistent"};
  return text + forms[size_t(call.form)] + ", on " + team_names[size_t(call.team)];
}

}  // namespace tutti::soak
