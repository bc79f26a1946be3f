// Operators in Python. A call that fails inside the library's thread must end there, on all ranks,
// which a function of the program's says by an exception of C++; ctypes has none.
#include <stdexcept>

#include "tutti/tutti.h"

extern "C" {

// What the context of tutti_python_checked_op() points to. `function` returns 0, or anything else
// where an exception was raised in Python.
struct tutti_python_op {
  int (*function)(const void* lower, const void* higher, void* out, size_t count, int dtype,
                  void* context);
};

// A tutti_op_fn.
TUTTI_API void tutti_python_checked_op(const void* lower, const void* higher, void* out,
                                       size_t count, tutti_dtype dtype, void* context) {
  const auto& op = *static_cast<const tutti_python_op*>(context);
  if (op.function(lower, higher, out, count, dtype, nullptr) != 0) {
    throw std::runtime_error("it raised an exception");
  }
}

}  // extern "C"
