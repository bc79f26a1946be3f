#include "trainer/checkpoint/boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sstream>

namespace tutti::train {
namespace {

// The index in the packed box of the element with these coordinates.
int64_t index_in(const Box& box, const std::vector<int64_t>& at) {
  int64_t index = 0;
  for (size_t d = 0; d < box.size(); ++d) index = index * box[d].size() + at[d] - box[d].begin;
  return index;
}

}  // namespace

int64_t elements(const Box& box) {
  int64_t product = 1;
  for (const Span& span : box) product *= std::max<int64_t>(span.size(), 0);
  return product;
}

std::string text_of(const Box& box) {
  std::string text;
  for (const Span& span : box)
    text += fmt::format("{}{}:{}", text.empty() ? "[" : ",", span.begin, span.end);
  return text.empty() ? "[]" : text + "]";
}

bool box_of(const std::string& text, Box& out) {
  out.clear();
  std::istringstream in(text);
  char between = 0;
  in >> between;
  for (Span span; in >> span.begin >> between >> span.end; in >> between) {
    if (span.begin < 0 || span.begin > span.end) return false;
    out.push_back(span);
  }
  return text_of(out) == text;
}

std::vector<Box> boxes_of(const std::vector<int64_t>& shape, int64_t begin, int64_t end) {
  std::vector<Box> out;
  for (int64_t count = 0; begin < end; begin += count) {
    // The box has dimension d and all after it whole, `unit` elements: as many as begin here and
    // fit; and a span of the dimension before them.
    size_t d = shape.size();
    int64_t unit = 1;
    while (d > 0 && begin % (unit * shape[d - 1]) == 0 && begin + unit * shape[d - 1] <= end)
      unit *= shape[--d];
    int64_t index = begin / unit, span = 1;
    if (d > 0) span = std::min((end - begin) / unit, shape[d - 1] - index % shape[d - 1]);
    count = span * unit;
    Box box(shape.size());
    for (size_t i = d; i < shape.size(); ++i) box[i] = {0, shape[i]};
    for (size_t i = d; i-- > 0; index /= shape[i], span = 1)
      box[i] = {index % shape[i], index % shape[i] + span};
    out.push_back(std::move(box));
  }
  return out;
}

std::vector<Placed> placed(const Box& part, const Division& division) {
  if (division.spans.empty()) return {{part, part}};
  std::vector<Placed> out;
  const auto d = size_t(division.dimension);
  int64_t before = 0;  // length of the spans so far, in the part
  for (const Span& span : division.spans) {
    const int64_t shift = span.begin - before;
    Placed one{part, part};
    one.frame[d] = {part[d].begin + shift, part[d].end + shift};
    one.whole[d] = {std::max(one.frame[d].begin, span.begin), std::min(one.frame[d].end, span.end)};
    if (one.whole[d].size() > 0) out.push_back(std::move(one));
    before += span.size();
  }
  return out;
}

Box common(const Box& a, const Box& b) {
  Box both;
  for (size_t d = 0; d < a.size(); ++d)
    both.push_back({std::max(a[d].begin, b[d].begin),
                    std::max(std::max(a[d].begin, b[d].begin), std::min(a[d].end, b[d].end))});
  return both;
}

void copy_box(const Box& what, const Box& from, const void* source, const Box& to, void* target,
              size_t element_bytes) {
  const auto* in = static_cast<const char*>(source);
  auto* out = static_cast<char*>(target);
  std::vector<int64_t> at(what.size());  // coordinates of a row's first element
  const int64_t all = elements(what), row = what.empty() ? 1 : what.back().size();
  for (int64_t i = 0; i < all; i += row) {
    int64_t rest = i;
    for (size_t d = what.size(); d-- > 0; rest /= what[d].size())
      at[d] = what[d].begin + rest % what[d].size();
    std::memcpy(out + size_t(index_in(to, at)) * element_bytes,
                in + size_t(index_in(from, at)) * element_bytes, size_t(row) * element_bytes);
  }
}

}  // namespace tutti::train
