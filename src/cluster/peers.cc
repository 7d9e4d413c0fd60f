#include "cluster/peers.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/encoding.h"
#include "cluster/node.h"

namespace weir::cluster {
namespace {

using base::Code;
using What = PeerRequest::What;

constexpr std::pair<std::string_view, What> kAsked[] = {{"promise", What::kPromise},
                                                        {"read", What::kRead},
                                                        {"write", What::kWrite},
                                                        {"erase", What::kErase},
                                                        {"leave", What::kLeave}};
constexpr unsigned kLastCode = 16;  // of gRPC
constexpr size_t kLongestWhy = 500;

// "word rest": cut off at the space, or where the line ends.
std::string_view cut_word(std::string_view& line) {
  const size_t space = std::min(line.find(' '), line.size());
  const std::string_view out = line.substr(0, space);
  line.remove_prefix(std::min(space + 1, line.size()));
  return out;
}
std::string_view cut_line(std::string_view& text) {
  const size_t end = text.find('\n');
  if (end == text.npos) return {};
  const std::string_view out = text.substr(0, end);
  text.remove_prefix(end + 1);
  return out;
}
bool number_in(std::string_view text, uint64_t& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

std::string write_request(const PeerRequest& request) {
  std::string out;
  for (const auto& [word, what] : kAsked)
    if (what == request.what) out = word;
  return out + ' ' + request.key + ' ' + std::to_string(request.number) + '\n' + request.value;
}

base::Result<PeerRequest> read_request(std::string_view text) {
  const base::Status wrong = base::invalid("no request of another node");
  if (text.size() > kLargestPeerMessage) return wrong;
  std::string_view line = cut_line(text);
  const std::string_view word = cut_word(line);
  const auto* asked = std::find_if(std::begin(kAsked), std::end(kAsked), [&](auto& one) { return one.first == word; });
  if (asked == std::end(kAsked)) return wrong;
  PeerRequest out;
  out.what = asked->second;
  out.key = cut_word(line);
  if (!good_name(out.key) || !number_in(line, out.number)) return wrong;
  if (out.what != What::kWrite && out.what != What::kLeave && !text.empty()) return wrong;
  out.value = text;
  return out;
}

std::string write_answer(const PeerAnswer& answer) {
  if (!answer)
    return "no " + std::to_string(unsigned(answer.error().code)) + ' ' +
           base::presentable(answer.error().text, kLongestWhy) + '\n';
  std::string out = "ok " + std::to_string(answer->revision);
  if (answer->key.empty()) return out + '\n';
  return answer->erased ? out + " mark\n" : out + " entry\n" + answer->value;
}

PeerAnswer read_answer(std::string_view text) {
  const base::Status wrong = base::failure(Code::kUnavailable, "the node's answer cannot be read");
  if (text.size() > kLargestPeerMessage) return wrong;
  std::string_view line = cut_line(text);
  const std::string_view word = cut_word(line), number = cut_word(line);
  uint64_t value = 0;
  if (!number_in(number, value)) return wrong;
  if (word == "no" && value > 0 && value <= kLastCode)
    return base::failure(Code(value), base::presentable(line, kLongestWhy));
  if (word != "ok" || (line != "" && line != "entry" && line != "mark")) return wrong;
  Bucket::KeyValue out;
  out.revision = value, out.erased = line == "mark";
  if (line == "entry") out.value = text;
  return out;
}

}  // namespace weir::cluster
