// The formats of msg::ToolFormat. Each reads calls behind a marker, or from the first byte of an answer.
#include <algorithm>
#include <utility>

#include "text/answer_parser.h"
#include "text/json_call.h"
#include "text/python_call.h"

namespace weir::text {
namespace {

using Match = AnswerFeed::Match;
using Format = msg::ToolFormat;
using Markers = std::vector<std::string_view>;
constexpr size_t kMostHeader = 1024;  // bytes between a marker and the arguments

class MarkedSyntax : public CallSyntax {
 public:
  MarkedSyntax(Markers markers, char first) : markers_(std::move(markers)), first_(first) {}
  std::span<const std::string_view> markers() const override { return markers_; }
  bool begins(char first) const override { return first_ != 0 && first == first_; }

 private:
  const std::vector<std::string_view> markers_;
  const char first_;
};

// Calls as JSON objects, with white space, brackets, commas and semicolons between, until `close` or another text.
class JsonCalls final : public MarkedSyntax {
 public:
  JsonCalls(Markers markers, char first, std::string_view close)
      : MarkedSyntax(std::move(markers), first), close_(close) {}
  void begin() override { inside_ = false; }

  Step read(AnswerFeed& feed, AnswerSink& sink) override {
    for (;;) {
      if (!inside_) {
        skip_between(feed);
        if (feed.text.empty()) return Step::kMore;
        if (feed.text[0] != '{') return close(feed);
        call_.clear();
        inside_ = true;
      }
      switch (call_.read(feed, sink)) {
        case JsonCall::State::kMore:
          if (feed.last && !call_.begun() && !call_.may_be_call()) sink.content(call_.raw());
          return Step::kMore;
        case JsonCall::State::kDone: inside_ = false; break;
        case JsonCall::State::kInvalid:
          if (!call_.begun()) sink.content(call_.raw());
          return inside_ = false, Step::kOver;
      }
    }
  }

 private:
  static void skip_between(AnswerFeed& feed) {
    while (!feed.text.empty() && std::string_view(" \n\r\t[],;").find(feed.text[0]) != std::string_view::npos)
      feed.skip(1);
  }
  Step close(AnswerFeed& feed) const {
    if (close_.empty()) return Step::kOver;
    return feed.match(close_) == Match::kMore ? Step::kMore : Step::kOver;
  }

  const std::string_view close_;
  JsonCall call_;
  bool inside_ = false;
};

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \n\r\t";
  const size_t from = text.find_first_not_of(kSpace);
  return from == text.npos ? std::string() : std::string(text.substr(from, text.find_last_not_of(kSpace) - from + 1));
}

// A header that has the name, up to the `{` of the arguments.
class NamedCalls : public MarkedSyntax {
 public:
  using MarkedSyntax::MarkedSyntax;
  void begin() override { phase_ = Phase::kHeader, header_.clear(); }
  Step read(AnswerFeed& feed, AnswerSink& sink) final {
    for (;;) {
      Next next = Next::kGoesOn;
      if (phase_ == Phase::kHeader)
        next = read_header(feed, sink);
      else if (phase_ == Phase::kArguments)
        next = read_arguments(feed, sink);
      else if (next = behind(feed); next == Next::kGoesOn)
        begin();
      if (next == Next::kOver) return Step::kOver;
      if (next == Next::kMore) return Step::kMore;
    }
  }

 protected:
  enum class Next : uint8_t { kGoesOn, kMore, kOver };
  // The name in a header that is whole; empty: it is no call.
  virtual std::string name_in(std::string_view header) const = 0;
  // Whether a header that is not whole yet shows that text comes. It is taken as far as it is no part of that.
  virtual bool is_text(std::string&) const { return false; }
  // In front of a header that has not begun. kOver: there are no more calls.
  virtual Next front(AnswerFeed&) const { return Next::kGoesOn; }
  // Behind the arguments. kGoesOn: another header follows.
  virtual Next behind(AnswerFeed&) const { return Next::kOver; }

 private:
  enum class Phase : uint8_t { kHeader, kArguments, kBehind };

  Next read_header(AnswerFeed& feed, AnswerSink& sink) {
    if (header_.empty())
      if (const Next next = front(feed); next != Next::kGoesOn) return next;
    while (!feed.text.empty() && feed.text[0] != '{') {
      header_ += feed.text[0];
      feed.skip(1);
      if (is_text(header_) || header_.size() > kMostHeader) return give_up(sink);
    }
    if (feed.text.empty()) return feed.last ? give_up(sink) : Next::kMore;
    const std::string name = name_in(header_);
    if (name.empty()) return give_up(sink);
    sink.begin_call(name);
    end_.clear();
    return phase_ = Phase::kArguments, Next::kGoesOn;
  }
  Next give_up(AnswerSink& sink) {
    sink.content(std::exchange(header_, {}));
    return Next::kOver;
  }
  Next read_arguments(AnswerFeed& feed, AnswerSink& sink) {
    for (size_t at = 0; at < feed.text.size(); ++at) {
      if (end_.push(feed.text[at]) != JsonValueEnd::Place::kLast) continue;
      sink.arguments(feed.text.substr(0, at + 1));
      feed.skip(at + 1);
      return phase_ = Phase::kBehind, Next::kGoesOn;
    }
    sink.arguments(feed.text);
    feed.skip(feed.text.size());
    return Next::kMore;
  }

  Phase phase_ = Phase::kHeader;
  std::string header_;
  JsonValueEnd end_;
};

// name{…}, name[ARGS]{…}, name[CALL_ID]id[ARGS]{…}
class MistralNamed final : public NamedCalls {
 public:
  MistralNamed() : NamedCalls({}, 0) {}

 private:
  std::string name_in(std::string_view header) const override {
    return trimmed(header.substr(0, std::min(header.find("[CALL_ID]"), header.find("[ARGS]"))));
  }
};

class MistralCalls final : public MarkedSyntax {
 public:
  MistralCalls() : MarkedSyntax({"[TOOL_CALLS]"}, 0) {}
  void begin() override { chosen_ = nullptr; }
  Step read(AnswerFeed& feed, AnswerSink& sink) override {
    if (!chosen_) {
      feed.skip_space();
      if (feed.text.empty()) return Step::kMore;
      chosen_ = feed.text[0] == '[' || feed.text[0] == '{' ? static_cast<CallSyntax*>(&list_) : &named_;
      chosen_->begin();
    }
    return chosen_->read(feed, sink);
  }

 private:
  JsonCalls list_{{}, 0, {}};
  MistralNamed named_;
  CallSyntax* chosen_ = nullptr;
};

// <｜tool▁call▁begin｜>function<｜tool▁sep｜>name, a block of JSON, <｜tool▁call▁end｜>; or
// <｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}.
class DeepSeekCalls final : public NamedCalls {
 public:
  DeepSeekCalls() : NamedCalls({"<｜tool▁calls▁begin｜>"}, 0) {}

 private:
  Next front(AnswerFeed& feed) const override {
    feed.skip_space();
    const Match end = feed.match("<｜tool▁calls▁end｜>");
    return end == Match::kMore ? Next::kMore : end == Match::kYes ? Next::kOver : Next::kGoesOn;
  }
  std::string name_in(std::string_view header) const override {
    constexpr std::string_view kBegin = "<｜tool▁call▁begin｜>", kSep = "<｜tool▁sep｜>";
    const size_t begin = header.find(kBegin), sep = header.find(kSep);
    if (begin == header.npos || sep == header.npos || sep < begin) return {};
    const std::string behind = trimmed(header.substr(sep + kSep.size()));
    if (behind.empty()) return trimmed(header.substr(begin + kBegin.size(), sep - begin - kBegin.size()));
    return trimmed(std::string_view(behind).substr(0, behind.find('\n')));
  }
  Next behind(AnswerFeed& feed) const override {
    constexpr std::string_view kEnd = "<｜tool▁call▁end｜>";
    while (!feed.text.empty()) {
      const Match end = feed.match(kEnd);
      if (end != Match::kNo) return end == Match::kYes ? Next::kGoesOn : Next::kMore;
      feed.skip(1);
    }
    return Next::kMore;
  }
};

// all\ntext, name\n{…}, with >>> between; the first >>> stands in the prompt.
class FunctionaryCalls final : public NamedCalls {
 public:
  FunctionaryCalls() : NamedCalls({">>>"}, 0) {}
  bool begins(char) const override { return true; }

 private:
  std::string name_in(std::string_view header) const override {
    return header.find('\n') == header.npos ? std::string() : trimmed(header.substr(0, header.find('\n')));
  }
  bool is_text(std::string& header) const override {
    if (header == "all\n") return header.clear(), true;
    return !header.ends_with('\n') && header.find('\n') != header.npos &&
           trimmed(header.substr(header.find('\n'))) != "";
  }
  Next behind(AnswerFeed& feed) const override {
    feed.skip_space();
    const Match next = feed.match(">>>");
    if (feed.text.empty() && next == Match::kNo) return feed.last ? Next::kOver : Next::kMore;
    return next == Match::kYes ? Next::kGoesOn : next == Match::kMore ? Next::kMore : Next::kOver;
  }
};

// <function=name>{…}</function>
class FunctionTagCalls final : public NamedCalls {
 public:
  FunctionTagCalls() : NamedCalls({"<function="}, 0) {}

 private:
  std::string name_in(std::string_view header) const override {
    const size_t end = header.find('>');
    return end == header.npos ? std::string() : trimmed(header.substr(0, end));
  }
  Next behind(AnswerFeed& feed) const override {
    feed.skip_space();
    if (feed.text.empty()) return feed.last ? Next::kOver : Next::kMore;
    return feed.match("</function>") == Match::kMore ? Next::kMore : Next::kOver;
  }
};

// Messages, each <|channel|>name to=recipient<|message|>text<|end|>, with <|start|>assistant between.
class HarmonyMessages final : public MarkedSyntax {
 public:
  HarmonyMessages() : MarkedSyntax({"<|channel|>", "<|start|>"}, '<') {}
  void begin() override { in_body_ = false, header_.clear(); }
  Step read(AnswerFeed& feed, AnswerSink& sink) override {
    while (!feed.text.empty()) {
      const Match match = in_body_ ? match_end(feed) : feed.match("<|message|>");
      if (match == Match::kMore) return Step::kMore;
      if (match == Match::kYes) {
        if (in_body_ && target_ == Target::kCall) end_call(sink);
        in_body_ = !in_body_;
        if (in_body_) open(sink);
        header_.clear();
        continue;
      }
      if (in_body_) {
        give(feed.text.substr(0, 1), sink);
      } else if (header_ += feed.text[0]; header_.size() > kMostHeader) {
        feed.skip(1);
        sink.content(std::exchange(header_, {}));
        return Step::kOver;
      }
      feed.skip(1);
    }
    if (feed.last && !in_body_) sink.content(header_);
    return Step::kMore;
  }

 private:
  enum class Target : uint8_t { kText, kThoughts, kCall };
  static Match match_end(AnswerFeed& feed) {
    Match out = Match::kNo;
    for (std::string_view end : {"<|end|>", "<|call|>", "<|return|>", "<|start|>"})
      if (const Match match = feed.match(end); match == Match::kYes)
        return match;
      else if (match == Match::kMore)
        out = match;
    return out;
  }
  void open(AnswerSink& sink) {
    constexpr std::string_view kTo = "to=functions.";
    some_ = false;
    target_ = header_.find("analysis") != header_.npos ? Target::kThoughts : Target::kText;
    const size_t to = header_.find(kTo);
    if (to == header_.npos) return;
    const std::string_view rest = std::string_view(header_).substr(to + kTo.size());
    const std::string name(rest.substr(0, rest.find_first_of(" <\n")));
    if (name.empty()) return;
    target_ = Target::kCall;
    sink.begin_call(name);
  }
  void end_call(AnswerSink& sink) const {
    if (!some_) sink.arguments("{}");
    sink.end_call();
  }
  void give(std::string_view text, AnswerSink& sink) {
    if (target_ == Target::kThoughts) return sink.reasoning(text);
    if (target_ == Target::kText) return sink.content(text);
    some_ = true;
    sink.arguments(text);
  }

  bool in_body_ = false, some_ = false;
  Target target_ = Target::kText;
  std::string header_;
};

// [name(argument=value), …]: known when the list ends. A model that is made to call tools writes them as Llama 3 does.
class PythonicCalls final : public MarkedSyntax {
 public:
  PythonicCalls() : MarkedSyntax({"<|python_start|>"}, 0), json_({}, 0, {}) {}
  bool begins(char first) const override { return first == '[' || first == '{'; }
  void begin() override { list_.clear(), end_.clear(), as_json_ = whole_ = false, json_.begin(); }
  Step read(AnswerFeed& feed, AnswerSink& sink) override {
    if (as_json_) return json_.read(feed, sink);
    if (list_.empty()) feed.skip_space();
    if (list_.empty() && feed.text.starts_with('{')) return as_json_ = true, json_.read(feed, sink);
    while (!feed.text.empty()) {
      if (whole_) return feed.match("<|python_end|>") == Match::kMore ? Step::kMore : Step::kOver;
      if (list_.empty() && feed.text[0] != '[') return Step::kOver;
      const char c = feed.text[0];
      list_ += c;
      feed.skip(1);
      whole_ = end_.push(c);
      if (!whole_ && list_.size() <= kMostHeld) continue;
      if (whole_ && read_python_calls(list_, sink)) continue;
      sink.content(list_);
      return Step::kOver;
    }
    if (feed.last && !whole_) sink.content(list_);
    return Step::kMore;
  }

 private:
  JsonCalls json_;
  PythonListEnd end_;
  std::string list_;
  bool as_json_ = false, whole_ = false;
};

}  // namespace

std::unique_ptr<CallSyntax> make_call_syntax(Format format) {
  switch (format) {
    case Format::kHermes: return std::make_unique<JsonCalls>(Markers{"<tool_call>"}, 0, "</tool_call>");
    case Format::kLlama: return std::make_unique<JsonCalls>(Markers{"<|python_tag|>"}, '{', "");
    case Format::kPhi: return std::make_unique<JsonCalls>(Markers{"functools[", "<|tool_call|>"}, 0, "<|/tool_call|>");
    case Format::kMistral: return std::make_unique<MistralCalls>();
    case Format::kDeepSeek: return std::make_unique<DeepSeekCalls>();
    case Format::kFunctionary: return std::make_unique<FunctionaryCalls>();
    case Format::kFunctionTags: return std::make_unique<FunctionTagCalls>();
    case Format::kHarmony: return std::make_unique<HarmonyMessages>();
    case Format::kPythonic: return std::make_unique<PythonicCalls>();
    case Format::kNone: break;
  }
  return nullptr;
}

}  // namespace weir::text
