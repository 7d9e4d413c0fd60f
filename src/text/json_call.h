// JsonCall: one call of a tool as a JSON object, read as it comes:
//
//   {"name": "…", "arguments": {…}}      also "parameters"; members in any order, others are passed over
// The arguments are given out as they stand. Where they are a JSON string, what it says is given out; null is {}.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/answer_parser.h"

namespace weir::text {

// JSON's white space.
inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// The end of a JSON value, found byte by byte. Whether it is right JSON is not looked at.
class JsonValueEnd {
 public:
  enum class Place : uint8_t { kInside, kLast, kBehind };  // of a byte: kLast ends the value, kBehind is no part of it
  Place push(char c);
  void clear() { *this = {}; }

 private:
  size_t depth_ = 0;
  bool begun_ = false, string_ = false, escaped_ = false;
};

class JsonCall {
 public:
  enum class State : uint8_t { kMore, kDone, kWrong };

  void clear() { *this = {}; }
  // Reads from its `{` on, no further than its end. kWrong: it is no call, and `raw()` is a text again.
  State read(AnswerFeed& feed, AnswerSink& sink);
  // All that was read, while no call has begun.
  const std::string& raw() const { return raw_; }
  bool begun() const { return begun_; }
  // While no call has begun: its members so far are a call's, so that a text that ends here is a call cut off.
  bool may_be_call() const;

 private:
  enum class Phase : uint8_t { kOpen, kMember, kKey, kColon, kValue, kComma };
  enum class Member : uint8_t { kOther, kName, kArguments };

  State push(char c, AnswerSink& sink, bool& again);
  State value(char c, AnswerSink& sink, bool& again);
  void end_key();
  State end_value(AnswerSink& sink);
  State end(AnswerSink& sink);
  void give(std::string_view arguments, AnswerSink& sink);

  Phase phase_ = Phase::kOpen;
  Member member_ = Member::kOther;
  JsonValueEnd value_end_;
  std::string key_, value_, name_, held_, raw_;
  bool begun_ = false, has_arguments_ = false, verbatim_ = false;
  bool others_ = false;  // it has members that no call has
};

}  // namespace weir::text
