// ChoiceDelta: what there is to say of one choice, since the last chunk or altogether, and its JSON.
//
//   chat        {"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}      a chunk's
//               {"index":0,"message":{"role":"assistant","content":"Hi"},"logprobs":null,"finish_reason":"stop",…}
//   completion  {"index":0,"text":"Hi","logprobs":null,"finish_reason":null}
// Logprobs: of a chat {"content":[{"token","logprob","bytes","top_logprobs":[…]}]}; of a completion {"text_offset",
// "token_logprobs","tokens","top_logprobs"}, offsets in Unicode characters of the text. Own members: "readouts":
// [{"position","token_id","values":[[…] per layer]}].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/openai/request.h"
#include "msg/call.h"
#include "msg/text_codec.h"

namespace weir::openai {

// How tokens are shown; the same for all choices of a request.
struct TokenForm {
  const msg::TextCodec* codec = nullptr;
  Kind kind = Kind::kChat;
  bool tokens_as_ids = false;
  size_t layers = 1;  // rows of a readout
};

class ChoiceDelta {
 public:
  std::string text;
  std::vector<uint32_t> ids;  // where they are to be returned

  void add_logprob(const TokenForm& form, uint32_t id, const msg::TokenDetails& details);
  void add_readout(const TokenForm& form, const msg::Token& token);
  bool empty() const { return text.empty() && ids.empty() && tokens_.empty() && readouts_.empty(); }
  size_t weight() const { return text.size() + 8 * ids.size() + tokens_.size() + tops_.size() + readouts_.size(); }
  // All but the place in the text that has been reached.
  void clear();

  // `"logprobs":…`: null where there are none.
  void write_logprobs(std::string& out, Kind kind) const;
  // `,"token_ids":[…]` and `,"readouts":[…]`, where there are any.
  void write_extras(std::string& out) const;

 private:
  void add_chat(const TokenForm& form, uint32_t id, const msg::TokenDetails& details);
  void add_completion(const TokenForm& form, uint32_t id, const msg::TokenDetails& details);

  // JSON elements, separated by commas. Of a chat `tokens_` has all of an entry.
  std::string tokens_, values_, tops_, offsets_, readouts_;
  uint64_t at_ = 0;  // characters of the text before the next token
};

// The text that logprobs show for a token: of a completion "bytes:\x…" where it is not UTF-8, so that each is told
// from the others.
std::string shown(const TokenForm& form, uint32_t id);
// A number that JSON has, for any log probability.
void write_logprob(std::string& out, float logprob);
// vLLM's: `{"17":{"logprob":…,"rank":1,"decoded_token":"…"},…}`, or null for the position that nothing precedes.
void write_prompt_logprob(std::string& out, const TokenForm& form, uint32_t id, const msg::TokenDetails& details);
void write_ids(std::string& out, const std::vector<uint32_t>& ids);

struct Usage {
  uint64_t prompt = 0, completion = 0, cached = 0;
};
// `"usage":{…}`
void write_usage(std::string& out, const Usage& usage);

// Why a choice is over.
struct End {
  enum class Why : uint8_t { kNone, kStop, kLength } why = Why::kNone;
  std::string stop_reason;  // JSON: the stop string or token id, or null
};
// `"finish_reason":"stop","stop_reason":…`; `"finish_reason":null` while it is not over.
void write_end(std::string& out, const End& end);

}  // namespace weir::openai
