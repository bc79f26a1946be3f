// The one status type inside the library. Success is a null pointer and costs nothing to return.
//
// Making and copying a status never throws: without memory for an error it becomes NO_MEMORY, "out
// of memory".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tutti/tutti.h"

namespace tutti {

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(tutti_status code, std::string text, int rank = -1, uint64_t call = 0)
      : error_(make({code, rank, call, std::move(text)})) {}
  Status(Status&&) = default;
  Status& operator=(Status&&) = default;
  Status(const Status& other) : error_(other.error_ ? copy_of(*other.error_) : nullptr) {}
  Status& operator=(const Status& other) {
    error_.reset(other.error_ ? copy_of(*other.error_) : nullptr);
    return *this;
  }

  // Allocates nothing.
  static Status out_of_memory() {
    Status status;
    status.error_.reset(&no_memory);
    return status;
  }

  bool ok() const { return error_ == nullptr; }
  tutti_status code() const { return error_ ? error_->code : TUTTI_OK; }
  // The rank that the error is about, -1 if none in particular.
  int rank() const { return error_ ? error_->rank : -1; }
  // The number of the call on the communicator, 0 if none.
  uint64_t call() const { return error_ ? error_->call : 0; }
  const std::string& text() const {
    static const std::string none;
    return error_ ? error_->text : none;
  }

 private:
  struct Error {
    tutti_status code;
    int rank;
    uint64_t call;
    std::string text;
  };
  static Error no_memory;
  struct Drop {
    void operator()(Error* error) const {
      if (error != &no_memory) delete error;
    }
  };
  static Error* make(Error&& error) noexcept;
  static Error* copy_of(const Error& error) noexcept;

  std::unique_ptr<Error, Drop> error_;
};

// To be called in a handler: the status that says that the program's function of this name threw.
Status callback_failure(const char* name) noexcept;

// Thrown to carry a status through functions that return none.
struct Thrown {
  Status status;
};
// Calls a function of the program's. `name` says which: "the operator".
template <class Function>
decltype(auto) call_back(const char* name, Function&& function) {
  try {
    return function();
  } catch (...) {
    throw Thrown{callback_failure(name)};
  }
}

// To be called in a handler: the status for the exception.
Status status_of_exception() noexcept;

// SYSTEM, or NO_MEMORY where errno says so, with `what` and the words for errno.
Status system_error(const std::string& what, int error_number);

// How sentences name a rank.
inline std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

}  // namespace tutti

// Returns the status of `expression` from the enclosing function unless it is OK.
#define TUTTI_TRY(expression)                                                  \
  do {                                                                         \
    if (::tutti::Status status_ = (expression); !status_.ok()) return status_; \
  } while (0)
