// Helpers for models that take token ids: those of text, and encoders (msg::ModelSpec::encoder).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msg/call.h"
#include "msg/spec.h"
#include "msg/tensor.h"

namespace weir::marshal {

// The description of a model of text or of an encoder; null for all others.
inline const std::shared_ptr<const msg::TextSpec>& tokens_of(const msg::ModelSpec& spec) {
  return spec.text ? spec.text : spec.encoder;
}

// The ids of one text as the input of an encoder: INT64 [1, n], under the name of ModelSpec::inputs[0].
inline msg::Tensor ids_tensor(std::string name, std::span<const uint32_t> ids) {
  const std::vector<int64_t> wide(ids.begin(), ids.end());
  const std::string_view bytes(reinterpret_cast<const char*>(wide.data()), wide.size() * sizeof(int64_t));
  return {std::move(name), msg::DType::kInt64, {1, int64_t(ids.size())}, base::Bytes::copy_of(bytes)};
}

// Whether the first tensor of an answer is the embedding of one text: FP32, `width` elements. Error: INTERNAL.
inline base::Status check_embedding(const std::vector<msg::Tensor>& answer, uint32_t width) {
  const size_t bytes = size_t(width) * sizeof(float);
  if (!answer.empty() && answer[0].dtype == msg::DType::kFp32 && answer[0].data.size() == bytes) return {};
  return base::failure(base::Code::kInternal, "the model gave no embedding");
}

// A parameter of an encoder's Outputs: the tokens of the rows, as another server that has run it counts them.
inline constexpr const char* kPromptTokens = "prompt_tokens";
inline std::optional<uint64_t> counted_tokens(const msg::Outputs& outputs) {
  const auto* value = msg::find(outputs.parameters, kPromptTokens);
  const auto* count = value ? std::get_if<int64_t>(value) : nullptr;
  return count && *count >= 0 ? std::optional(uint64_t(*count)) : std::nullopt;
}

}  // namespace weir::marshal
