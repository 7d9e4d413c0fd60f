// JsonFields: an object of the file, read with its path for the error. The loader returns the first error; after it
// every read gives its fallback, so that the loader needs to ask only once.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/error.h"

namespace tokenizers {

using JsonValue = simdjson::dom::element;

class FirstError {
 public:
  void add(std::string_view path, std::string_view what) {
    if (!first_) first_ = Error{"tokenizer.json: " + std::string(path) + std::string(what)};
  }
  bool none() const { return !first_; }
  const std::optional<Error>& first() const { return first_; }

 private:
  std::optional<Error> first_;
};

class JsonFields {
 public:
  // Anything but an object is an error, and then has no fields.
  JsonFields(JsonValue value, std::string path, FirstError& errors) : path_(std::move(path)), errors_(&errors) {
    if (value.get(object_))
      fail(" is not an object");
    else
      there_ = true;
  }

  const std::string& path() const { return path_; }
  FirstError& errors() const { return *errors_; }
  void fail(std::string_view what) const { errors_->add(path_, what); }
  void fail(std::string_view key, std::string_view what) const { errors_->add(path_ + "." + std::string(key), what); }

  // Null counts as absent.
  std::optional<JsonValue> find(std::string_view key) const {
    JsonValue value;
    if (!there_ || object_[key].get(value) || value.is_null()) return std::nullopt;
    return value;
  }
  std::optional<std::string_view> text(std::string_view key) const { return read<std::string_view>(key, "a string"); }
  bool flag(std::string_view key, bool fallback) const { return read<bool>(key, "a boolean").value_or(fallback); }
  std::optional<uint64_t> number(std::string_view key) const { return read<uint64_t>(key, "a whole number"); }
  // Calls f(JsonFields) for each object of a list; an absent list is empty.
  template <class F>
  void each(std::string_view key, F&& f) const {
    auto list = read<simdjson::dom::array>(key, "a list");
    size_t i = 0;
    if (list)
      for (JsonValue value : *list)
        f(JsonFields(value, path_ + "." + std::string(key) + "[" + std::to_string(i++) + "]", *errors_));
  }

 private:
  template <class T>
  std::optional<T> read(std::string_view key, std::string_view kind) const {
    auto value = find(key);
    if (!value) return std::nullopt;
    T out;
    if (!value->get(out)) return out;
    fail(key, " is not " + std::string(kind));
    return std::nullopt;
  }

  simdjson::dom::object object_;
  std::string path_;
  FirstError* errors_;
  bool there_ = false;
};

}  // namespace tokenizers
