#include "dialects/openai/scores/answer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "marshal/json_tensor.h"

namespace weir::openai::scores {
namespace {

void write_floats(std::string& out, std::span<const float> values) {
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  marshal::write_elements(out, msg::DType::kFp32, bytes, {});
}

void write_index(std::string& out, size_t i) {
  out += (out.back() == '[' ? "{\"index\":" : ",{\"index\":") + std::to_string(i);
}

void write_scores(std::string& out, const Scored& scored) {
  for (size_t i = 0; i < scored.request.rows(); ++i) {
    write_index(out, i);
    out += ",\"object\":\"score\",\"score\":";
    write_floats(out, scored.row(i));
    out += '}';
  }
}

void write_classes(std::string& out, const Scored& scored) {
  for (size_t i = 0; i < scored.request.rows(); ++i) {
    const auto scores = scored.row(i);
    const auto best = size_t(std::max_element(scores.begin(), scores.end()) - scores.begin());
    write_index(out, i);
    out += ",\"label\":";
    marshal::write_string(out, scored.labels[best]);
    out += ",\"probs\":[";
    write_floats(out, scores);
    out += "],\"num_classes\":" + std::to_string(scores.size()) + '}';
  }
}

void write_pooled(std::string& out, const Scored& scored) {
  for (size_t i = 0; i < scored.request.rows(); ++i) {
    write_index(out, i);
    out += ",\"object\":\"pooling\",\"data\":[";
    write_floats(out, scored.row(i));
    out += "]}";
  }
}

// The best first; of equal ones the first.
void write_ranking(std::string& out, const Scored& scored) {
  const Request& request = scored.request;
  std::vector<size_t> order(request.rows());
  std::iota(order.begin(), order.end(), size_t(0));
  auto score = [&](size_t i) { return std::isnan(scored.row(i)[0]) ? -INFINITY : scored.row(i)[0]; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return score(a) > score(b); });
  if (request.top_n > 0 && request.top_n < order.size()) order.resize(request.top_n);
  for (size_t i : order) {
    write_index(out, i);
    out += request.list_alone ? ",\"score\":" : ",\"relevance_score\":";
    write_floats(out, scored.row(i));
    if (request.return_documents) {
      out += request.list_alone ? ",\"text\":" : ",\"document\":{\"text\":";
      marshal::write_string(out, request.second[i]);
      if (!request.list_alone) out += '}';
    }
    out += '}';
  }
}

std::string_view prefix_of(ScoreApi api) {
  switch (api) {
    case ScoreApi::kScore: return "score-";
    case ScoreApi::kClassify: return "classify-";
    case ScoreApi::kPooling: return "pool-";
    default: return "rerank-";
  }
}

void write_rows(std::string& out, const Scored& scored) {
  switch (scored.api) {
    case ScoreApi::kScore: return write_scores(out, scored);
    case ScoreApi::kClassify: return write_classes(out, scored);
    case ScoreApi::kPooling: return write_pooled(out, scored);
    default: return write_ranking(out, scored);
  }
}

}  // namespace

std::string write_answer(const Scored& scored, const ScoresFrame& frame) {
  std::string out;
  if (scored.request.list_alone) {
    out += '[';
    write_ranking(out, scored);
    return out += ']';
  }
  const ScoreApi api = scored.api;
  const bool ranks = api == ScoreApi::kRerank || api == ScoreApi::kCohereRerank;
  ((out += "{\"id\":\"") += prefix_of(api)) += frame.id + '"';
  if (!ranks) out += ",\"object\":\"list\",\"created\":" + std::to_string(frame.created);
  out += ",\"model\":";
  marshal::write_string(out, frame.model);
  out += ranks ? ",\"results\":[" : ",\"data\":[";
  write_rows(out, scored);
  out += ']';
  // Clients of Cohere's refuse an answer without it.
  if (api == ScoreApi::kCohereRerank)
    out += R"(,"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}})";
  const std::string tokens = std::to_string(frame.tokens);
  out += ",\"usage\":{\"prompt_tokens\":" + tokens + ",\"completion_tokens\":0,\"total_tokens\":" + tokens + "}}";
  return out;
}

}  // namespace weir::openai::scores
