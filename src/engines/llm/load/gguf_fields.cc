#include "engines/llm/load/gguf_fields.h"

#include <cmath>

namespace weir::llm {

void GgufFields::invalid(std::string_view name, const std::string& what) {
  fail(base::invalid("GGUF: '" + std::string(name) + "' " + what));
}
void GgufFields::unsupported(std::string_view name, const std::string& what) {
  fail(base::failure(base::Code::kUnimplemented, "GGUF: '" + std::string(name) + "' " + what));
}

std::optional<int64_t> GgufFields::whole(const std::string& name) {
  if (!gguf_.has(name)) return {};
  if (auto number = number_of(gguf_, name)) return number;
  if (gguf_.get<std::vector<int64_t>>(name))
    unsupported(name, "differs from layer to layer");
  else
    invalid(name, "is no whole number");
  return {};
}

std::optional<double> GgufFields::real(const std::string& name) {
  if (!gguf_.has(name)) return {};
  if (auto number = gguf_.get<double>(name)) {
    // JSON has no others: they would become null, which is no field at all.
    if (std::isfinite(*number)) return *number;
    return invalid(name, "is no finite number"), std::nullopt;
  }
  if (auto number = gguf_.get<int64_t>(name)) return double(*number);
  invalid(name, "is no number");
  return {};
}

const std::string* GgufFields::text(const std::string& name) {
  auto found = gguf_.get<std::string>(name);
  if (!found && gguf_.has(name)) invalid(name, "is no text");
  return found;
}

const Array* GgufFields::tensor(std::string_view name) const {
  auto found = gguf_.tensors.find(name);
  return found == gguf_.tensors.end() ? nullptr : &found->second;
}

std::vector<float> GgufFields::list(const std::string& name) {
  constexpr uint64_t kMost = 1024;
  const Array* array = tensor(name);
  if (!array) return {};
  if (array->dtype != Stored::kF32 || array->elements() > kMost)
    return invalid(name, "is no list of factors"), std::vector<float>();
  std::vector<float> numbers(array->elements());
  read_floats(*array, 0, numbers.size(), numbers.data());
  return numbers;
}

void GgufFields::refuse(std::string_view name) {
  if (auto number = real(key(name)); number && *number != 0) unsupported(key(name), "is not supported");
}

}  // namespace weir::llm
