#include "engines/forward/openai/rows_message.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/encoding.h"
#include "engines/forward/openai/message_parts.h"
#include "engines/forward/refusal.h"
#include "marshal/field_reader.h"
#include "marshal/json_tensor.h"

namespace weir::forward {
namespace {

using marshal::FieldReader;
using marshal::JsonCursor;

constexpr uint32_t kWidest = 1 << 16;  // floats of an embedding

constexpr RowsForm kEmbeddingForms[] = {{"/v1/embeddings", RowsForm::Body::kBase64},
                                        {"/v1/embeddings", RowsForm::Body::kFloats}};
constexpr RowsForm kRankingForms[] = {{"/v1/rerank", RowsForm::Body::kDocuments},
                                      {"/rerank", RowsForm::Body::kDocuments},
                                      {"/rerank", RowsForm::Body::kTexts},
                                      {"/v2/rerank", RowsForm::Body::kDocuments},
                                      {"/score", RowsForm::Body::kPairs}};

void write_texts(std::string& out, const std::vector<std::string>& texts) {
  out += '[';
  for (const auto& text : texts) {
    if (&text != &texts.front()) out += ',';
    marshal::write_string(out, text);
  }
  out += ']';
}

void write_ids(std::string& out, const std::vector<std::vector<uint32_t>>& rows) {
  out += '[';
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      out += i > 0 ? "," : &row == &rows.front() ? "[" : ",[";
      marshal::write_number(out, uint64_t(row[i]));
    }
    out += ']';
  }
  out += ']';
}

// The part that answers of both kinds have: a list of objects with an `index` each, in any order; `usage`, `error`.
class RowsReader {
 public:
  RowsReader(std::string_view json, size_t rows) : json_(json), fields_(json_), seen_(rows) {}

 protected:
  // The index of the row; of an answer without them, its place.
  bool take_index(std::optional<uint64_t> index, size_t& out) {
    out = index.value_or(count_);
    if (count_++ > 0 && index.has_value() != has_index_) return fields_.refuse("index", "in some of the rows alone");
    has_index_ = index.has_value();
    if (out >= seen_.size())
      return fields_.refuse("index", std::to_string(out) + " of " + std::to_string(seen_.size()) + " rows");
    if (seen_[out]) return fields_.refuse("index", "row " + std::to_string(out) + " is there twice");
    return seen_[out] = true;
  }
  bool other(std::string_view name) {
    if (name == "usage" || name == "meta") return fields_.none() || counts();
    if (name == "error" && (json_.peek() == JsonCursor::Kind::kObject || json_.peek() == JsonCursor::Kind::kString))
      return read_error(json_, fields_, told_);
    return json_.skip();
  }
  bool number(float& out) {
    if (json_.plain(out)) return true;
    marshal::JsonNumber number;
    return json_.number(number) && (number.to(out) || fields_.refuse("a number", "is too large"));
  }
  // The end of reading: `ok` as the cursor has it.
  base::Status end(bool ok, std::string_view what) {
    if (told_.error && told_.error->text.empty()) told_.error->text = "it answered with an error, without a word";
    if (told_.error) return *told_.error;
    if (!ok || !json_.finish())
      return broken_rule("its answer is no list of " + std::string(what) + ": " + fields_.error().text);
    if (count_ == seen_.size()) return {};
    return broken_rule("its answer has " + std::to_string(count_) + " " + std::string(what) + " of " +
                       std::to_string(seen_.size()));
  }
  std::optional<uint32_t> tokens() const { return prompt_ ? prompt_ : total_; }

  JsonCursor json_;
  FieldReader fields_;

 private:
  // OpenAI's and Jina's; Cohere's in `tokens` of `meta`.
  bool counts() {
    if (json_.peek() != JsonCursor::Kind::kObject) return json_.skip();
    return json_.object([&](std::string_view name) {
      if (name == "prompt_tokens" || name == "input_tokens") return count(name, prompt_);
      if (name == "total_tokens") return count(name, total_);
      return name == "tokens" ? counts() : json_.skip();
    });
  }
  bool count(std::string_view name, std::optional<uint32_t>& out) {
    return json_.at_number() ? fields_.whole(name, 0, UINT32_MAX, out) : json_.skip();
  }

  std::vector<bool> seen_;
  size_t count_ = 0;
  bool has_index_ = false;
  std::optional<uint32_t> prompt_, total_;
  CompletionChunk told_;  // its `error`
};

class EmbeddingsReader : RowsReader {
 public:
  EmbeddingsReader(std::string_view json, size_t rows, uint32_t width)
      : RowsReader(json, rows), rows_(rows), width_(width) {
    out_.values.resize(rows * width);
  }

  base::Result<RowsAnswer> read() {
    const bool ok = json_.object([&](std::string_view name) {
      if (name == "data") return fields_.none() || json_.array([&] { return row(); });
      return other(name);
    });
    if (auto status = end(ok, "embeddings"); !status.ok()) return status;
    out_.tokens = tokens();
    return std::move(out_);
  }

 private:
  bool row() {
    std::optional<uint64_t> index;
    bool there = false;
    row_.clear();
    const bool ok = json_.object([&](std::string_view name) {
      if (name == "index") return fields_.whole("index", 0, INT32_MAX, index);
      if (name != "embedding") return json_.skip();
      there = true;
      return json_.peek() == JsonCursor::Kind::kString ? coded() : json_.array([&] { return value(); });
    });
    size_t at = 0;
    if (!ok || !take_index(index, at)) return false;
    if (width_ == 0) width_ = uint32_t(row_.size()), out_.values.resize(rows_ * width_);
    if (!there || row_.size() != width_ || width_ == 0)
      return fields_.refuse("embedding", "row " + std::to_string(at) + " has " + std::to_string(row_.size()) +
                                             " numbers, expected " + std::to_string(width_));
    std::copy(row_.begin(), row_.end(), out_.values.begin() + ptrdiff_t(at * width_));
    return true;
  }
  size_t most() const { return width_ > 0 ? width_ : kWidest; }
  bool value() {
    if (row_.size() == most())
      return fields_.refuse("embedding", "too many numbers, expected " + std::to_string(most()));
    return number(row_.emplace_back());
  }
  bool coded() {
    std::string_view text;
    if (!json_.string(text)) return false;
    if (text.size() > most() * sizeof(float) * 4 / 3 + 4) return fields_.refuse("embedding", "is too long");
    const auto bytes = base::base64_decode(text);
    if (!bytes || bytes->size() % sizeof(float) != 0) return fields_.refuse("embedding", "is no base64 of floats");
    row_.resize(bytes->size() / sizeof(float));
    if (!row_.empty()) std::memcpy(row_.data(), bytes->data(), bytes->size());
    const bool finite = std::all_of(row_.begin(), row_.end(), [](float v) { return std::isfinite(v); });
    return finite || fields_.refuse("embedding", "has a number that is not finite");
  }

  const size_t rows_;
  uint32_t width_;
  std::vector<float> row_;
  RowsAnswer out_;
};

class RankingReader : RowsReader {
 public:
  RankingReader(std::string_view json, size_t rows) : RowsReader(json, rows) { out_.values.resize(rows); }

  base::Result<RowsAnswer> read() {
    const auto members = [&](std::string_view name) {
      return name == "results" || name == "data" ? fields_.none() || list() : other(name);
    };
    // Text Embeddings Inference has the list alone.
    const bool ok = json_.peek() == JsonCursor::Kind::kArray ? list() : json_.object(members);
    if (auto status = end(ok, "scores"); !status.ok()) return status;
    out_.tokens = tokens();
    return std::move(out_);
  }

 private:
  bool list() {
    return json_.array([&] {
      std::optional<uint64_t> index;
      std::optional<float> score;
      const bool ok = json_.object([&](std::string_view name) {
        if (name == "index") return fields_.whole("index", 0, INT32_MAX, index);
        return name == "relevance_score" || name == "score" ? number(score.emplace()) : json_.skip();
      });
      size_t at = 0;
      if (!ok) return false;
      if (!index || !score) return fields_.refuse("results", "an entry without index or score");
      return take_index(index, at) && (out_.values[at] = *score, true);
    });
  }

  RowsAnswer out_;
};

}  // namespace

std::span<const RowsForm> rows_forms(RowsFor what) {
  if (what == RowsFor::kEmbeddings) return kEmbeddingForms;
  return kRankingForms;
}

std::string write_rows_request(const TextRows& rows, RowsForm::Body body, std::string_view model) {
  using Body = RowsForm::Body;
  std::string out = "{\"model\":";
  marshal::write_string(out, model);
  if (body == Body::kBase64 || body == Body::kFloats) {
    out += ",\"input\":";
    rows.ids.empty() ? write_texts(out, rows.texts) : write_ids(out, rows.ids);
    return out += body == Body::kBase64 ? ",\"encoding_format\":\"base64\"}" : "}";
  }
  out += body == Body::kPairs ? ",\"text_1\":" : ",\"query\":";
  marshal::write_string(out, rows.query);
  out += body == Body::kPairs ? ",\"text_2\":" : body == Body::kTexts ? ",\"texts\":" : ",\"documents\":";
  write_texts(out, rows.texts);
  return out += body == Body::kDocuments ? ",\"return_documents\":false}" : "}";
}

base::Result<RowsAnswer> read_embeddings(std::string_view json, size_t rows, uint32_t width) {
  return EmbeddingsReader(json, rows, width).read();
}

base::Result<RowsAnswer> read_ranking(std::string_view json, size_t rows) { return RankingReader(json, rows).read(); }

}  // namespace weir::forward
