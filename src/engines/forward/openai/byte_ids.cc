#include "engines/forward/openai/byte_ids.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "marshal/json_cursor.h"

namespace weir::forward::byte_ids {
namespace {

using base::Code;
using base::failure;

constexpr size_t kLongestCharacter = 4;  // bytes

// All bytes, one after the other.
constexpr auto kAll = [] {
  std::array<char, 256> out{};
  for (int i = 0; i < 256; ++i) out[size_t(i)] = char(i);
  return out;
}();

// How many of the first `size` ids end with a whole character.
size_t whole_characters(std::span<const uint32_t> ids, size_t size) {
  for (size_t i = 0; i < kLongestCharacter && size > 0 && size < ids.size() && (ids[size] & 0xc0) == 0x80; ++i) --size;
  return size;
}

class Decoder final : public msg::TokenDecoder {
 public:
  void step(uint32_t id, std::string& out) override {
    if (!is_byte(id)) return;
    held_ += char(id - kBytes);
    if (held_.size() >= kLongestCharacter || marshal::valid_utf8(held_)) finish(out);
  }
  void finish(std::string& out) override {
    out += marshal::valid_utf8(held_) ? held_ : "\xef\xbf\xbd";
    held_.clear();
  }

 private:
  std::string held_;
};

class Codec final : public msg::TextCodec {
 public:
  std::vector<uint32_t> encode(std::string_view text, msg::AddSpecial, const std::atomic<bool>*) const override {
    std::vector<uint32_t> out(text.size());
    std::transform(text.begin(), text.end(), out.begin(), [](char c) { return kBytes + uint8_t(c); });
    return out;
  }
  msg::TokenPair join_pair(std::span<const uint32_t> first, std::span<const uint32_t> second,
                           size_t most) const override {
    const size_t room = std::max<size_t>(most, 1) - 1;
    size_t a = first.size(), b = second.size();
    if (a + b > room) {
      size_t over = a + b - room;
      const size_t longer = std::min(over, std::max(a, b) - std::min(a, b));
      (a > b ? a : b) -= longer, over -= longer;
      a -= over / 2, b -= over - over / 2;
    }
    first = first.first(whole_characters(first, a)), second = second.first(whole_characters(second, b));
    msg::TokenPair out;
    out.ids.reserve(first.size() + second.size() + 1);
    out.ids.assign(first.begin(), first.end());
    out.ids.push_back(kPairMark);
    out.ids.insert(out.ids.end(), second.begin(), second.end());
    return out;
  }
  size_t pair_size(size_t first, size_t second) const override { return first + second + 1; }
  std::string decode(std::span<const uint32_t> ids, msg::SkipSpecial) const override {
    std::string out;
    for (uint32_t id : ids)
      if (is_byte(id)) out += char(id - kBytes);
    return out;
  }
  std::unique_ptr<msg::TokenDecoder> decoder(msg::SkipSpecial) const override { return std::make_unique<Decoder>(); }
  std::string_view piece(uint32_t id) const override { return bytes(id); }
  std::string_view bytes(uint32_t id) const override {
    return is_byte(id) ? std::string_view(&kAll[id - kBytes], 1) : std::string_view();
  }
  bool special(uint32_t id) const override { return id == kPairMark; }

  bool has_chat_template() const override { return false; }
  base::Result<std::string> render_chat(const nlohmann::ordered_json&, const nlohmann::ordered_json&,
                                        const msg::ChatOptions&) const override {
    return failure(Code::kUnimplemented, "the model has no chat template");
  }
  msg::AnswerFormat answer_format() const override { return {}; }
  base::Result<std::shared_ptr<const msg::TokenGrammar>> compile(const msg::StructuredOutput&,
                                                                 const std::atomic<bool>*) const override {
    return failure(Code::kUnimplemented, "the model makes no text");
  }
  std::shared_ptr<const msg::TokenGrammar> find_compiled(const msg::StructuredOutput&) const override {
    return nullptr;
  }
};

}  // namespace

std::shared_ptr<const msg::TextCodec> make_codec() { return std::make_shared<Codec>(); }

}  // namespace weir::forward::byte_ids
