#include "dialects/oip/text_request.h"

#include <algorithm>
#include <limits>

#include "dialects/oip/infer_options.h"
#include "marshal/neutral_value.h"
#include "text/completion.h"

namespace weir::oip {
namespace {

using base::Status;
using marshal::FieldReader;
using marshal::JsonCursor;

constexpr size_t kMaxText = size_t(1) << 30;
constexpr size_t kMaxWords = 16, kMaxWord = 256;
constexpr int64_t kLargestId = std::numeric_limits<int32_t>::max();
constexpr float kNever = -1e9F;  // a bias that no logit makes up for

class TextMembers {
 public:
  TextMembers(JsonCursor& json, TextRequest& out) : json_(json), out_(out) {}

  Status read() {
    bool good = json_.object([&](std::string_view name) { return member(std::string(name)); }) && json_.finish();
    if (!good) return fields_.error();
    if (!said_) return base::invalid("text_input: it is missing");
    if (out_.sampling.empty()) return {};
    JsonCursor inner(out_.sampling);
    return TextMembers(inner, out_).read_parameters();
  }

 private:
  Status read_parameters() {
    bool good = json_.object([&](std::string_view name) { return parameter(std::string(name)); }) && json_.finish();
    return good ? Status{} : fields_.error();
  }

  bool member(const std::string& name) {
    if (name == "text_input") return said_ = true, input();
    if ((name == "id" || name == "parameters") && json_.peek() == JsonCursor::Kind::kNull) return json_.skip();
    if (name == "id") return fields_.text(name, kMaxName, out_.id);
    if (name == "sampling_parameters") return fields_.text(name, size_t(1) << 16, out_.sampling);
    if (name == "parameters" && json_.peek() == JsonCursor::Kind::kObject)
      return json_.object([&](std::string_view key) { return parameter(std::string(key)); });
    return parameter(name);
  }

  // A string, or a list of one, as a tensor of shape [1] may be written.
  bool input() {
    if (json_.peek() != JsonCursor::Kind::kArray) return text();
    size_t inputs = 0;
    return json_.array([&] { return ++inputs == 1 ? text() : fields_.refuse("text_input", "one text at a time"); });
  }
  bool text() {
    if (json_.peek() != JsonCursor::Kind::kString) return fields_.unexpected("text_input", "a string");
    return fields_.text("text_input", kMaxText, out_.input);
  }

  bool parameter(const std::string& name) {
    constexpr auto kTriton = marshal::Protocol::kTriton;
    if (const auto* row = marshal::find_param(kTriton, name))
      return marshal::read_param(fields_, kTriton, *row, name, out_.params);
    if (name == "details") return fields_.flag(name, out_.details);
    if (name == "stream") return fields_.flag(name, out_.stream);
    if (name == "exclude_input_in_output") return fields_.flag(name, out_.without_prompt);
    if (name == "bad_words") return words(name, out_.bad_words);
    if (name == "end_id") return fields_.whole(name, -1, kLargestId, out_.end_id);
    if (name == "pad_id") return fields_.whole(name, -1, kLargestId, pad_id_);
    if (name == "priority") return fields_.whole(name, 0, std::numeric_limits<uint32_t>::max(), out_.priority);
    return other(name);
  }

  // A string, or a list of them; clients send "" for none.
  bool words(const std::string& name, std::vector<std::string>& out) {
    if (fields_.none()) return true;
    out.clear();
    auto one = [&] {
      std::string word;
      if (json_.peek() != JsonCursor::Kind::kString) return fields_.unexpected(name, "a string or a list of strings");
      if (!fields_.text(name, kMaxWord, word)) return false;
      if (word.empty()) return true;
      if (out.size() == kMaxWords) return fields_.refuse(name, "at most " + std::to_string(kMaxWords) + " strings");
      out.push_back(std::move(word));
      return true;
    };
    return json_.peek() == JsonCursor::Kind::kArray ? json_.array(one) : one();
  }

  // Clients of other servers send members that have no meaning here.
  bool other(const std::string& name) {
    size_t at = json_.at();
    if (!json_.skip()) return false;
    return marshal::is_neutral_value(json_.since(at)) ||
           fields_.refuse(std::string_view(name).substr(0, 64), "no such parameter");
  }

  JsonCursor& json_;
  FieldReader fields_{json_};
  TextRequest& out_;
  bool said_ = false;
  int64_t pad_id_ = 0;  // nothing is padded here
};

void keep_out(uint32_t id, std::vector<std::pair<uint32_t, float>>& bias) {
  auto same = std::find_if(bias.begin(), bias.end(), [&](const auto& entry) { return entry.first == id; });
  if (same != bias.end())
    same->second = kNever;
  else
    bias.emplace_back(id, kNever);
}

// As it stands at the beginning of a text, and after a space.
Status place_bad_word(const std::string& word, const msg::TextSpec& spec, marshal::GenerationParams& params) {
  size_t placed = 0, tokens = 0;
  for (const std::string& form : {word, ' ' + word}) {
    auto ids = text::encode_prompt(*spec.codec, form, msg::AddSpecial::kNo, spec.max_length);
    if (!ids) return std::move(ids).error();
    if (ids->size() == 1) keep_out(ids->front(), params.logit_bias), ++placed;
    tokens = std::max(tokens, ids->size());
  }
  if (placed > 0) return {};
  return base::invalid("bad_words: '" + word + "' is " + std::to_string(tokens) +
                       " tokens of this model; words of one token can be kept out");
}

Status place_end(int64_t id, const msg::TextSpec& spec, marshal::GenerationParams& params) {
  if (id >= int64_t(spec.vocabulary))
    return base::invalid("end_id: token id " + std::to_string(id) + " is not below " + std::to_string(spec.vocabulary) +
                         ", the size of the vocabulary");
  if (std::find(spec.eos_ids.begin(), spec.eos_ids.end(), id) != spec.eos_ids.end()) return {};
  params.ignore_eos = true;
  if (id >= 0) params.stop_ids.push_back(uint32_t(id));
  return {};
}

}  // namespace

Status read_text_request(std::string_view body, TextRequest& out) {
  JsonCursor json(body);
  return TextMembers(json, out).read();
}

Status place_words(TextRequest& request, const msg::TextSpec& spec) {
  for (const auto& word : request.bad_words)
    if (Status bad = place_bad_word(word, spec, request.params); !bad.ok()) return bad;
  return request.end_id ? place_end(*request.end_id, spec, request.params) : Status{};
}

}  // namespace weir::oip
