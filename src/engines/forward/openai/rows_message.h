// The messages of embeddings (/v1/embeddings) and of rankings (/rerank, /score) as a client of them has them. Pure; any
// thread. What an origin sends is a stranger's: a message is refused at its first excess.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "engines/forward/openai/text_rows.h"

namespace weir::forward {

// How an origin is asked. Servers do not agree on it; which form one takes is found out by asking.
struct RowsForm {
  enum class Body : uint8_t {
    kBase64,     // input, and embeddings in base64
    kFloats,     // input
    kDocuments,  // query, documents: Jina, Cohere, vLLM, llama.cpp, Infinity, weir
    kTexts,      // query, texts: Text Embeddings Inference
    kPairs,      // text_1, text_2: vLLM's scores
  };
  std::string_view target;
  Body body = Body::kBase64;
};
// In the order in which an origin is asked.
std::span<const RowsForm> rows_forms(RowsFor what);

std::string write_rows_request(const TextRows& rows, RowsForm::Body body, std::string_view model);

// An answer: a row of `width` floats for each text, in the order of the request; the tokens that the origin has
// counted.
struct RowsAnswer {
  std::vector<float> values;
  std::optional<uint32_t> tokens;
};
// `width` 0: as wide as the first one. Every row must be there once, and its numbers finite. Errors: INTERNAL, or what
// the answer says in place of rows.
base::Result<RowsAnswer> read_embeddings(std::string_view json, size_t rows, uint32_t width);
// A number for each text.
base::Result<RowsAnswer> read_ranking(std::string_view json, size_t rows);

}  // namespace weir::forward
