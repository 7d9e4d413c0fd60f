// Error and Result: how a template that cannot be parsed or rendered is reported. The library throws nothing but what
// the standard library throws for lack of memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace jinja {

struct Error {
  enum class Kind : uint8_t {
    kTemplate,   // the syntax, an operation on values that do not have it, or raise_exception()
    kLimit,      // more than any template may take, whatever the Budget
    kBudget,     // more than this call's Budget; a larger one may be enough
    kCancelled,  // Budget::cancelled became true
    kMemory,     // Budget::memory had no room
  };
  Kind kind = Kind::kTemplate;
  // "line 3: the filter 'x' is not supported"; of raise_exception() the template's own words. At most 1003 bytes.
  std::string message;
};

// A T, or the Error that says why there is none. Dereference it only when it is true.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  Error& error() { return *std::get_if<1>(&state_); }
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

}  // namespace jinja
