// Error and Result: how a file that is no tokenizer, or one that is not supported, is reported. The library throws
// nothing but what the standard library throws for lack of memory.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace tokenizers {

struct Error {
  std::string message;  // "tokenizer.json: model.type 'WordLevel' is not supported: …"; below 500 bytes
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

}  // namespace tokenizers
