#include "bench/collectives.h"

#include <algorithm>
#include <cstdio>

#include "bench/error.h"

namespace tutti::bench {
namespace {

double others_share(int n) { return n > 0 ? double(n - 1) / n : 0; }
double there_and_back(int n) { return 2 * others_share(n); }

size_t all(const Place& p) { return size_t(p.nranks) * p.count; }
size_t own(const Place& p) { return size_t(p.rank) * p.count; }

int before(const Place& p) { return (p.rank + p.nranks - 1) % p.nranks; }

Lengths vector_each(const Place& p) { return {p.count, p.count}; }

std::vector<Collective> make() {
  return {
      {.name = "allreduce",
       .about = "Every rank gives a vector and gets all vectors combined.",
       .reduces = true,
       .in_place = InPlace::input,
       .factor = there_and_back,
       .factor_text = "2(n-1)/n",
       .lengths = vector_each,
       .wrong = [](const Outcome& o) { return o.reduced(o.place.nranks); }},
      {.name = "reduce",
       .about = "Every rank gives a vector and the root gets all vectors combined.",
       .reduces = true,
       .rooted = true,
       .in_place = InPlace::input,
       .lengths = [](const Place& p) -> Lengths {
         return {p.count, p.at_root() ? p.count : 0};
       },
       .wrong = [](const Outcome& o) { return o.place.at_root() ? o.reduced(o.place.nranks) : 0; }},
      {.name = "broadcast",
       .about = "The root gives a vector and every other rank gets it.",
       .rooted = true,
       .in_place = InPlace::always,
       .lengths =
           [](const Place& p) {
             return p.at_root() ? Lengths{p.count, 0} : Lengths{0, p.count};
           },
       .wrong = [](const Outcome& o) { return o.place.at_root() ? 0 : o.copied(o.place.root, 0); }},
      {.name = "allgather",
       .about = "Every rank gives a block and gets the blocks of all ranks.",
       .blocks = true,
       .in_place = InPlace::own_block,
       .factor = others_share,
       .factor_text = "(n-1)/n",
       .lengths = [](const Place& p) -> Lengths {
         return {p.count, all(p)};
       },
       .wrong = [](const Outcome& o) { return o.collected(0); }},
      {.name = "reduce_scatter",
       .about = "Every rank gives a block for each rank and gets its own combined.",
       .reduces = true,
       .blocks = true,
       .in_place = InPlace::input,
       .factor = others_share,
       .factor_text = "(n-1)/n",
       .lengths = [](const Place& p) -> Lengths {
         return {all(p), p.count};
       },
       .wrong = [](const Outcome& o) { return o.reduced(o.place.nranks, own(o.place)); }},
      {.name = "alltoall",
       .about = "Every rank gives a block to each rank and gets one from each.",
       .blocks = true,
       .in_place = InPlace::input,
       .factor = others_share,
       .factor_text = "(n-1)/n",
       .lengths = [](const Place& p) -> Lengths {
         return {all(p), all(p)};
       },
       .wrong = [](const Outcome& o) { return o.collected(own(o.place)); }},
      {.name = "gather",
       .about = "Every rank gives a block and the root gets the blocks of all ranks.",
       .rooted = true,
       .blocks = true,
       .in_place = InPlace::own_block,
       .factor = others_share,
       .factor_text = "(n-1)/n",
       .lengths = [](const Place& p) -> Lengths {
         return {p.count, p.at_root() ? all(p) : 0};
       },
       .wrong = [](const Outcome& o) { return o.place.at_root() ? o.collected(0) : 0; }},
      {.name = "scatter",
       .about = "The root gives a block to each rank.",
       .rooted = true,
       .blocks = true,
       .in_place = InPlace::output,
       .factor = others_share,
       .factor_text = "(n-1)/n",
       .lengths = [](const Place& p) -> Lengths {
         return {p.at_root() ? all(p) : 0, p.count};
       },
       .wrong = [](const Outcome& o) { return o.copied(o.place.root, own(o.place)); }},
      {.name = "scan",
       .about = "Every rank gives a vector and gets those up to its own combined.",
       .reduces = true,
       .in_place = InPlace::input,
       .lengths = vector_each,
       .wrong = [](const Outcome& o) { return o.reduced(o.place.rank + 1); }},
      {.name = "exscan",
       .about = "Every rank gives a vector and gets those before its own combined.",
       .reduces = true,
       .in_place = InPlace::input,
       .lengths = [](const Place& p) -> Lengths {
         return {p.count, p.rank ? p.count : 0};
       },
       .wrong = [](const Outcome& o) { return o.place.rank ? o.reduced(o.place.rank) : 0; }},
      {.name = "barrier",
       .about = "Every rank waits until all have come.",
       .sized = false,
       .lengths = [](const Place&) { return Lengths{}; },
       .wrong = [](const Outcome&) { return uint64_t(0); }},
      {.name = "sendrecv",
       .about = "Every rank sends a vector to the next rank and gets one from the one before.",
       .least_ranks = 2,
       .lengths = vector_each,
       .wrong = [](const Outcome& o) { return o.copied(before(o.place), 0); }},
  };
}

}  // namespace

uint64_t Outcome::reduced(int ranks, size_t begin) const {
  return oracle.wrong_reduction(recv, place.count, ranks, begin);
}

uint64_t Outcome::copied(int from, size_t begin, int block) const {
  return oracle.wrong_copy(recv + size_t(block) * place.count * element, place.count, from, begin);
}

uint64_t Outcome::collected(size_t begin) const {
  uint64_t wrong = 0;
  for (int rank = 0; rank < place.nranks; ++rank) wrong += copied(rank, begin, rank);
  return wrong;
}

size_t Collective::count_within(int nranks, size_t elements) const {
  if (!sized) return 0;
  return std::max<size_t>(1, blocks ? elements / size_t(nranks) : elements);
}

std::string Collective::factor_shown(int nranks) const {
  if (std::string(factor_text) == "1") return "";
  char text[64];
  std::snprintf(text, sizeof text, " x %s = %.2f", factor_text, factor(nranks));
  return text;
}

const std::vector<Collective>& collectives() {
  static const std::vector<Collective> rows = make();
  return rows;
}

const Collective& find_collective(const std::string& name) {
  std::string allowed;
  for (const Collective& row : collectives()) {
    if (name == row.name) return row;
    allowed += (allowed.empty() ? "" : ", ") + std::string(row.name);
  }
  throw BadInput("unknown collective '" + name + "': allowed are " + allowed);
}

}  // namespace tutti::bench
