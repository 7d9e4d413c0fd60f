// TextCodec: what a dialect may ask of a model of text: text <-> token ids, and the prompt of a conversation. The room
// `text` implements it from the files of a model's folder. Immutable; any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/stepped_charge.h"
#include "msg/token_constraint.h"

namespace weir::msg {

enum class AddSpecial : uint8_t { kNo, kYes };   // add the tokens that the model wants around a text (<s>, …)
enum class SkipSpecial : uint8_t { kNo, kYes };  // leave special tokens out of decoded text

// A caller's own limits for one piece of work on text. A shard works on a text only for as long as its connections may
// wait, and a worker stops when the client has left. What a template makes is charged while it is made.
struct TextBudget {
  uint64_t steps = UINT64_MAX;                   // of a chat template; about 100 ns each
  size_t bytes = SIZE_MAX;                       // of text that is made
  const std::atomic<bool>* cancelled = nullptr;  // borrowed; true: nobody waits for the result any more
  base::SteppedCharge* memory = nullptr;         // borrowed, for nothing else than this work; null: nobody counts
  bool brief = false;                            // on a shard: what takes several tries is not begun

  bool stopped() const { return cancelled && cancelled->load(std::memory_order_relaxed); }
  // All that `memory` was charged for is gone, but for so many bytes.
  void keep(uint64_t bytes) const {
    if (memory && memory->used() > bytes) memory->give(memory->used() - bytes);
  }
};

// The budget of a shard: a few milliseconds at most. So little memory is not charged.
inline constexpr TextBudget kBriefText{.steps = 20'000, .bytes = size_t(16) << 10, .brief = true};

struct ChatOptions {
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  std::string image_text;  // stands for an image; empty: the model takes none
  TextBudget budget{};
};

// How a model writes its calls of tools.
enum class ToolFormat : uint8_t {
  kNone,          // not known: it cannot be asked to call tools
  kHermes,        // <tool_call>{"name": …, "arguments": …}</tool_call>: Hermes, Qwen 2.5 and 3
  kLlama,         // {"name": …, "parameters": …}: Llama 3
  kMistral,       // [TOOL_CALLS][{"name": …, "arguments": …}], [TOOL_CALLS]name[ARGS]{…}
  kDeepSeek,      // <｜tool▁call▁begin｜>…<｜tool▁sep｜>…<｜tool▁call▁end｜>
  kPhi,           // functools[{"name": …, "arguments": …}]
  kFunctionary,   // >>>name\n{…}
  kFunctionTags,  // <function=name>{…}</function>
  kHarmony,       // <|channel|>commentary to=functions.name<|message|>{…}: gpt-oss
  kPythonic,      // [name(argument=value)]
};

// The parts of an answer beside its text.
struct AnswerFormat {
  ToolFormat tools = ToolFormat::kNone;
  bool thinks = false;  // <think>…</think> may come before the text
};

// Turns the ids of one text into text as they come. One thread. Its TextCodec outlives it.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // Appends the text that this token makes certain to `out`: whole UTF-8 sequences.
  virtual void step(uint32_t id, std::string& out) = 0;
  // The tokens are over: appends the bytes that were held back; an incomplete sequence becomes U+FFFD.
  virtual void finish(std::string& out) = 0;
};

// Two texts as one row of a model: the ids with the tokens that the model wants around them, and of each the number of
// its text (token_type_ids).
struct TokenPair {
  std::vector<uint32_t> ids, types;
};

class TextCodec {
 public:
  virtual ~TextCodec() = default;

  // Bytes that are not UTF-8 count as U+FFFD. Linear in the text. Once `cancelled` (or null) is true it ends soon, with
  // a part of the ids.
  virtual std::vector<uint32_t> encode(std::string_view text, AddSpecial add,
                                       const std::atomic<bool>* cancelled = nullptr) const = 0;
  // Two texts' ids (of encode() with AddSpecial::kNo) as the model's pair. What is longer than `most` ids with the
  // model's own around them is cut at the ends of the texts, the longer one first. Linear in `most`.
  virtual TokenPair join_pair(std::span<const uint32_t> first, std::span<const uint32_t> second, size_t most) const = 0;
  // How many ids a pair has with the model's own around them, before anything is cut.
  virtual size_t pair_size(size_t first, size_t second) const = 0;
  // Ids that the vocabulary does not have decode to nothing.
  virtual std::string decode(std::span<const uint32_t> ids, SkipSpecial skip) const = 0;
  virtual std::unique_ptr<TokenDecoder> decoder(SkipSpecial skip) const = 0;

  // The token as the vocabulary spells it, the bytes that it adds to a text, and whether it is a special token.
  virtual std::string_view piece(uint32_t id) const = 0;
  virtual std::string_view bytes(uint32_t id) const = 0;
  virtual bool special(uint32_t id) const = 0;

  // Whether render_chat() has a template to render.
  virtual bool has_chat_template() const = 0;
  // Whether that template tells messages of the role developer from others. Where it does not, they are instructions of
  // the role system.
  virtual bool knows_developers() const { return false; }
  // The prompt of a conversation: a list of {"role", "content"} as OpenAI's chat endpoint has it, and whatever else the
  // template knows (tools, …) in `extra`, an object; the template sees both with their keys in order. Content parts of
  // type text are joined; a part of type image becomes `image_text`. Arguments of tool calls that are JSON text become
  // values. Errors: INVALID_ARGUMENT in the words of the template or naming the message; RESOURCE_EXHAUSTED for more
  // than any template may take; base::overloaded() where the budget's memory has no room, which stays charged for the
  // text that is returned, by its capacity; ABORTED for more than the budget allows; CANCELLED.
  virtual base::Result<std::string> render_chat(const nlohmann::ordered_json& messages,
                                                const nlohmann::ordered_json& extra,
                                                const ChatOptions& options) const = 0;

  virtual AnswerFormat answer_format() const = 0;

  // A form of completions, which is kept for the next requests that ask for it. The first takes up to seconds: on a
  // worker. Errors: INVALID_ARGUMENT, naming what is wrong or not supported, below 600 bytes; CANCELLED.
  virtual base::Result<std::shared_ptr<const TokenGrammar>> compile(const StructuredOutput& form,
                                                                    const std::atomic<bool>* cancelled) const = 0;
  // The same where it is kept already, else null. Any thread, at once.
  virtual std::shared_ptr<const TokenGrammar> find_compiled(const StructuredOutput& form) const = 0;
};

}  // namespace weir::msg
