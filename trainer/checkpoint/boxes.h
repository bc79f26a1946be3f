// Parts of tensors as boxes, by which checkpoints are divided: what one rank wrote and another one
// reads are boxes of the same tensor, and what they have in common is a box. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/parallel/split.h"

namespace tutti::train {

// One span a dimension; none for a single number.
using Box = std::vector<Span>;

int64_t elements(const Box& box);
// "[0:4,2:6]", and back; false where the text is no box.
std::string text_of(const Box& box);
bool box_of(const std::string& text, Box& out);

// Elements [begin, end) of a packed, row-major tensor of this shape, in order, as boxes.
std::vector<Box> boxes_of(const std::vector<int64_t>& shape, int64_t begin, int64_t end);

// A box of the part that a rank holds is, in the whole tensor, one or more boxes: each with the box
// of the part that it is.
struct Placed {
  Box whole, part;
};
std::vector<Placed> placed(const Box& part, const Division& division);

// What both have; empty spans where that is nothing.
Box common(const Box& a, const Box& b);

// Copies the box `what` (in the whole tensor's coordinates) from a packed box `from` to a packed
// box `to`, both of which hold all of it.
void copy_box(const Box& what, const Box& from, const void* source, const Box& to, void* target,
              size_t element_bytes);

}  // namespace tutti::train
