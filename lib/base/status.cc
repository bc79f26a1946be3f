#include "status.h"

#include <cerrno>
#include <exception>
#include <new>
#include <system_error>

namespace tutti {

Status::Error Status::no_memory{TUTTI_NO_MEMORY, -1, 0, "out of memory"};

Status::Error* Status::make(Error&& error) noexcept {
  auto* const made = new (std::nothrow) Error(std::move(error));
  return made != nullptr ? made : &no_memory;
}

Status::Error* Status::copy_of(const Error& error) noexcept {
  if (&error == &no_memory) return &no_memory;
  try {
    return new Error(error);
  } catch (const std::bad_alloc&) {
    return &no_memory;
  }
}

Status callback_failure(const char* name) noexcept {
  try {
    std::string text = std::string("the program's ") + name + " threw ";
    try {
      throw;
    } catch (const std::exception& thrown) {
      text.append("an exception: ").append(thrown.what());
    } catch (...) {
      text += "what is no std::exception";
    }
    return {TUTTI_ABORTED, std::move(text)};
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  }
}

Status status_of_exception() noexcept {
  try {
    throw;
  } catch (const Thrown& thrown) {
    return thrown.status;
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  } catch (const std::exception& thrown) {
    try {
      return {TUTTI_INTERNAL, thrown.what()};
    } catch (const std::bad_alloc&) {
      return Status::out_of_memory();
    }
  } catch (...) {
    return {TUTTI_INTERNAL, "exception"};
  }
}

Status system_error(const std::string& what, int error_number) {
  const tutti_status code = error_number == ENOMEM ? TUTTI_NO_MEMORY : TUTTI_SYSTEM;
  return {code, what + ": " + std::generic_category().message(error_number)};
}

}  // namespace tutti
