// GgufFields: what a model's fields and tensors say, read by kind; the first thing that is wrong is kept. A field that
// is not there is nothing wrong.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engines/llm/load/gguf.h"

namespace weir::llm {

class GgufFields {
 public:
  explicit GgufFields(const Gguf& gguf) : gguf_(gguf) {}

  // Fields of the architecture begin with its name; until it is known there is none.
  std::string architecture;
  std::string key(std::string_view name) const { return architecture + "." + std::string(name); }

  const Gguf& file() const { return gguf_; }
  bool has(const std::string& name) const { return gguf_.has(name); }
  // A whole number, or a list with one for each layer that are all the same.
  std::optional<int64_t> whole(const std::string& name);
  // A finite number.
  std::optional<double> real(const std::string& name);
  const std::string* text(const std::string& name);
  const Array* tensor(std::string_view name) const;
  // The numbers of a tensor; none: it is not there, or no list of up to 1024 floats.
  std::vector<float> list(const std::string& tensor);

  const base::Status& status() const { return status_; }
  void fail(const base::Status& status) {
    if (status_.ok()) status_ = status;
  }
  void invalid(std::string_view name, const std::string& what);
  void unsupported(std::string_view name, const std::string& what);
  // Fails where that field of the architecture is there and not 0.
  void refuse(std::string_view name);

 private:
  const Gguf& gguf_;
  base::Status status_;
};

}  // namespace weir::llm
