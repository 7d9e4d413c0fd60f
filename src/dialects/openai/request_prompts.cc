// The prompts of a request: texts, ids, and as llama.cpp has them, both in one: [12, "text", 34].
#include <limits>
#include <utility>

#include "dialects/openai/request.h"
#include "marshal/field_reader.h"

namespace weir::openai {
namespace {

using marshal::FieldReader;
using marshal::JsonCursor;

class PromptList {
 public:
  PromptList(FieldReader& fields, std::string_view name, MixedPrompts mixed, std::vector<Prompt>& out)
      : fields_(fields), json_(fields.json()), name_(name), mixed_(mixed), out_(out) {}

  bool read(size_t most) {
    if (fields_.none()) return true;
    out_.clear();
    if (json_.peek() == JsonCursor::Kind::kString) return text();
    if (json_.peek() != JsonCursor::Kind::kArray)
      return fields_.unexpected(name_, "a string, a list of strings, or token ids");
    if (json_.peek_inside() == JsonCursor::Kind::kNumber) return list();
    bool one = false;  // the list turned out to be one prompt
    const bool good = json_.array([&] {
      if (!one && mixes() && json_.at_number()) {
        if (!join()) return false;
        one = true;
      }
      if (one) return piece(out_.front());
      if (out_.size() == most) return fields_.refuse(name_, "at most " + std::to_string(most) + " of them");
      if (json_.peek() == JsonCursor::Kind::kString) return text();
      if (json_.peek() == JsonCursor::Kind::kArray) return list();
      return fields_.unexpected(name_, "strings, or lists of token ids");
    });
    return good && (!out_.empty() || fields_.refuse(name_, "the list is empty"));
  }

 private:
  bool text() { return fields_.text(name_, kMaxText, out_.emplace_back().text); }

  bool mixes() const { return mixed_ != MixedPrompts::kNo; }

  // Ids, or ids and texts.
  bool list() {
    Prompt& prompt = out_.emplace_back();
    prompt.tokens = true;
    if (!mixes()) return fields_.ids(name_, kMaxIds, prompt.ids);
    if (json_.peek_inside() == JsonCursor::Kind::kString)
      prompt.tokens = false;
    else
      prompt.pieces.emplace_back();
    if (!json_.array([&] { return piece(prompt); })) return false;
    if (mixed_ == MixedPrompts::kWithIds && !prompt.tokens && prompt.ids.empty())
      return fields_.refuse(name_, "a list inside the list must have token ids");
    if (prompt.tokens && prompt.pieces.size() == 1) prompt.pieces.clear();
    return true;
  }

  // The texts so far and the number that comes next are one prompt.
  bool join() {
    Prompt all;
    for (const Prompt& prompt : out_) {
      if (prompt.tokens || !prompt.pieces.empty()) return fields_.unexpected(name_, "lists of token ids");
      all.text += prompt.text;
      all.pieces.push_back({prompt.text.size(), 0});
    }
    out_.clear();
    out_.push_back(std::move(all));
    return true;
  }

  bool piece(Prompt& prompt) {
    if (json_.at_number()) {
      if (prompt.ids.size() == kMaxIds)
        return fields_.refuse(name_, "at most " + std::to_string(kMaxIds) + " token ids");
      ++prompt.pieces.back().ids;
      prompt.ids.push_back(0);
      return fields_.whole(name_, 0, std::numeric_limits<uint32_t>::max(), prompt.ids.back());
    }
    if (json_.peek() != JsonCursor::Kind::kString) return fields_.unexpected(name_, "token ids, or texts between them");
    if (prompt.pieces.size() == kMaxPieces)
      return fields_.refuse(name_, "at most " + std::to_string(kMaxPieces) + " texts between token ids");
    std::string one;
    if (!fields_.text(name_, kMaxText, one)) return false;
    prompt.text += one;
    prompt.pieces.push_back({one.size(), 0});
    return true;
  }

  FieldReader& fields_;
  JsonCursor& json_;
  const std::string_view name_;
  const MixedPrompts mixed_;
  std::vector<Prompt>& out_;
};

}  // namespace

bool read_prompts(FieldReader& fields, std::string_view name, size_t most, MixedPrompts mixed,
                  std::vector<Prompt>& out) {
  return PromptList(fields, name, mixed, out).read(most);
}

}  // namespace weir::openai
