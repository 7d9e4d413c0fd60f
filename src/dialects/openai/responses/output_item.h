// Items of a response's output, and the JSON of both.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dialects/openai/choice_delta.h"
#include "dialects/openai/json_elements.h"
#include "dialects/openai/pieces_text.h"
#include "dialects/openai/request.h"

namespace weir::openai::responses {

struct Item {
  enum class Kind : uint8_t { kThoughts, kMessage, kCall, kCustomCall } kind = Kind::kMessage;
  std::string id;
  std::string text;                  // arguments of a call
  JsonElements logprobs;             // of a message, where they are asked for: entries as a chat has them
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
// The same, and what follows, spliced.
void add_string(SplicedText& out, std::string_view name, std::string_view value);
// The part that holds the item's text, as far as it has come: `text` is all of it or empty.
void write_part(SplicedText& out, const Item& item, std::string_view text);
void write_item(SplicedText& out, const Item& item, Progress progress);
// The items as one message of the assistant, in JSON.
std::string assistant_turn(std::span<const Item> items);

// A response as it is told. What it refers to is borrowed.
struct ResponseView {
  std::string_view id, model;
  std::string_view echoed;  // members that repeat the request's, without braces
  int64_t created = 0, now = 0;
  std::string_view status;
  std::string_view error;  // why it failed
  bool filtered = false;   // why it is incomplete
  std::span<const Item> items;
  Progress last = Progress::kDone;  // of the last of them
  Usage usage;

  // Its JSON has a piece for each item, and one behind them.
  size_t pieces() const { return items.size() + 1; }
  void write(size_t piece, SplicedText& out) const;
  std::string json() const;

 private:
  void write_head(SplicedText& out) const;
};
// The value of `usage`.
void write_response_usage(std::string& out, const Usage& usage);

}  // namespace weir::openai::responses
