#include "text/json_call.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace weir::text {
namespace {

constexpr size_t kMostName = 256, kMostKey = 64;

// The members that a call may have, as JSON writes their names.
constexpr std::array<std::string_view, 5> kOfCalls{R"("name")", R"("arguments")", R"("parameters")", R"("type")",
                                                   R"("id")"};

// Reads the contents of a JSON string. False: `text` is not one.
bool read_string(const std::string& text, std::string& out) {
  auto value = nlohmann::json::parse(text, nullptr, false);
  if (!value.is_string()) return false;
  out = value.get<std::string>();
  return true;
}

}  // namespace

JsonValueEnd::Place JsonValueEnd::push(char c) {
  if (string_) {
    if (std::exchange(escaped_, false)) return Place::kInside;
    escaped_ = c == '\\';
    if (c != '"') return Place::kInside;
    string_ = false;
    return depth_ == 0 ? Place::kLast : Place::kInside;
  }
  if (c == '"') {
    if (begun_ && depth_ == 0) return Place::kBehind;  // the value was a number or a word
    begun_ = string_ = true;
    return Place::kInside;
  }
  if (c == '{' || c == '[') {
    if (begun_ && depth_ == 0) return Place::kBehind;
    begun_ = true, ++depth_;
    return Place::kInside;
  }
  if (c == '}' || c == ']') {
    if (depth_ == 0) return Place::kBehind;
    return --depth_ == 0 ? Place::kLast : Place::kInside;
  }
  if (depth_ == 0 && (c == ',' || is_space(c))) return Place::kBehind;
  begun_ = true;
  return Place::kInside;
}

JsonCall::State JsonCall::read(AnswerFeed& feed, AnswerSink& sink) {
  while (!feed.text.empty()) {
    const char c = feed.text[0];
    bool again = false;
    const State state = push(c, sink, again);
    if (again && state == State::kMore) continue;
    feed.skip(1);
    if (!begun_) raw_ += c;
    if (begun_ && !raw_.empty()) raw_.clear();
    if (state != State::kMore) return state;
    if (raw_.size() > CallSyntax::kMostHeld || value_.size() > CallSyntax::kMostHeld) return State::kInvalid;
  }
  return State::kMore;
}

// Sets `again` if the byte was not taken and has to be pushed again.
JsonCall::State JsonCall::push(char c, AnswerSink& sink, bool& again) {
  if (phase_ != Phase::kKey && phase_ != Phase::kValue && is_space(c)) return State::kMore;
  switch (phase_) {
    case Phase::kOpen: return phase_ = Phase::kMember, c == '{' ? State::kMore : State::kInvalid;
    case Phase::kMember:
      if (c == '}') return end(sink);
      value_end_.clear(), key_ = c;
      (void)value_end_.push(c);
      return phase_ = Phase::kKey, c == '"' ? State::kMore : State::kInvalid;
    case Phase::kKey:
      key_ += c;
      if (key_.size() > kMostKey) return State::kInvalid;
      if (value_end_.push(c) == JsonValueEnd::Place::kLast) end_key();
      return State::kMore;
    case Phase::kColon:
      value_end_.clear(), value_.clear(), verbatim_ = false;
      return phase_ = Phase::kValue, c == ':' ? State::kMore : State::kInvalid;
    case Phase::kValue: return value(c, sink, again);
    case Phase::kComma: break;
  }
  if (c == '}') return end(sink);
  return phase_ = Phase::kMember, c == ',' ? State::kMore : State::kInvalid;
}

void JsonCall::end_key() {
  std::string key;
  others_ = others_ || std::find(kOfCalls.begin(), kOfCalls.end(), key_) == kOfCalls.end();
  member_ = Member::kOther;
  phase_ = Phase::kColon;
  if (!read_string(key_, key)) return;
  if (key == "name" && name_.empty()) member_ = Member::kName;
  if ((key == "arguments" || key == "parameters") && !has_arguments_) member_ = Member::kArguments;
}

bool JsonCall::may_be_call() const {
  if (phase_ != Phase::kKey) return !others_;
  return !others_ && std::any_of(kOfCalls.begin(), kOfCalls.end(), [&](auto key) { return key.starts_with(key_); });
}

JsonCall::State JsonCall::value(char c, AnswerSink& sink, bool& again) {
  if (value_.empty() && !verbatim_ && is_space(c)) return State::kMore;
  const auto place = value_end_.push(c);
  if (place == JsonValueEnd::Place::kBehind) {
    again = true;
    return value_.empty() && !verbatim_ ? State::kInvalid : end_value(sink);
  }
  // Arguments that are an object or a list go to the sink at once, byte by byte.
  if (member_ == Member::kArguments && value_.empty() && (c == '{' || c == '[')) verbatim_ = true;
  if (verbatim_)
    add_arguments({&c, 1}, sink);
  else if (member_ != Member::kOther || value_.empty())
    value_ += c;
  return place == JsonValueEnd::Place::kLast ? end_value(sink) : State::kMore;
}

JsonCall::State JsonCall::end_value(AnswerSink& sink) {
  phase_ = Phase::kComma;
  if (member_ == Member::kName) {
    if (!read_string(value_, name_) || name_.empty() || name_.size() > kMostName) return State::kInvalid;
    begun_ = true;
    sink.begin_call(name_);
    sink.arguments(std::exchange(held_, {}));
  } else if (member_ == Member::kArguments) {
    has_arguments_ = true;
    std::string said;
    if (!verbatim_) add_arguments(value_ == "null" ? "{}" : read_string(value_, said) ? said : value_, sink);
  }
  return State::kMore;
}

JsonCall::State JsonCall::end(AnswerSink& sink) {
  if (!begun_) return State::kInvalid;
  if (!has_arguments_) sink.arguments("{}");
  sink.end_call();
  return State::kDone;
}

void JsonCall::add_arguments(std::string_view text, AnswerSink& sink) {
  if (begun_)
    sink.arguments(text);
  else
    held_ += text;
}

}  // namespace weir::text
