#include "engines/llm/load/gguf_bert.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/encoding.h"
#include "engines/llm/load/gguf_fields.h"

namespace weir::llm {
namespace {

using nlohmann::json;

constexpr std::string_view kWordStart = "\xE2\x96\x81";  // ▁, which llama.cpp puts before what begins a word
constexpr std::string_view kSpecial[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
constexpr int64_t kUnknownToken = 2, kControlToken = 3, kUserDefinedToken = 4;

// The fields of a file in which words and pieces have changed sides: "##" is what Hugging Face puts before a piece that
// goes on, where llama.cpp marks those that begin.
class WordPieces {
 public:
  explicit WordPieces(const Gguf& gguf) : f_(gguf) {}

  base::Result<std::string> write() {
    read_tokens();
    if (f_.status().ok()) set_special();
    if (!f_.status().ok()) return f_.status();
    out_["version"] = "1.0";
    out_["normalizer"] = normalizer();
    out_["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
    out_["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
    out_["model"]["type"] = "WordPiece";
    out_["model"]["continuing_subword_prefix"] = "##";
    out_["model"]["max_input_chars_per_word"] = 100;
    return out_.dump(-1, ' ', false, json::error_handler_t::replace);
  }

 private:
  static std::string field(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

  // llama.cpp leaves these as they are, special or not.
  static bool is_bracketed(std::string_view token) { return token.starts_with('[') && token.ends_with(']'); }

  // Ollama's files have no types: theirs are those that BERT was trained with.
  static bool is_special(std::string_view token, const std::vector<int64_t>* types, size_t id) {
    if (types) return (*types)[id] == kUnknownToken || (*types)[id] == kControlToken;
    return std::find(std::begin(kSpecial), std::end(kSpecial), token) != std::end(kSpecial);
  }

  static std::string text_of(const std::string& token, bool special) {
    if (token.starts_with(kWordStart)) return token.substr(kWordStart.size());
    return special || is_bracketed(token) ? token : "##" + token;
  }

  void read_tokens() {
    const auto* tokens = f_.file().get<std::vector<std::string>>(field("tokens"));
    const auto* types = f_.file().get<std::vector<int64_t>>(field("token_type"));
    if (!tokens || tokens->empty()) return f_.invalid(field("tokens"), "is no list of tokens");
    if (types && types->size() < tokens->size())
      return f_.invalid(field("token_type"), "is shorter than the list of tokens");
    json& vocabulary = out_["model"]["vocab"] = json::object();
    out_["added_tokens"] = json::array();
    for (size_t i = 0; i < tokens->size(); ++i) {
      const std::string& token = (*tokens)[i];
      const bool special = is_special(token, types, i);
      names_.push_back(text_of(token, special));
      if (!vocabulary.emplace(names_[i], i).second)
        return f_.invalid(field("tokens"), "has '" + base::presentable(token, 60) + "' twice");
      cased_ = cased_ || (!special && !is_bracketed(token) &&
                          std::any_of(token.begin(), token.end(), [](char c) { return c >= 'A' && c <= 'Z'; }));
      if (special)
        add(i, Added::kSpecial);
      else if (types && (*types)[i] == kUserDefinedToken && !names_[i].empty())
        add(i, Added::kWord);
    }
  }

  // Words are looked for in the normalized text, as Hugging Face does unless it is told otherwise.
  enum class Added : bool { kWord, kSpecial };
  void add(size_t id, Added what) {
    out_["added_tokens"].push_back({{"id", id},
                                    {"content", names_[id]},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", what == Added::kWord},
                                    {"special", what == Added::kSpecial}});
  }

  // The name of the token that one of these fields has the id of, or of `usual`.
  std::string special(std::initializer_list<const char*> names, uint64_t usual) {
    for (auto* name : names)
      if (auto id = f_.whole(field(name)); id && *id >= 0) return name_of(uint64_t(*id), name);
    return name_of(usual, names.begin()[0]);
  }
  std::string name_of(uint64_t id, const char* name) {
    if (id < names_.size()) return names_[id];
    f_.invalid(field(name), "is missing, or no token");
    return {};
  }

  // A text begins and ends with these, as BERT was trained.
  void set_special() {
    const std::string begin = special({"cls_token_id", "bos_token_id"}, 101),
                      end = special({"seperator_token_id", "eos_token_id"}, 102);
    out_["model"]["unk_token"] = special({"unknown_token_id"}, 100);
    if (!f_.status().ok()) return;
    auto token = [](const std::string& name, int type) {
      return json{{"SpecialToken", {{"id", name}, {"type_id", type}}}};
    };
    auto text = [](const char* name, int type) { return json{{"Sequence", {{"id", name}, {"type_id", type}}}}; };
    json used;
    for (const auto& name : {begin, end})
      used[name] = {
          {"id", name}, {"ids", json::array({out_["model"]["vocab"][name]})}, {"tokens", json::array({name})}};
    out_["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", json::array({token(begin, 0), text("A", 0), token(end, 0)})},
        {"pair", json::array({token(begin, 0), text("A", 0), token(end, 0), text("B", 1), token(end, 1)})},
        {"special_tokens", std::move(used)}};
  }

  // Where the file does not say it, a vocabulary with capitals tells of texts with capitals.
  json normalizer() const {
    const bool* lower = f_.file().get<bool>(field("normalizer.lowercase"));
    const bool* strip = f_.file().get<bool>(field("normalizer.strip_accents"));
    return {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", strip ? json(*strip) : json()},
            {"lowercase", lower ? *lower : !cased_}};
  }

  GgufFields f_;
  std::vector<std::string> names_;  // in tokenizer.json
  bool cased_ = false;
  json out_;
};

}  // namespace

base::Result<std::string> word_pieces_of(const Gguf& gguf) { return WordPieces(gguf).write(); }

}  // namespace weir::llm
