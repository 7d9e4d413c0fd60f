// Requests for scores of texts, as their members say it.
//
//   rerank     query, documents (texts, or objects with one in "text"), top_n, return_documents; Cohere's and Jina's
//              form. A pair that is too long is cut. With `texts` in place of documents it is the form of Text
//              Embeddings Inference, with raw_scores and return_text, and the answer a list alone.
//   score      text_1, text_2 (also: queries or data_1; documents, items or data_2), each a text or a list: 1:1, 1:N,
//              N:N; vLLM's form
//   classify   input: a text or a list, or token ids or a list of those; vLLM's form
//   pooling    the same for task "classify", without the member "task"
// Reference: docs.vllm.ai ("OpenAI-Compatible Server"), docs.cohere.com/reference/rerank, jina.ai/reranker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/openai/api_error.h"

namespace weir::marshal {
class FieldReader;
}

namespace weir::openai::scores {

enum class ScoreApi : uint8_t { kRerank, kCohereRerank, kScore, kClassify, kPooling };
// Whether the API asks for all labels of each text by itself.
constexpr bool classifies(ScoreApi api) { return api == ScoreApi::kClassify || api == ScoreApi::kPooling; }

inline constexpr size_t kMaxTexts = 2048;       // of one request
inline constexpr size_t kMaxScores = 1u << 18;  // texts × labels

struct Request {
  std::string model, request_id;
  std::vector<std::string> first;          // a query for all documents or one for each; of classify the texts
  std::vector<std::string> second;         // documents
  std::vector<std::vector<uint32_t>> ids;  // of classify, in place of texts
  uint32_t top_n = 0;                      // 0: all
  bool return_documents = true;
  bool list_alone = false;
  bool activation = true;                   // false: the logits
  bool cut = false;                         // what is longer than the model takes
  std::optional<uint32_t> truncate;         // ids of one row at most; what is longer is cut
  std::optional<uint32_t> document_tokens;  // of one document at most
  uint32_t priority = 0;

  size_t rows() const { return !ids.empty() ? ids.size() : second.empty() ? first.size() : second.size(); }
  // That the texts take.
  size_t bytes() const;
};

// A client's own name for its request, from the member of that name, as both APIs of scores have it.
bool read_request_id(marshal::FieldReader& fields, std::string_view name, std::string& out);
// Errors: 400 naming the member.
ApiError read_request(std::string_view body, ScoreApi api, Request& request);

}  // namespace weir::openai::scores
