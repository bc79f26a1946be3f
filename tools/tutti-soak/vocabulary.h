// The types, operators, codecs and algorithms that calls choose from: the library's, and some of
// this program's own.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::soak {

struct Type {
  tutti_dtype dtype;
  size_t size;
  size_t alignment;  // of vectors
};

struct Operator {
  tutti_op op;
  tutti_op_fn function;  // null: the library's
  std::string name;
};

class Vocabulary {
 public:
  // This process's vocabulary, made by the first caller. Throws std::runtime_error.
  static const Vocabulary& get();

  const std::vector<Type>& types() const { return types_; }
  const std::vector<Operator>& operators() const { return operators_; }
  // The operator that sleeps now and then; not for bool.
  size_t late_operator() const { return operators_.size() - 1; }
  // Type and operator, as indices, of all reductions whose result is known.
  using Pair = std::pair<size_t, size_t>;
  const std::vector<Pair>& pairs() const { return pairs_; }
  // Pairs that programs use most.
  const std::vector<Pair>& frequent_pairs() const { return frequent_; }
  // Names of the algorithms that can be forced for a collective.
  const std::vector<const char*>& algorithms(const std::string& collective) const;

 private:
  Vocabulary();
  void add_operator(tutti_op_fn function, void* context, bool commutative, const char* name);
  std::vector<Type> types_;
  std::vector<Operator> operators_;
  std::vector<Pair> pairs_, frequent_;
  std::map<std::string, std::vector<const char*>> algorithms_;
};

}  // namespace tutti::soak
