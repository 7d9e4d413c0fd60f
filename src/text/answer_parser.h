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

// Takes what is found. Pieces of one call that follow each other are one.
class AnswerSink {
 public:
  explicit AnswerSink(AnswerPieces& out, uint32_t& calls) : out_(out), calls_(calls) {}
  void begin_call(std::string name) { out_.calls.push_back({calls_++, std::move(name), {}}); }
  void arguments(std::string_view text) {
    if (text.empty()) return;
    if (out_.calls.empty() || out_.calls.back().index + 1 != calls_) out_.calls.push_back({calls_ - 1, {}, {}});
    out_.calls.back().arguments += text;
  }
  void content(std::string_view text) { returned_ += text; }
  void reasoning(std::string_view text) { out_.reasoning += text; }
  // Text that was no call after all.
  std::string take_content() { return std::exchange(returned_, {}); }

 private:
  AnswerPieces& out_;
  uint32_t& calls_;
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
  uint32_t calls() const { return calls_; }  // that have begun
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
  uint32_t calls_ = 0;
};

}  // namespace weir::text
