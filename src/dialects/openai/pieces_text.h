// PiecesText: the text of an answer that consists of pieces, each of which is made when the peer has taken those before
// it. A piece may be tens of MB long, so it is not copied: SplicedText gives it out part by part.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/answer_flow.h"

namespace weir::openai {

// A text whose long parts stay where they are until they are taken.
class SplicedText {
 public:
  std::string own;  // all but those parts

  // `part` comes behind what `own` has now. It must stay as it is until it has been taken.
  void splice(std::string_view part) { parts_.push_back({own.size(), part}); }
  // Appends to `out` until that has `target` bytes. True: there is more.
  bool take(std::string& out, size_t target) {
    for (; next_ < parts_.size(); ++next_, part_taken_ = 0) {
      const Part& part = parts_[next_];
      if (take_of(std::string_view(own).substr(0, part.at), own_taken_, out, target)) return true;
      if (take_of(part.text, part_taken_, out, target)) return true;
    }
    return take_of(own, own_taken_, out, target);
  }
  // All of it.
  void append_to(std::string& out) {
    size_t size = own.size();
    for (const Part& part : parts_) size += part.text.size();
    out.reserve(out.size() + size);
    (void)take(out, SIZE_MAX);
  }

 private:
  struct Part {
    size_t at;  // in `own`
    std::string_view text;
  };
  static bool take_of(std::string_view from, size_t& taken, std::string& out, size_t target) {
    const std::string_view some = from.substr(taken, target - std::min(target, out.size()));
    out += some;
    taken += some.size();
    return taken < from.size();
  }

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
