// The answer to a request for embeddings, in the form of the API that asked.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dialects/openai/request.h"

namespace weir::openai {

// All that stands around the vectors.
struct EmbeddingsFrame {
  EmbeddingForm form = EmbeddingForm::kOpenAi;
  std::span<const EmbeddingType> types;  // at least one; several of Cohere's forms alone
  std::string id, model;
  int64_t created = 0;  // seconds of the epoch
  uint64_t tokens = 0;
  std::chrono::nanoseconds took{};
};

// A vector in JSON. `floats`: those of the model. Of the binary types each value is a bit, set above zero, the first of
// eight the highest.
std::string embedding_json(EmbeddingType type, std::string_view floats);

// The answer: head, the vectors of the first type with commas between, then for each other type its name and its
// vectors; with texts their head and they; tail.
void write_head(std::string& out, const EmbeddingsFrame& frame);
void write_next_type(std::string& out, EmbeddingType type);
void write_texts_head(std::string& out, const EmbeddingsFrame& frame);
void write_tail(std::string& out, const EmbeddingsFrame& frame);

// Cohere's answers repeat the texts, as they were embedded: without what was cut.
inline bool repeats_texts(EmbeddingForm form) {
  return form == EmbeddingForm::kCohere || form == EmbeddingForm::kCohereTyped || form == EmbeddingForm::kCohereFloats;
}

}  // namespace weir::openai
