#include "text/answer_parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/json_call.h"

namespace weir::text {
namespace {

constexpr std::array<std::string_view, 1> kEndOfThoughts{"</think>"};
constexpr std::string_view kThoughts = "<think>";

using MarkerList = std::span<const std::string_view>;
constexpr std::array<std::string_view, 2> kOfThoughts{kThoughts, kEndOfThoughts[0]},
    kOfHermes{"<tool_call>", "</tool_call>"}, kOfPhi{"<|tool_call|>", "<|/tool_call|>"},
    kOfPythonic{"<|python_start|>", "<|python_end|>"};
constexpr std::array<std::string_view, 1> kOfLlama{"<|python_tag|>"};
constexpr std::array<std::string_view, 3> kOfMistral{"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"};
constexpr std::array<std::string_view, 5> kOfDeepSeek{"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>",
                                                      "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"};
constexpr std::array<std::string_view, 7> kOfHarmony{"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>",
                                                     "<|end|>",   "<|call|>",    "<|return|>"};

MarkerList markers_of(msg::ToolFormat format) {
  using Format = msg::ToolFormat;
  switch (format) {
    case Format::kHermes: return kOfHermes;
    case Format::kLlama: return kOfLlama;
    case Format::kMistral: return kOfMistral;
    case Format::kDeepSeek: return kOfDeepSeek;
    case Format::kPhi: return kOfPhi;
    case Format::kHarmony: return kOfHarmony;
    case Format::kPythonic: return kOfPythonic;
    case Format::kFunctionary:
    case Format::kFunctionTags:
    case Format::kNone: break;
  }
  return {};
}

bool has_marker(MarkerList markers, std::string_view text) {
  return std::find(markers.begin(), markers.end(), text) != markers.end();
}

// Where the first marker begins, or what may become one; the text's end: there is none.
size_t find_marker(const AnswerFeed& feed, std::span<const std::string_view> markers, std::string_view& found) {
  const std::string_view text = feed.text;
  for (size_t at = 0; at < text.size(); ++at)
    for (std::string_view marker : markers) {
      if (text[at] != marker[0]) continue;
      const std::string_view rest = text.substr(at);
      if (rest.starts_with(marker)) return found = marker, at;
      if (!feed.last && marker.starts_with(rest)) return at;
    }
  return text.size();
}

}  // namespace

bool reads_marker(msg::AnswerFormat format, std::string_view special) {
  return has_marker(markers_of(format.tools), special) || (format.thinks && has_marker(kOfThoughts, special));
}

AnswerParser::AnswerParser(Options options)
    : options_(options), syntax_(make_call_syntax(options.format.tools)), trims_(options.thinking) {
  if (options.thinking && options.format.tools != msg::ToolFormat::kHarmony) state_ = State::kThoughts;
}
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser::~AnswerParser() = default;

void AnswerParser::push(std::string_view text, AnswerPieces& out) {
  held_ += text;
  run(false, out);
}

void AnswerParser::finish(AnswerPieces& out) {
  run(true, out);
  if (calls_.count == 0 && state_ == State::kText) out.content += space_;
  space_.clear();
}

void AnswerParser::run(bool last, AnswerPieces& out) {
  AnswerFeed feed{held_, last};
  while (step(feed, out)) {
  }
  held_.erase(0, held_.size() - feed.text.size());
}

// False: it needs more text.
bool AnswerParser::step(AnswerFeed& feed, AnswerPieces& out) {
  switch (state_) {
    case State::kStart: return start(feed);
    case State::kThoughts: return read_until(feed, kEndOfThoughts, State::kText, out);
    case State::kCalls: return read_calls(feed, out);
    case State::kText: break;
  }
  if (!syntax_) return read_until(feed, {}, State::kText, out);
  return read_until(feed, syntax_->markers(), State::kCalls, out);
}

// The first byte that is no white space says whether thoughts or calls begin.
bool AnswerParser::start(AnswerFeed& feed) {
  AnswerFeed after = feed;
  after.skip_space();
  if (after.text.empty() && !feed.last) return false;
  if (options_.format.thinks) {
    const auto match = after.match(kThoughts);
    if (match == AnswerFeed::Match::kMore) return false;
    if (match == AnswerFeed::Match::kYes) {
      feed = after;
      trims_ = true;
      return state_ = State::kThoughts, true;
    }
  }
  if (syntax_ && !after.text.empty() && syntax_->begins(after.text[0])) {
    syntax_->begin();
    return state_ = State::kCalls, true;
  }
  return state_ = State::kText, true;
}

bool AnswerParser::read_calls(AnswerFeed& feed, AnswerPieces& out) {
  AnswerSink sink(out, calls_);
  const size_t before = feed.text.size();
  const auto step = syntax_->read(feed, sink);
  trims_ = calls_.count > 0;
  if (const std::string text = sink.take_content(); !text.empty()) add(text, out);
  if (step == CallSyntax::Step::kMore) return feed.text.size() < before && !feed.text.empty();
  state_ = State::kText;
  return true;
}

bool AnswerParser::read_until(AnswerFeed& feed, std::span<const std::string_view> markers, State then,
                              AnswerPieces& out) {
  std::string_view marker;
  const size_t at = find_marker(feed, markers, marker);
  add(feed.text.substr(0, at), out);
  feed.skip(at);
  if (marker.empty()) return false;
  feed.skip(marker.size());
  space_.clear();
  trims_ = true;
  state_ = then;
  if (then == State::kCalls) syntax_->begin();
  // Behind thoughts an answer may begin with a call that has no marker.
  if (then == State::kText) state_ = State::kStart;
  return true;
}

// White space is held back: what follows says whether it belongs to the text.
void AnswerParser::add(std::string_view text, AnswerPieces& out) {
  std::string& to = state_ == State::kThoughts ? out.reasoning : out.content;
  if (trims_) {
    while (!text.empty() && is_space(text[0])) text.remove_prefix(1);
    if (text.empty()) return;
    trims_ = false;
  }
  size_t end = text.size();
  while (end > 0 && is_space(text[end - 1])) --end;
  if (end > 0) {
    to += space_;
    to += text.substr(0, end);
    space_.clear();
  }
  space_ += text.substr(end);
}

}  // namespace weir::text
