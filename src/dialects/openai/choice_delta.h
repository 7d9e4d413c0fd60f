// ChoiceDelta: what there is to say of one choice, since the last chunk or altogether, and its JSON.
//
//   chat        {"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}      a chunk's
//               {"index":0,"message":{"role":"assistant","content":"Hi"},"logprobs":null,"finish_reason":"stop",…}
//               a chunk's delta may have reasoning (the same as reasoning_content) and tool_calls:
//               {"index","id","type","function"} where a call begins, {"index","function":{"arguments"}} for more of
//               it; a message has them whole
//   completion  {"index":0,"text":"Hi","logprobs":null,"finish_reason":null}
// Logprobs: of a chat {"content":[{"token","logprob","bytes","top_logprobs":[…]}]}; of a completion {"text_offset",
// "token_logprobs","tokens","top_logprobs"}, offsets in Unicode characters of the text. Own members: "readouts":
// [{"position","token_id","values":[[…] per layer]}].
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/openai/json_elements.h"
#include "dialects/openai/llama_cpp/timings.h"
#include "dialects/openai/pieces_text.h"
#include "dialects/openai/request.h"
#include "msg/call.h"
#include "msg/text_codec.h"
#include "text/answer_parser.h"

namespace weir::openai {

// How tokens are shown; the same for all choices of a request.
struct TokenForm {
  const msg::TextCodec* codec = nullptr;
  Kind kind = Kind::kChat;
  bool tokens_as_ids = false;
  size_t layers = 1;  // rows of a readout
};

// A call of a tool, or more of its arguments.
struct CallDelta {
  uint32_t index = 0;
  std::string id, name;  // where it begins; else empty
  std::string arguments;
  bool custom = false;  // of a custom tool: whole, and the arguments are its input
};

// How calls are told: as a list of tool_calls, or the one as the older function_call.
enum class CallForm : uint8_t { kTools, kFunction };

// Whether its arguments are a JSON object: the model may have got it wrong, or the answer was cut.
bool has_object(const CallDelta& call);

class ChoiceDelta {
 public:
  std::string text, reasoning;
  std::vector<CallDelta> calls;
  std::vector<uint32_t> ids;  // where they are to be returned

  // With `alternatives` of them: a request for those of its prompt, too, has the model find more.
  void add_logprob(const TokenForm& form, uint32_t id, const msg::TokenDetails& details, uint32_t alternatives);
  void add_readout(const TokenForm& form, const msg::Token& token);
  // Takes what a model wrote; `new_id()` makes the id of a call that begins. More of a call is joined to it where it is
  // the last.
  template <class NewId>
  void add(text::AnswerPieces pieces, NewId new_id) {
    text += pieces.content;
    reasoning += pieces.reasoning;
    for (text::ToolCallPiece& piece : pieces.calls) add_call(std::move(piece), new_id);
  }
  // Takes what another one says, which came later.
  void append(const ChoiceDelta& more);
  bool says_nothing() const { return text.empty() && reasoning.empty() && calls.empty(); }
  bool empty() const { return says_nothing() && ids.empty() && tokens_.empty() && readouts_.empty(); }
  bool has_only_text() const {
    return !text.empty() && reasoning.empty() && calls.empty() && ids.empty() && tokens_.empty() && readouts_.empty();
  }
  size_t weight() const {
    return text.size() + 2 * reasoning.size() + calls_weight_ + 8 * ids.size() + tokens_.size() + values_.size() +
           tops_.size() + offsets_.size() + readouts_.size();
  }
  // The memory that it takes, or its JSON, whichever is more.
  size_t held() const {
    size_t out = weight();
    for (const JsonElements* list : {&tokens_, &values_, &tops_, &offsets_, &readouts_})
      out += list->held() - list->size();
    return out;
  }
  // The entries of a chat's logprobs.
  const JsonElements& logprob_entries() const { return tokens_; }
  // All but the place in the text that has been reached.
  void clear();

  // The members of a chat's `delta`, without braces.
  void write_delta(std::string& out, CallForm form) const;
  // The same of a `message`. Into a SplicedText all is spliced: the ChoiceDelta stays as it is until that is taken.
  void write_message(SplicedText& out, CallForm form) const;
  // `"logprobs":…`: null where there are none.
  void write_logprobs(SplicedText& out, Kind kind) const;
  void write_logprobs(std::string& out, Kind kind) const;
  // `,"token_ids":[…]` and `,"readouts":[…]`, where there are any.
  void write_extras(SplicedText& out) const;
  void write_extras(std::string& out) const;

 private:
  template <class NewId>
  void add_call(text::ToolCallPiece piece, NewId new_id) {
    constexpr size_t kWeight = 256;  // of a call's own fields, as they are held and as JSON
    calls_weight_ += piece.arguments.size() + piece.name.size();
    if (piece.name.empty() && !calls.empty() && calls.back().index == piece.index) {
      calls.back().arguments += piece.arguments;
      return;
    }
    calls_weight_ += kWeight;
    std::string id = piece.name.empty() ? std::string() : new_id();
    calls.push_back({piece.index, std::move(id), std::move(piece.name), std::move(piece.arguments), false});
  }
  using Alternatives = std::span<const msg::TokenLogprob>;
  void add_chat(const TokenForm& form, uint32_t id, const msg::TokenDetails& details, Alternatives top);
  void add_completion(const TokenForm& form, uint32_t id, const msg::TokenDetails& details, Alternatives top);

  JsonElements tokens_, values_, tops_, offsets_, readouts_;  // of a chat `tokens_` has all of an entry
  size_t calls_weight_ = 0;
  uint64_t at_ = 0;  // characters of the text before the next token
};

// The bytes of a token: of the position's own at `place` 0, of alternatives from 1 on.
std::string_view bytes_of(const TokenForm& form, uint32_t id, const msg::TokenDetails& details, size_t place);
// The text that logprobs show for a token: of a completion "bytes:\x…" where it is not UTF-8, so that each is told
// from the others.
std::string shown(const TokenForm& form, uint32_t id, const msg::TokenDetails& details, size_t place);
// `{"id":…,"token":…,"logprob":…,"bytes":[…]`, without the end of the object, as llama.cpp has it.
void write_token_with_id(std::string& out, const TokenForm& form, msg::TokenLogprob token,
                         const msg::TokenDetails& details, size_t place);
// The same with a probability: `{"id":…,"token":…,"prob":…,"bytes":[…]`.
void write_token_share(std::string& out, const TokenForm& form, uint32_t id, float share,
                       const msg::TokenDetails& details, size_t place);
// A number that JSON has, for any log probability.
void write_logprob(std::string& out, float logprob);
// vLLM's: `{"17":{"logprob":…,"rank":1,"decoded_token":"…"},…}`, or null for the position that nothing precedes.
void write_prompt_logprob(std::string& out, const TokenForm& form, uint32_t id, const msg::TokenDetails& details,
                          uint32_t alternatives);
void write_ids(std::string& out, std::span<const uint32_t> ids);
// The same, spliced.
void write_ids(SplicedText& out, std::span<const uint32_t> ids);
// `opening`, which ends with a bracket, the elements, spliced, and `]`.
void write_list(SplicedText& out, std::string_view opening, const JsonElements& elements);

struct Usage {
  uint64_t prompt = 0, completion = 0, cached = 0;
  uint64_t thoughts = 0;            // of the completion
  base::Time first = base::kNever;  // when its first token came

  llama_cpp::TokenFigures figures() const { return {prompt, cached, completion, first}; }
};
// `"usage":{…}`
void write_usage(std::string& out, const Usage& usage);

// Why a choice is over.
struct End {
  enum class Why : uint8_t { kNone, kStop, kLength, kFiltered } why = Why::kNone;
  std::string stop_reason;  // JSON: the stop string or token id, or null
  bool calls = false;       // it has calls of tools, and stops for them
  bool cut_call = false;    // it stops inside a call, which is none then
  CallForm form = CallForm::kTools;
};
End::Why why_of(msg::Finish finish);
// `"finish_reason":"stop","stop_reason":…`; `"finish_reason":null` while it is not over.
void write_end(std::string& out, const End& end);

}  // namespace weir::openai
