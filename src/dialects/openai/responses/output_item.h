// Items of a response's output, and their JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dialects/openai/choice_delta.h"
#include "dialects/openai/request.h"

namespace weir::openai::responses {

struct Item {
  enum class Kind : uint8_t { kThoughts, kMessage, kCall, kCustomCall } kind = Kind::kMessage;
  std::string id;
  std::string text;                  // arguments of a call
  std::string logprobs;              // of a message, where they are asked for: entries as a chat has them
  std::string call_id, name;         // of a call, as the model knows it
  const ClientTool* tool = nullptr;  // as the client does, where that differs
  std::string input;                 // of a custom call that is over

  bool calls() const { return kind == Kind::kCall || kind == Kind::kCustomCall; }
};

// The names that an item has in JSON: the prefix of its id, its type, the type of its content part, and its delta
// event.
struct ItemNames {
  std::string_view prefix, type, part, delta;
};
const ItemNames& names_of(const Item& item);

// The name of the called tool, as the client knows it.
std::string_view client_name(const Item& item);

enum class Progress : uint8_t { kBegun, kCut, kDone };

// `,"name":"value"`
void add_string(std::string& out, std::string_view name, std::string_view value);
// The part that holds the item's text, as far as it has come.
void write_part(std::string& out, const Item& item, std::string_view text);
void write_item(std::string& out, const Item& item, Progress progress);
// The value of `usage`.
void write_response_usage(std::string& out, const Usage& usage);

}  // namespace weir::openai::responses
