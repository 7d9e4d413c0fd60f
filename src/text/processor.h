// Processor: what a model's folder says about text: its tokenizer, its chat template, its special tokens. It implements
// TextCodec by the libraries `tokenizers` and `jinja`. Immutable; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "jinja/template.h"
#include "msg/text_codec.h"
#include "text/grammar_cache.h"
#include "tokenizers/tokenizer.h"

namespace weir::text {

struct Processor final : msg::TextCodec {
  std::shared_ptr<const tokenizers::Tokenizer> tokenizer;  // never null
  std::shared_ptr<const jinja::Template> chat;             // null: the model is not made for chat
  std::shared_ptr<const jinja::Template> tool_chat;        // where tools are given; null: `chat`, too
  std::shared_ptr<GrammarCache> grammars;                  // never null
  msg::AnswerFormat format;
  std::string chat_source;         // of `chat`
  bool developers = false;         // a template names the role developer
  std::string bos, eos, unk, pad;  // the special tokens' text; empty when there is none
  // The ids around a text with special tokens, where tokenizer_config.json decides (add_bos_token, add_eos_token) and
  // not the tokenizer's own post_processor.
  struct Markers {
    std::vector<uint32_t> before, after;
  };
  std::optional<Markers> markers;

  std::vector<uint32_t> encode(std::string_view text, msg::AddSpecial add,
                               const std::atomic<bool>* cancelled = nullptr) const override;
  // With `markers` around each of the texts, where they are what decides.
  msg::TokenPair join_pair(std::span<const uint32_t> first, std::span<const uint32_t> second,
                           size_t most) const override;
  size_t pair_size(size_t first, size_t second) const override;
  std::string decode(std::span<const uint32_t> ids, msg::SkipSpecial skip) const override;
  std::unique_ptr<msg::TokenDecoder> decoder(msg::SkipSpecial skip) const override;
  std::string_view piece(uint32_t id) const override { return tokenizer->piece(id); }
  std::string_view bytes(uint32_t id) const override { return tokenizer->bytes(id); }
  bool special(uint32_t id) const override { return tokenizer->special(id); }
  bool has_chat_template() const override { return chat != nullptr; }
  bool knows_developers() const override { return developers; }
  // Linear in the messages, the template aside: no object has more than kMostMembers members, since each member of
  // ordered JSON is looked for among those before it.
  base::Result<std::string> render_chat(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& extra,
                                        const msg::ChatOptions& options) const override;
  msg::AnswerFormat answer_format() const override { return format; }
  base::Result<std::shared_ptr<const msg::TokenGrammar>> compile(const msg::StructuredOutput& form,
                                                                 const std::atomic<bool>* cancelled) const override {
    return grammars->compile(form, cancelled);
  }
  std::shared_ptr<const msg::TokenGrammar> find_compiled(const msg::StructuredOutput& form) const override {
    return grammars->find(form);
  }
};

// Null: the codec is not one that a model's folder gives.
inline const Processor* processor_of(const msg::TextCodec* codec) { return dynamic_cast<const Processor*>(codec); }

// From the files of a Hugging Face folder; empty text for files that are not there. `tokenizer_config` may hold the
// chat template (`chat_template`; where it is a list of named ones, `default`, and `tool_use` where tools are given),
// which `chat_template_jinja`, a file of its own, overrides; without either, chatml or llama-3 is chosen by the special
// tokens that the vocabulary has. `tool_format`: a model's setting (tool_format.h); empty: by the template. Errors:
// INVALID_ARGUMENT, naming the file or the setting.
base::Result<std::shared_ptr<const Processor>> make_processor(std::string_view tokenizer_json,
                                                              std::string_view tokenizer_config,
                                                              std::string_view chat_template_jinja,
                                                              std::string_view tool_format = {});

inline constexpr size_t kMostMembers = 512;        // of an object
inline constexpr size_t kMostArguments = 1 << 20;  // bytes, of the arguments of one tool call
inline constexpr size_t kDeepestArguments = 100;   // lists and objects inside each other

// Whether an object in that text, which need not be JSON, may have more than `most_members` members, or lists and
// objects are nested deeper than that. One pass over the text.
bool crowded(std::string_view json, size_t most_members = kMostMembers, size_t deepest = SIZE_MAX);

}  // namespace weir::text
