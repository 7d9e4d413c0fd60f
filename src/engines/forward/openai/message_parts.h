// The parts that messages of completions and of chats have in common (message.h, chat_message.h). Pure; any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

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
  // Members as they are written, without braces.
  void raw(std::string_view members) {
    if (out_.size() > 1) out_ += ',';
    out_ += members;
  }
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

 private:
  std::string out_;
};

// `draws`: random numbers that the text has taken already.
void write_sampling(MessageWriter& out, const msg::Sampling& sampling, uint64_t draws);
// The form of the text: JSON as OpenAI's response_format, the others as vLLM's structured_outputs.
void write_form(MessageWriter& out, const msg::StructuredOutput& form);

// The values of `usage` and of `error`, which are no null. False: what is wrong is said by `fields`, or the cursor.
bool read_usage(marshal::JsonCursor& json, marshal::FieldReader& fields, CompletionChunk& out);
bool read_error(marshal::JsonCursor& json, marshal::FieldReader& fields, CompletionChunk& out);

}  // namespace weir::forward
