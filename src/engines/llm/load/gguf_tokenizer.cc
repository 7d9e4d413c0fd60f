#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "base/encoding.h"
#include "engines/llm/load/gguf_bert.h"
#include "engines/llm/load/gguf_encoders.h"
#include "engines/llm/load/gguf_texts.h"
#include "engines/llm/load/gguf_unigram.h"
#include "engines/llm/load/gguf_vocabulary.h"
#include "engines/llm/load/gguf_words.h"

namespace weir::llm {
namespace {

using nlohmann::json;

constexpr std::string_view kSpace = "\xE2\x96\x81";  // ▁, how SentencePiece writes a space
constexpr size_t kLongestMerged = 256;               // bytes of a piece that merges lead to
// Many times what models have; each token, and more so each added one, takes a few hundred bytes while texts are made.
constexpr size_t kMostTokens = 1 << 20, kMostTokenBytes = 16 << 20;
constexpr size_t kMostAdded = 1 << 16, kMostAddedBytes = 4 << 20;  // what text takes
constexpr size_t kTokensWithoutRow = 1 << 12;                      // added ones that a model was not made for
constexpr size_t kMostCut = 256 << 20;                             // bytes of all parts that pieces are cut into
constexpr size_t kMostMerges = (1 << 20) - 1, kMostMergeBytes = 32 << 20;

base::Status unknown_field(const std::string& name, const std::string& value, const std::string& known) {
  return base::failure(base::Code::kUnimplemented, "GGUF: '" + name + "' is \"" + base::presentable(value, 40) +
                                                       "\", which is not supported" + known);
}
std::string dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

size_t bytes_of(const std::vector<std::string>& texts) {
  size_t bytes = 0;
  for (const auto& text : texts) bytes += text.size();
  return bytes;
}

base::Status check_added(const std::vector<std::string>& tokens, const std::vector<int64_t>& types) {
  size_t count = 0, bytes = 0;
  for (size_t i = 0; i < std::min(types.size(), tokens.size()); ++i) {
    const auto type = TokenType(types[i]);
    if (type != TokenType::kUnknown && type != TokenType::kControl && type != TokenType::kUserDefined) continue;
    ++count, bytes += tokens[i].size();
  }
  if (count > kMostAdded) return bad_token_field("token_type", "names more than 65536 added tokens");
  if (bytes > kMostAddedBytes) return bad_token_field("token_type", "names added tokens of more than 4 MiB");
  return {};
}

// Before anything is made of the lists.
base::Status check_sizes(const Gguf& gguf) {
  if (const auto* tokens = gguf.get<std::vector<std::string>>(token_field("tokens"))) {
    auto rows = gguf.tensors.find("token_embd.weight");
    if (rows != gguf.tensors.end() && !rows->second.shape.empty() && tokens->size() > kTokensWithoutRow &&
        tokens->size() - kTokensWithoutRow > rows->second.shape[0])
      return bad_token_field("tokens", "has more tokens than 'token_embd.weight' has rows");
    if (tokens->size() > kMostTokens) return bad_token_field("tokens", "has more than 1048576 tokens");
    if (bytes_of(*tokens) > kMostTokenBytes) return bad_token_field("tokens", "has more than 16 MiB");
    if (const auto* types = gguf.get<std::vector<int64_t>>(token_field("token_type")))
      if (auto s = check_added(*tokens, *types); !s.ok()) return s;
  }
  if (const auto* merges = gguf.get<std::vector<std::string>>(token_field("merges")))
    if (merges->size() > kMostMerges || bytes_of(*merges) > kMostMergeBytes)
      return bad_token_field("merges", "are too many");
  return {};
}

// --- BPE of bytes ----------------------------------------------------------------------------------------------------

base::Status read_merges(const Gguf& gguf, json& out) {
  auto merges = gguf.get<std::vector<std::string>>(token_field("merges"));
  if (!merges) return bad_token_field("merges", "is no list of merges");
  out = json::array();
  for (const auto& merge : *merges) {
    const size_t space = merge.find(' ', 1);
    if (space == merge.npos)
      return bad_token_field("merges", "has '" + base::presentable(merge, 60) + "', which are no two tokens");
    out.push_back({merge.substr(0, space), merge.substr(space + 1)});
  }
  return {};
}

base::Result<const WordRule*> rule_of(const Gguf& gguf) {
  auto name = gguf.get<std::string>(token_field("pre"));
  const WordRule* rule = word_rule(name ? *name : std::string_view());
  if (rule) return rule;
  return unknown_field(token_field("pre"), *name, "");
}

base::Status write_bytes(const Gguf& gguf, json& out) {
  auto rule = rule_of(gguf);
  if (!rule) return rule.error();
  json steps = json::array();
  for (std::string_view pattern : (*rule)->patterns)
    steps.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}});
  out["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
  if ((*rule)->nfc) out["normalizer"] = {{"type", "NFC"}};
  out["decoder"] = {{"type", "ByteLevel"}};
  out["model"]["ignore_merges"] = (*rule)->ignore_merges;
  return read_merges(gguf, out["model"]["merges"]);
}

// --- SentencePiece's BPE ---------------------------------------------------------------------------------------------

// As Hugging Face's converter has them: each way to cut a piece into two is a merge; those of the piece with the
// highest score come first.
class MergesOfScores {
 public:
  explicit MergesOfScores(const GgufVocabulary& words) : words_(words) {
    for (size_t i = 0; i < words.tokens.size(); ++i)
      if (is_part(words.types[i])) ids_.emplace(words.tokens[i], i);
  }

  base::Status write(json& out) {
    size_t looked_at = 0;
    for (size_t i = 0; i < words_.tokens.size(); ++i)
      if (is_cut(i)) looked_at += words_.tokens[i].size() * words_.tokens[i].size();
    if (looked_at > kMostCut) return bad_token_field("tokens", "has too many long pieces");
    for (size_t i = 0; i < words_.tokens.size(); ++i) {
      if (is_cut(i)) cut(i);
      if (merges_.size() > kMostMerges || bytes_ > kMostMergeBytes)
        return bad_token_field("tokens", "make too many merges");
    }
    std::stable_sort(merges_.begin(), merges_.end(), [](const Merge& a, const Merge& b) {
      return std::tuple(a.score, a.left.size(), a.right.size()) > std::tuple(b.score, b.left.size(), b.right.size());
    });
    out = json::array();
    for (const Merge& merge : merges_) out.push_back({merge.left, merge.right});
    return {};
  }

 private:
  struct Merge {
    std::string_view left, right;
    double score;
  };
  static bool is_part(TokenType type) {
    return type == TokenType::kNormal || type == TokenType::kUserDefined || type == TokenType::kUnused;
  }
  bool is_cut(size_t id) const {
    return words_.types[id] == TokenType::kNormal && words_.tokens[id].size() <= kLongestMerged;
  }
  void cut(size_t id) {
    const std::string_view piece = words_.tokens[id];
    std::vector<std::tuple<size_t, size_t, Merge>> ways;
    for (size_t at = 1; at < piece.size(); ++at) {
      if ((static_cast<unsigned char>(piece[at]) & 0xc0) == 0x80) continue;  // inside of a character
      auto left = ids_.find(piece.substr(0, at)), right = ids_.find(piece.substr(at));
      if (left != ids_.end() && right != ids_.end())
        ways.push_back({left->second, right->second, {left->first, right->first, (*words_.scores)[id]}});
    }
    std::sort(ways.begin(), ways.end(), [](const auto& a, const auto& b) {
      return std::pair(std::get<0>(a), std::get<1>(a)) < std::pair(std::get<0>(b), std::get<1>(b));
    });
    for (const auto& way : ways) merges_.push_back(std::get<2>(way));
    bytes_ += ways.size() * piece.size();
  }

  const GgufVocabulary& words_;
  std::unordered_map<std::string_view, size_t> ids_;
  std::vector<Merge> merges_;
  size_t bytes_ = 0;  // of their texts
};

base::Status write_pieces(const Gguf& gguf, const GgufVocabulary& words, json& out) {
  if (!words.scores) return bad_token_field("scores", "is no list of scores");
  auto prefix = gguf.get<bool>(token_field("add_space_prefix"));
  const bool begins = !prefix || *prefix;
  json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}};
  json steps = json::array();
  if (begins) steps.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
  steps.push_back(std::move(replace));
  out["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
  out["pre_tokenizer"] = nullptr;
  json back = json::array();
  back.push_back({{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}});
  back.push_back({{"type", "ByteFallback"}});
  back.push_back({{"type", "Fuse"}});
  if (begins) back.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  out["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(back)}};
  json& model = out["model"];
  model["byte_fallback"] = true, model["fuse_unk"] = true;
  if (auto id = words.special(gguf, "unknown"))
    model["unk_token"] = words.tokens[*id];
  else if (auto unknown = words.first(TokenType::kUnknown))
    model["unk_token"] = words.tokens[*unknown];
  return MergesOfScores(words).write(model["merges"]);
}

// One of those that are known, whose lists are not too long.
base::Result<std::string> kind_of(const Gguf& gguf) {
  auto kind = gguf.get<std::string>(token_field("model"));
  if (!kind) return bad_token_field("model", "is not there");
  const bool encoder = is_gguf_encoder(gguf);
  if (*kind == "gpt2" || (encoder ? *kind == "bert" || *kind == "t5" : *kind == "llama")) {
    if (auto s = check_sizes(gguf); !s.ok()) return s;
    return *kind;
  }
  return unknown_field(token_field("model"), *kind, encoder ? "; bert, t5 and gpt2 are" : "; gpt2 and llama are");
}

base::Status write_model(const std::string& kind, const Gguf& gguf, const GgufVocabulary& words, json& out) {
  if (kind == "t5") return write_unigram(gguf, words, out);
  out["model"] = {{"type", "BPE"}, {"vocab", words.pieces()}};
  return kind == "gpt2" ? write_bytes(gguf, out) : write_pieces(gguf, words, out);
}

}  // namespace

base::Result<std::string> tokenizer_of(const Gguf& gguf) {
  auto kind = kind_of(gguf);
  if (!kind) return kind.error();
  if (*kind == "bert") return word_pieces_of(gguf);
  GgufVocabulary words;
  if (auto s = words.read(gguf); !s.ok()) return s;
  json out = {{"version", "1.0"}, {"normalizer", nullptr}, {"post_processor", nullptr}};
  out["added_tokens"] = words.added();
  if (auto s = write_model(*kind, gguf, words, out); !s.ok()) return s;
  if (is_gguf_encoder(gguf))
    if (auto s = write_ends(gguf, words, out); !s.ok()) return s;
  return dumped(out);
}

base::Result<std::string> tokenizer_config_of(const Gguf& gguf) {
  auto kind = kind_of(gguf);
  if (!kind) return kind.error();
  if (is_gguf_encoder(gguf)) return std::string("{}");  // its tokenizer.json says how texts begin and end
  GgufVocabulary words;
  if (auto s = words.read(gguf); !s.ok()) return s;
  bool add_bos = true;
  if (*kind == "gpt2") {
    auto rule = rule_of(gguf);
    if (!rule) return rule.error();
    add_bos = (*rule)->add_bos;
  }
  json out;
  for (auto [ours, theirs] : {std::pair{"bos_token", "bos"}, std::pair{"eos_token", "eos"},
                              std::pair{"unk_token", "unknown"}, std::pair{"pad_token", "padding"}})
    if (auto id = words.special(gguf, theirs)) out[ours] = words.tokens[*id];
  auto given = gguf.get<bool>(token_field("add_bos_token")), end = gguf.get<bool>(token_field("add_eos_token"));
  out["add_bos_token"] = given ? *given : add_bos;
  out["add_eos_token"] = end && *end;
  auto usual = gguf.get<std::string>("tokenizer.chat_template");
  auto tools = gguf.get<std::string>("tokenizer.chat_template.tool_use");
  if (usual && tools)
    out["chat_template"] = {{{"name", "default"}, {"template", *usual}}, {{"name", "tool_use"}, {"template", *tools}}};
  else if (usual)
    out["chat_template"] = *usual;
  return dumped(out);
}

}  // namespace weir::llm
