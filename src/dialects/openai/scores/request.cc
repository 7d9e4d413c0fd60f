#include "dialects/openai/scores/request.h"

#include <algorithm>
#include <limits>
#include <span>

#include "dialects/openai/request.h"
#include "marshal/field_reader.h"
#include "marshal/json_cursor.h"

namespace weir::openai::scores {
namespace {

using marshal::FieldReader;
using marshal::JsonCursor;

constexpr size_t kMaxNameText = 256, kMaxScoredText = size_t(1) << 30, kMaxScoredIds = size_t(1) << 20;
constexpr int64_t kMostInt = std::numeric_limits<int32_t>::max();

// vLLM has called the two sides by each of these.
constexpr std::string_view kFirstNames[] = {"text_1", "queries", "data_1"};
constexpr std::string_view kSecondNames[] = {"text_2", "documents", "items", "data_2"};
bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class ScoreMembers {
 public:
  ScoreMembers(JsonCursor& json, ScoreApi api, Request& out) : json_(json), api_(api), out_(out) {}

  ApiError read() {
    bool good = json_.object([&](std::string_view name) { return member(std::string(name)); }) && json_.finish();
    if (!good) return {fields_.error(), fields_.param(), {}};
    return settle();
  }

 private:
  bool reranks() const { return api_ == ScoreApi::kRerank || api_ == ScoreApi::kCohereRerank; }

  bool member(const std::string& name) {
    bool ok = true;
    if (name == "model") return fields_.text(name, kMaxNameText, out_.model);
    if (name == "priority") return fields_.whole(name, 0, std::numeric_limits<uint32_t>::max(), out_.priority);
    if (name == "request_id") return read_request_id(fields_, name, out_.request_id);
    if (name == "truncate_prompt_tokens") return truncate(name);
    if (name == "add_special_tokens") return fields_.flag(name, added_);
    if (name == "activation" || name == "use_activation") return fields_.flag(name, out_.activation);
    if (reranks() ? read_rerank(name, ok) || read_list_alone(name, ok) : read_texts(name, ok)) return ok;
    return skip_member(json_, fields_, name);
  }

  bool read_rerank(const std::string& name, bool& ok) {
    if (name == "query")
      ok = (out_.first.clear(), one(name, out_.first));
    else if (name == "documents")
      ok = list(name, out_.second);
    else if (name == "top_n")
      ok = fields_.whole(name, 0, kMostInt, out_.top_n);
    else if (name == "return_documents")
      ok = fields_.flag(name, out_.return_documents);
    else if (name == "max_tokens_per_doc")
      ok = fields_.whole(name, 1, kMostInt, out_.document_tokens);
    else if (name == "max_chunks_per_doc")
      ok = one_chunk(name);
    else
      return false;
    return true;
  }

  bool read_list_alone(const std::string& name, bool& ok) {
    bool flag = false;
    if (name == "texts")
      ok = (out_.list_alone = true, list(name, out_.second));
    else if (name == "raw_scores")
      ok = fields_.flag(name, flag), out_.activation = !flag;
    else if (name == "return_text")
      ok = fields_.flag(name, flag), return_text_ = flag;
    else if (name == "truncate")
      ok = fields_.flag(name, flag);
    else
      return false;
    return true;
  }

  bool read_texts(const std::string& name, bool& ok) {
    if (classifies(api_) && name == "input")
      ok = read_input(name);
    else if (!classifies(api_) && is_one_of(name, kFirstNames))
      ok = list(name, out_.first);
    else if (api_ == ScoreApi::kScore && is_one_of(name, kSecondNames))
      ok = list(name, out_.second);
    else
      return false;
    return true;
  }

  bool read_input(const std::string& name) {
    out_.ids.clear(), out_.first.clear();
    auto row = [&] {
      if (out_.ids.size() == kMaxTexts) return fields_.refuse(name, "at most " + std::to_string(kMaxTexts) + " rows");
      return fields_.ids(name, kMaxScoredIds, out_.ids.emplace_back());
    };
    const auto inside = json_.peek_inside();
    if (inside == JsonCursor::Kind::kNumber) return row();
    return inside == JsonCursor::Kind::kArray ? json_.array(row) : list(name, out_.first);
  }

  // A text, or a list of them.
  bool list(const std::string& name, std::vector<std::string>& out) {
    out.clear();
    if (json_.peek() != JsonCursor::Kind::kArray) return one(name, out);
    return json_.array([&] {
      if (out.size() == kMaxTexts) return fields_.refuse(name, "at most " + std::to_string(kMaxTexts) + " texts");
      return one(name, out);
    });
  }

  // A text, or an object with one. The object's other members are the client's own.
  bool one(const std::string& name, std::vector<std::string>& out) {
    if (json_.peek() == JsonCursor::Kind::kString) return fields_.text(name, kMaxScoredText, out.emplace_back());
    if (json_.peek() != JsonCursor::Kind::kObject || !reranks())
      return fields_.unexpected(name, reranks() ? "texts, or objects with a text" : "a text, or a list of texts");
    bool there = false;
    std::string& text = out.emplace_back();
    bool good = json_.object([&](std::string_view key) {
      if (key != "text") return json_.skip();
      if (json_.peek() != JsonCursor::Kind::kString)
        return fields_.unexpected(name, "an object whose text is a string");
      return there = true, fields_.text(name, kMaxScoredText, text);
    });
    return good && (there || fields_.refuse(name, "an object without a text"));
  }

  bool truncate(const std::string& name) {
    bool to_context = false;
    if (!read_truncation(fields_, name, out_.truncate, to_context)) return false;
    out_.cut = out_.cut || to_context || out_.truncate;
    return true;
  }

  // Cohere's first API scores the best of several parts of a document.
  bool one_chunk(const std::string& name) {
    std::optional<uint32_t> most;
    if (!fields_.whole(name, 1, kMostInt, most)) return false;
    return most.value_or(1) == 1 || fields_.refuse(name, "a document is scored as one chunk here");
  }

  ApiError settle() {
    if (!added_) return refuse("add_special_tokens", "add_special_tokens: the model scores texts with them alone");
    if (reranks()) out_.cut = true;
    if (out_.list_alone) out_.return_documents = return_text_;
    const char* first = reranks() ? "query" : api_ == ScoreApi::kScore ? "text_1" : "input";
    const char* second = reranks() ? "documents" : "text_2";
    if (out_.first.empty() && out_.ids.empty())
      return refuse(first, std::string(first) + " must be a text" + (reranks() ? "" : " or texts"));
    if (classifies(api_)) return {};
    if (out_.second.empty()) return refuse(second, std::string(second) + " must be a list with at least one text");
    if (out_.first.size() > 1 && out_.first.size() != out_.second.size())
      return refuse(second, "text_1 has " + std::to_string(out_.first.size()) + " texts and text_2 " +
                                std::to_string(out_.second.size()) + "; 1:1, 1:N and N:N are served");
    return {};
  }

  JsonCursor& json_;
  FieldReader fields_{json_};
  const ScoreApi api_;
  bool return_text_ = false, added_ = true;
  Request& out_;
};

}  // namespace

size_t Request::bytes() const {
  size_t out = 0;
  for (const auto* texts : {&first, &second})
    for (const std::string& text : *texts) out += sizeof(text) + text.capacity();
  for (const auto& row : ids) out += sizeof(row) + row.capacity() * sizeof(uint32_t);
  return out;
}

bool read_request_id(FieldReader& fields, std::string_view name, std::string& out) {
  constexpr size_t kLongest = 128;
  if (!fields.text(name, kLongest, out)) return false;
  const bool plain =
      std::all_of(out.begin(), out.end(), [](char c) { return c > ' ' && c < 0x7f && c != '"' && c != '\\'; });
  return plain || fields.refuse(name, "takes printable ASCII without spaces and quotes");
}

ApiError read_request(std::string_view body, ScoreApi api, Request& request) {
  JsonCursor json(body);
  request.return_documents = api != ScoreApi::kCohereRerank;
  return ScoreMembers(json, api, request).read();
}

}  // namespace weir::openai::scores
