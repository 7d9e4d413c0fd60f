#include "session/session_state.h"

#include <chrono>
#include <utility>

#include "base/encoding.h"
#include "session/state_reader.h"

namespace weir::session {
namespace {

constexpr std::string_view kStateHead = "weir-tokens 1\n";
constexpr size_t kMostImages = 1024;
constexpr int64_t kLongestAge = int64_t(10) * 366 * 24 * 3600;  // seconds

void put_token(std::string& out, uint32_t token) {
  for (int shift = 0; shift < 32; shift += 8) out += char(uint8_t(token >> shift));
}

void read_tokens(StateReader& in, uint64_t count, SessionState& out) {
  const std::string_view bytes = in.bytes("tokens", count * sizeof(uint32_t));
  if (!in.good()) return;
  out.tokens.reserve(count);
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint32_t)) {
    uint32_t token = 0;
    for (size_t i = 0; i < sizeof(uint32_t); ++i) token |= uint32_t(uint8_t(bytes[at + i])) << (8 * i);
    if (token >= out.vocabulary) return in.fail("tokens");
    out.tokens.push_back(token);
  }
}

void read_image(StateReader& in, SessionState& out) {
  msg::Image image;
  image.start = uint32_t(in.number("images", ' ', UINT32_MAX));
  image.end = uint32_t(in.number("images", ' ', out.tokens.size()));
  const uint64_t size = in.number("images", ' ', SessionState::kLargest);
  image.mime = in.word("images", '\n');
  const std::string_view bytes = in.bytes("images", size);
  const uint32_t least = out.images.empty() ? 0 : out.images.back().end;
  if (image.start < least || image.end <= image.start || bytes.empty()) return in.fail("images");
  image.data = base::Bytes::copy_of(bytes);
  out.images.push_back(std::move(image));
}

std::string head_of(const SessionState& state) {
  std::string out(kStateHead);
  put_state_line(out, "tenant", base::percent_encode(state.tenant));
  put_state_line(out, "model", base::percent_encode(state.model) + ' ' + base::percent_encode(state.version));
  put_state_line(out, "vocabulary", std::to_string(state.vocabulary));
  put_state_line(out, "age", std::to_string(std::chrono::duration_cast<std::chrono::seconds>(state.age).count()));
  return out;
}

}  // namespace

std::string write_state(const SessionState& state) {
  std::string out = head_of(state);
  uint64_t size = out.size() + 128 + state.tokens.size() * sizeof(uint32_t);
  for (const auto& image : state.images) size += 128 + image.data.size();
  if (size > SessionState::kLargest || state.images.size() > kMostImages)
    return put_state_line(out, "unkept", std::to_string(size)), out;
  put_state_line(out, "tokens", std::to_string(state.tokens.size()));
  put_state_line(out, "images", std::to_string(state.images.size()));
  out += '\n';
  for (uint32_t token : state.tokens) put_token(out, token);
  for (const auto& image : state.images) {
    for (uint64_t number : {uint64_t(image.start), uint64_t(image.end), uint64_t(image.data.size())})
      out += std::to_string(number) + ' ';
    out.append(base::percent_encode(image.mime)).append("\n").append(image.data.view());
  }
  return out;
}

base::Result<SessionState> read_state(std::string_view text) {
  StateReader in(text);
  SessionState out;
  if (text.size() > SessionState::kLargest) in.fail("length");
  in.skip(kStateHead);
  in.skip("tenant ");
  out.tenant = in.word("tenant", '\n');
  in.skip("model ");
  out.model = in.word("model", ' '), out.version = in.word("version", '\n');
  in.skip("vocabulary ");
  out.vocabulary = uint32_t(in.number("vocabulary", '\n', UINT32_MAX));
  in.skip("age ");
  out.age = std::chrono::seconds(int64_t(in.number("age", '\n', uint64_t(kLongestAge))));
  if (in.has("unkept ")) {
    in.skip("unkept ");
    out.unkept = in.number("length", '\n', UINT64_MAX);
    if (in.good() && (out.unkept == 0 || !in.whole())) in.fail("length");
    return in.good() ? base::Result<SessionState>(std::move(out)) : in.error();
  }
  in.skip("tokens ");
  const uint64_t tokens = in.number("tokens", '\n', SessionState::kLargest / sizeof(uint32_t));
  in.skip("images ");
  const uint64_t images = in.number("images", '\n', kMostImages);
  in.skip("\n");
  if (in.good()) read_tokens(in, tokens, out);
  for (uint64_t i = 0; i < images && in.good(); ++i) read_image(in, out);
  if (in.good() && !in.whole()) in.fail("end");
  return in.good() ? base::Result<SessionState>(std::move(out)) : in.error();
}

}  // namespace weir::session
