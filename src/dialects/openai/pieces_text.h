// PiecesText: the text of an answer that consists of pieces, each of which is written in one go when the peer has taken
// those before it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "wire/answer_flow.h"

namespace weir::openai {

class PiecesText final : public wire::TextSource {
 public:
  // `write` appends the piece of that number.
  PiecesText(size_t count, std::function<void(size_t piece, std::string& out)> write)
      : count_(count), write_(std::move(write)) {}

  bool write(std::string& out, size_t target) override {
    while (next_ < count_ && out.size() < target) write_(next_++, out);
    return next_ < count_;
  }
  uint64_t held() const override { return 0; }  // whoever has the pieces says it

 private:
  const size_t count_;
  const std::function<void(size_t, std::string&)> write_;
  size_t next_ = 0;
};

}  // namespace weir::openai
