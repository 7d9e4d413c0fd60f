// JsonCall: parses one tool call, a JSON object, byte by byte:
//
//   {"name": "…", "arguments": {…}}      "parameters" is another name of "arguments"; other members are skipped
//
// Members may come in any order. The arguments go to the sink unchanged; but of a JSON string its contents, and for
// null the object {}.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/answer_parser.h"

namespace weir::text {

// True for JSON's white space.
inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

class JsonCall {
 public:
  enum class State : uint8_t { kMore, kDone, kInvalid };

  void clear() { *this = {}; }
  // Reads from the `{` to the end of the call, and nothing after it. kInvalid: this is not a call; unless begun(),
  // raw() is the text that was read.
  State read(AnswerFeed& feed, AnswerSink& sink);
  // Everything that was read, until begun().
  const std::string& raw() const { return raw_; }
  // True once the name is known and the sink has been given the call.
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
  void add_arguments(std::string_view text, AnswerSink& sink);

  Phase phase_ = Phase::kOpen;
  Member member_ = Member::kOther;
  JsonValueEnd value_end_;
  std::string key_, value_, name_, held_, raw_;
  bool begun_ = false, has_arguments_ = false, verbatim_ = false;
  bool others_ = false;  // it has members that no call has
};

}  // namespace weir::text
