// The parts that messages of completions and of chats have in common (message.h, chat_message.h). Pure; any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/forward/openai/message.h"
#include "marshal/field_reader.h"
#include "marshal/json_tensor.h"

namespace weir::forward {

// Writes the members of a request one after the other.
class MessageWriter {
 public:
  explicit MessageWriter(size_t room) {
    out_.reserve(room);
    out_ = "{";
  }
  std::string& member(std::string_view name) {
    if (out_.size() > 1) out_ += ',';
    ((out_ += '"') += name) += "\":";
    return out_;
  }
  void text(std::string_view name, std::string_view value) { marshal::write_string(member(name), value); }
  void flag(std::string_view name) { member(name) += "true"; }
  void whole(std::string_view name, int64_t value) { marshal::write_number(member(name), value); }
  void real(std::string_view name, float value, float usual) {
    if (value != usual) marshal::write_number(member(name), value);
  }
  template <class Ids>
  void ids(std::string_view name, std::initializer_list<Ids> lists) {
    member(name) += '[';
    for (const auto& list : lists)
      for (uint32_t id : list) {
        marshal::write_number(out_, uint64_t(id));
        out_ += ',';
      }
    if (out_.back() == ',') out_.pop_back();
    out_ += ']';
  }
  base::Bytes done() {
    out_ += '}';
    return base::Bytes::adopt(std::move(out_));
  }
  // Without the end of the object: more of it follows.
  base::Bytes open() { return base::Bytes::adopt(std::move(out_)); }

 private:
  std::string out_;
};

// `draws`: random numbers that the text has taken already.
void write_sampling(MessageWriter& out, const msg::Sampling& sampling, uint64_t draws);
// The form of the text: JSON as OpenAI's response_format, the others as vLLM's structured_outputs.
void write_form(MessageWriter& out, const msg::StructuredOutput& form);

// How much is read of log-probabilities: of as many tokens, refused beyond; with as many alternatives for each, passed
// over beyond.
struct LogprobLimits {
  size_t tokens = kMostChunkLogprobs, top = kMostTop;
};

// Log-probabilities as chats have them: [{"token", "bytes", "logprob", "top_logprobs": [the same]}, …]
class LogprobReader {
 public:
  LogprobReader(marshal::JsonCursor& json, marshal::FieldReader& fields, LogprobLimits limits)
      : json_(json), fields_(fields), limits_(limits) {}
  // Appends. False: what is wrong is said by `fields`, or the cursor.
  bool list(std::vector<NamedLogprob>& out);
  bool number(float& out);

 private:
  bool entry(NamedToken& out, std::vector<NamedToken>* top);
  bool alternatives(std::vector<NamedToken>& out);
  bool bytes(std::string& out);

  marshal::JsonCursor& json_;
  marshal::FieldReader& fields_;
  const LogprobLimits limits_;
  size_t tops_ = 0;
};
// The id in "token_id:7".
std::optional<uint32_t> id_in_name(std::string_view name);

// The values of `usage` and of `error`, which are no null. False: what is wrong is said by `fields`, or the cursor.
bool read_usage(marshal::JsonCursor& json, marshal::FieldReader& fields, CompletionChunk& out);
bool read_error(marshal::JsonCursor& json, marshal::FieldReader& fields, CompletionChunk& out);

}  // namespace weir::forward
