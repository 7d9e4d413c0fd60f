// PiecesText: the text of an answer that consists of pieces, each of which is made when the peer has taken those before
// it. A piece may be tens of MB long, so it is not copied: SplicedText gives it out part by part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dialects/openai/json_elements.h"
#include "wire/answer_flow.h"

namespace weir::openai {

// A text whose long parts stay where they are, and as they are, until they are taken.
class SplicedText {
 public:
  std::string own;  // all but those parts

  // These come behind what `own` has now: JSON as it stands, or `1,2,3`. Until it has been taken it must not change.
  void splice(std::string_view json) { splice(json, Form::kJson); }
  void splice(const JsonElements& elements) {
    for (const std::string& block : elements.blocks()) splice(block);
  }
  void splice_ids(std::span<const uint32_t> ids) {
    splice({reinterpret_cast<const char*>(ids.data()), ids.size_bytes()}, Form::kIds);
  }
  // A JSON string of that text; the second is without its quotes.
  void splice_string(std::string_view text) {
    own += '"';
    splice_text(text);
    own += '"';
  }
  void splice_text(std::string_view text) { splice(text, Form::kText); }
  // Appends to `out` until that has `target` bytes, or a few more. True: there is more.
  bool take(std::string& out, size_t target);
  // All of it.
  void append_to(std::string& out);

 private:
  enum class Form : uint8_t { kJson, kText, kIds };
  struct Part {
    size_t at;  // in `own`
    Form form;
    std::string_view data;
  };
  void splice(std::string_view data, Form form);
  // Appends data to `out`, from `taken` on, which follows.
  static void write(Form form, std::string_view data, size_t& taken, std::string& out, size_t target);

  std::vector<Part> parts_;
  size_t next_ = 0, own_taken_ = 0, part_taken_ = 0;
};

class PiecesText final : public wire::TextSource {
 public:
  // `write` appends the piece of that number.
  PiecesText(size_t count, std::function<void(size_t piece, SplicedText& out)> write)
      : count_(count), write_(std::move(write)) {}

  bool write(std::string& out, size_t target) override {
    while (!piece_.take(out, target)) {
      if (next_ == count_) return false;
      piece_ = {};
      write_(next_++, piece_);
    }
    return true;
  }
  uint64_t held() const override { return 0; }  // whoever has the pieces says it

 private:
  const size_t count_;
  const std::function<void(size_t, SplicedText&)> write_;
  SplicedText piece_;
  size_t next_ = 0;
};

}  // namespace weir::openai
