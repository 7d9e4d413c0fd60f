// The events of a response's stream that tell of its items, each with its number.
//
// Those that end an item repeat all of it, so they are spliced: a long answer, with the log probabilities of its
// tokens, would hold up the shard if they were written at once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/openai/pieces_text.h"
#include "dialects/openai/responses/output_item.h"

namespace weir::openai::responses {

class StreamEvents {
 public:
  // Borrowed. "The item" is the last of them.
  explicit StreamEvents(const std::vector<Item>& items) : items_(items) {}
  uint64_t count() const { return count_; }  // of the events so far

  // `members`: those behind the event's type and its number.
  void add(std::string& out, std::string_view type, std::string_view members);
  void begin_item(std::string& out);
  // The members that say where in the item something is: `,"output_index":…`
  std::string part_place() const;
  // Long parts of the item are spliced: they must not change until they are written.
  void end_item(SplicedText& out, Progress how);

  // An event whose members are written between these.
  void begin(SplicedText& out, std::string_view type);
  static void end(SplicedText& out) { out.own += "}\n\n"; }

 private:
  std::string place() const;
  std::string opening(std::string_view type);

  const std::vector<Item>& items_;
  uint64_t count_ = 0;
};

}  // namespace weir::openai::responses
