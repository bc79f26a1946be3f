// Parts of tensors as boxes, in which checkpoints are stored. One rank wrote a box of a tensor and
// another reads a box of it; their intersection is a box. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/parallel/split.h"

namespace tutti::train {

// One span for each dimension; none for a scalar.
using Box = std::vector<Span>;

int64_t elements(const Box& box);
// "[0:4,2:6]", and back; false if the text is not a box.
std::string text_of(const Box& box);
bool box_of(const std::string& text, Box& out);

// Elements [begin, end) of a packed, row-major tensor of this shape, in order, as boxes.
std::vector<Box> boxes_of(const std::vector<int64_t>& shape, int64_t begin, int64_t end);

// A box of the part that a rank holds maps to one or more boxes of the whole tensor: each of them,
// with where in the whole tensor all of the part would lie if it were shifted as this box is.
struct Placed {
  Box whole, frame;
};
std::vector<Placed> placed(const Box& part, const Division& division);

// The intersection; empty spans where there is none.
Box common(const Box& a, const Box& b);

// Copies the box `what` (in the whole tensor's coordinates) from a packed box `from` to a packed
// box `to`, both of which contain it.
void copy_box(const Box& what, const Box& from, const void* source, const Box& to, void* target,
              size_t element_bytes);

}  // namespace tutti::train
