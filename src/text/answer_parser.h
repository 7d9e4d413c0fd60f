// AnswerParser: what a model writes, taken apart while it comes: thoughts, text, calls of tools in the model's own
// format (msg::ToolFormat). However the text is split into pushes, the parts are the same.
//
// A text that is not what its format says stays text, as far as nothing of a call has been given out; a call that has
// begun keeps what was read of it, and one that ends before its name is known is left out. Memory: a call until its
// name is known (kMostHeld bytes), else a few bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msg/text_codec.h"

namespace weir::text {

// A call's beginning, or more of its arguments (JSON, which the model may have got wrong).
struct ToolCallPiece {
  uint32_t index = 0;  // of the answer's calls
  std::string name;    // where it begins; else empty
  std::string arguments;
};

struct AnswerPieces {
  std::string content, reasoning;
  std::vector<ToolCallPiece> calls;

  bool empty() const { return content.empty() && reasoning.empty() && calls.empty(); }
};

// Finds the end of a JSON value byte by byte. It does not check that the value is valid JSON.
class JsonValueEnd {
 public:
  // Where a byte is: kLast is the value's last byte; kBehind comes after the value, which ended one byte before.
  enum class Place : uint8_t { kInside, kLast, kBehind };
  Place push(char c);
  void clear() { *this = {}; }

 private:
  size_t depth_ = 0;
  bool begun_ = false, string_ = false, escaped_ = false;
};

// The calls of an answer so far.
struct FoundCalls {
  uint32_t count = 0;
  bool open = false;  // the last one's arguments have not come to their end
  JsonValueEnd end;   // of them

  void begin() { ++count, open = true, end.clear(); }
  void arguments(std::string_view text) {
    for (char c : text) open = open && end.push(c) == JsonValueEnd::Place::kInside;
  }
};

// Takes what is found. Pieces of one call that follow each other are one.
class AnswerSink {
 public:
  AnswerSink(AnswerPieces& out, FoundCalls& calls) : out_(out), calls_(calls) {}
  void begin_call(std::string name) {
    out_.calls.push_back({calls_.count, std::move(name), {}});
    calls_.begin();
  }
  void arguments(std::string_view text) {
    if (text.empty()) return;
    if (out_.calls.empty() || out_.calls.back().index + 1 != calls_.count)
      out_.calls.push_back({calls_.count - 1, {}, {}});
    out_.calls.back().arguments += text;
    calls_.arguments(text);
  }
  // Behind arguments that may be no JSON, or none: their end cannot be told from them.
  void end_call() { calls_.open = false; }
  void content(std::string_view text) { returned_ += text; }
  void reasoning(std::string_view text) { out_.reasoning += text; }
  // Text that was no call after all.
  std::string take_content() { return std::exchange(returned_, {}); }

 private:
  AnswerPieces& out_;
  FoundCalls& calls_;
  std::string returned_;
};

// The text that is there to be read; `last`: no more will come.
struct AnswerFeed {
  std::string_view text;
  bool last = false;

  void skip(size_t bytes) { text.remove_prefix(bytes); }
  bool take(char c) {
    if (!text.starts_with(c)) return false;
    skip(1);
    return true;
  }
  void skip_space() {
    while (!text.empty() && (text[0] == ' ' || text[0] == '\n' || text[0] == '\r' || text[0] == '\t')) skip(1);
  }
  enum class Match : uint8_t { kNo, kYes, kMore };
  // Whether it begins with `word`; kMore: as far as it goes. What matches is taken.
  Match match(std::string_view word) {
    if (text.starts_with(word)) return skip(word.size()), Match::kYes;
    return !last && word.starts_with(text) ? Match::kMore : Match::kNo;
  }
};

// How calls are written behind the marker that begins them.
class CallSyntax {
 public:
  enum class Step : uint8_t { kMore, kOver };  // kOver: what follows is text
  static constexpr size_t kMostHeld = size_t(256) << 10;

  virtual ~CallSyntax() = default;
  virtual void begin() = 0;  // behind a marker
  // The texts that begin calls; and whether the answer begins inside of them already, or may at its first byte that is
  // no white space.
  virtual std::span<const std::string_view> markers() const = 0;
  virtual bool begins(char first) const = 0;
  // Reads what it can. After kMore of a last feed it is over.
  virtual Step read(AnswerFeed& feed, AnswerSink& sink) = 0;
};
std::unique_ptr<CallSyntax> make_call_syntax(msg::ToolFormat format);

// Whether a special token of that text is one that the format's parser reads. Others are left out of its text.
bool reads_marker(msg::AnswerFormat format, std::string_view special);

class AnswerParser {
 public:
  struct Options {
    msg::AnswerFormat format;
    bool thinking = false;  // the prompt ends in thoughts that have begun
  };
  explicit AnswerParser(Options options);
  AnswerParser(AnswerParser&&) noexcept;
  ~AnswerParser();

  void push(std::string_view text, AnswerPieces& out);
  void finish(AnswerPieces& out);
  uint32_t calls() const { return calls_.count; }  // that have begun
  // True while the last call's arguments go on: a text that ends here is cut inside a call.
  bool in_call() const { return calls_.open; }
  bool thinks() const { return state_ == State::kThoughts; }

 private:
  enum class State : uint8_t { kStart, kThoughts, kText, kCalls };
  void run(bool last, AnswerPieces& out);
  bool step(AnswerFeed& feed, AnswerPieces& out);
  bool start(AnswerFeed& feed);
  bool read_calls(AnswerFeed& feed, AnswerPieces& out);
  bool read_until(AnswerFeed& feed, std::span<const std::string_view> markers, State then, AnswerPieces& out);
  void add(std::string_view text, AnswerPieces& out);

  const Options options_;
  State state_ = State::kStart;
  std::unique_ptr<CallSyntax> syntax_;  // null: the model calls no tools
  std::string held_;                    // not read yet: it may become a marker
  std::string space_;                   // white space that is dropped if a call or the text's end follows
  bool trims_ = false;                  // white space that comes next is dropped
  FoundCalls calls_;
};

}  // namespace weir::text
