#include "wire/h1_gate.h"

#include <array>
#include <cstring>

#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr size_t kLongestMethod = 32;

enum : uint8_t { kToken = 1, kTarget = 2, kValue = 4 };

// The character classes that each byte belongs to.
constexpr std::array<uint8_t, 256> kClass = [] {
  std::array<uint8_t, 256> table{};
  for (int c = 0; c < 256; ++c) {
    bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    auto in = [c](std::string_view set) { return c > 0 && c < 128 && set.find(char(c)) != std::string_view::npos; };
    if (alnum || in("!#$%&'*+-.^_`|~")) table[size_t(c)] |= kToken;
    if (c > 0x20 && c < 0x7f && c != '#' && c != '\\') table[size_t(c)] |= kTarget;
    if (c == '\t' || (c >= 0x20 && c != 0x7f)) table[size_t(c)] |= kValue;
  }
  return table;
}();

bool all_of_class(std::string_view text, uint8_t what) {
  for (char c : text)
    if (!(kClass[uint8_t(c)] & what)) return false;
  return true;
}

HeadError bad(std::string_view reason, std::string_view text) { return {400, reason, text}; }

// Whether a field's name, which is a token, is `word` (small letters and dashes) but for case. No two characters of a
// token differ in that one bit alone, unless they are one letter.
template <size_t kSize>
bool named(std::string_view name, const char (&word)[kSize]) {
  if (name.size() != kSize - 1) return false;
  unsigned differ = 0;
  for (size_t i = 0; i + 1 < kSize; ++i) differ |= unsigned((name[i] | 0x20) ^ word[i]);
  return differ == 0;
}

// Framing fields in the spelling that gateways between CGI and HTTP confuse with the real one.
bool underscored_framing(std::string_view name) {
  return same_text(name, "content_length") || same_text(name, "transfer_encoding");
}

HeadError read_version(std::string_view text, Head* out) {
  if (text == "HTTP/1.1") {
    out->version = Version::kHttp11;
  } else if (text == "HTTP/1.0") {
    out->version = Version::kHttp10;
    out->keep_alive = false;
  } else {
    auto digit = [](char c) { return c >= '0' && c <= '9'; };
    bool other = text.size() == 8 && text.starts_with("HTTP/") && digit(text[5]) && text[6] == '.' && digit(text[7]);
    if (other) return {505, reason::kParse, "HTTP version not supported"};
    return bad(reason::kParse, "malformed request line");
  }
  return {};
}

// Collects what the framing fields say; judges when all are there.
class Inspection {
 public:
  Inspection(Head* out, HeadText* text) : out_(out), text_(text) {}

  HeadError request_line(std::string_view line) {
    request_line_ = line;
    size_t first = line.find(' '), last = line.rfind(' ');
    if (first == std::string_view::npos || first == last) return bad(reason::kParse, "malformed request line");
    out_->method = line.substr(0, first);
    out_->target = line.substr(first + 1, last - first - 1);
    if (out_->method.empty() || out_->method.size() > kLongestMethod || !all_of_class(out_->method, kToken))
      return bad(reason::kParse, "malformed method");
    if (out_->target.empty() || !all_of_class(out_->target, kTarget))
      return bad(reason::kParse, "malformed request target");
    if (auto error = read_version(line.substr(last + 1), out_)) return error;
    return split_target();
  }

  HeadError field_line(std::string_view line) {
    if (line[0] == ' ' || line[0] == '\t') return bad(reason::kParse, "folded header lines are not allowed");
    size_t colon = 0;
    while (colon < line.size() && (kClass[uint8_t(line[colon])] & kToken)) ++colon;
    if (colon == 0 || colon == line.size() || line[colon] != ':') return bad_name(line);
    std::string_view name = line.substr(0, colon), value = line.substr(colon + 1);
    if (has_control(value) && !all_of_class(value, kValue)) return bad(reason::kParse, "control character in a header");
    value = trim(value);
    text_->fields.add_lowered(name, value);
    return field(name, value, line);
  }

  HeadError judge() {
    if (!text_->for_parser.empty()) finish_kept();
    if (te_count_ > 0) {
      if (te_count_ > 1 || cl_count_ > 0 || out_->version == Version::kHttp10 || !out_->chunked) return refuse_te();
    }
    if (host_count_ > 1) return bad(reason::kHost, "more than one Host header");
    if (host_count_ == 0 && out_->version == Version::kHttp11) return bad(reason::kHost, "no Host header");
    if (!out_->host.empty() && !is_authority(out_->host))  // empty: the target has no authority, RFC 9112 §3.2
      return bad(reason::kHost, "malformed Host header");
    if (!authority_.empty() && host_count_ == 1 && !same_text(authority_, out_->host))
      return bad(reason::kHost, "the request target's authority is not the Host header");
    if (!authority_.empty()) out_->host = authority_;
    if (out_->version == Version::kHttp10) out_->expect_continue = false;  // RFC 9110 §10.1.1
    return {};
  }

 private:
  void keep(std::string_view line) {
    if (text_->for_parser.empty()) text_->for_parser.append(request_line_).append("\r\n");
    text_->for_parser.append(line).append("\r\n");
  }
  // The parser gets a length without leading zeros.
  void finish_kept() {
    if (cl_count_ > 0) text_->for_parser.append("Content-Length: ").append(length_).append("\r\n");
    text_->for_parser.append("\r\n");
  }

  static HeadError bad_name(std::string_view line) {
    bool colon = line.find(':') != std::string_view::npos;
    return bad(reason::kParse, colon ? "malformed header name" : "header line without a colon");
  }

  // RFC 9112 §3.2.
  HeadError split_target() {
    std::string_view& target = out_->target;
    if (out_->method == "CONNECT") return {501, reason::kParse, "CONNECT is not supported"};
    if (target[0] == '/' || (target == "*" && out_->method == "OPTIONS")) return {};
    size_t scheme = same_text(target.substr(0, 7), "http://") ? 7 : same_text(target.substr(0, 8), "https://") ? 8 : 0;
    if (scheme == 0) return bad(reason::kParse, "malformed request target");
    target.remove_prefix(scheme);
    authority_ = target.substr(0, target.find_first_of("/?"));
    target.remove_prefix(authority_.size());
    if (authority_.empty() || !is_authority(authority_)) return bad(reason::kHost, "malformed request target");
    return {};
  }

  // Beast's parser looks into the fields whose lines are kept.
  HeadError field(std::string_view name, std::string_view value, std::string_view line) {
    switch (name.size()) {
      case 2:
        if (named(name, "te")) out_->te_trailers = out_->te_trailers || has_element(value, "trailers");
        break;
      case 4:
        if (named(name, "host")) ++host_count_, out_->host = value;
        break;
      case 6:
        if (named(name, "expect")) return expect(value);
        break;
      case 7:
        if (named(name, "upgrade")) keep(line);
        break;
      case 10:
        if (named(name, "connection")) connection(value, line);
        break;
      case 14:
        if (named(name, "content-length")) return content_length(value);
        break;
      case 16:
        if (named(name, "proxy-connection")) keep(line);
        break;
      case 17:
        if (named(name, "transfer-encoding")) {
          keep(line);
          transfer_encoding(value);
        }
        break;
    }
    if (underscored_framing(name)) return bad(reason::kParse, "malformed header name");
    return {};
  }

  void connection(std::string_view value, std::string_view line) {
    if (!same_text(value, "keep-alive") && !same_text(value, "close")) keep(line);
    if (has_element(value, "close"))
      out_->keep_alive = false, close_ = true;
    else if (out_->version == Version::kHttp10 && !close_ && has_element(value, "keep-alive"))
      out_->keep_alive = true;
  }

  HeadError expect(std::string_view value) {
    if (!same_text(value, "100-continue")) return {417, reason::kParse, "only Expect: 100-continue is supported"};
    out_->expect_continue = true;
    return {};
  }

  // Codings in the order in which they were applied, as they should be: `chunked` last and only there. A list like that
  // is well framed, if not by codings that we know.
  void transfer_encoding(std::string_view value) {
    ++te_count_;
    out_->chunked = same_text(value, "chunked");
    size_t chunked = 0;
    bool last = false;
    for_each_element(value, [&](std::string_view e) {
      last = same_text(e, "chunked");
      chunked += last ? 1 : 0;
    });
    te_unknown_ = !out_->chunked && (chunked == 0 || (chunked == 1 && last));
  }

  // 1*DIGIT, RFC 9110 §8.6: leading zeros are legal, and decimal for everybody.
  HeadError content_length(std::string_view value) {
    if (++cl_count_ > 1) return bad(reason::kFramingCl, "more than one Content-Length header");
    while (value.size() > 1 && value[0] == '0') value.remove_prefix(1);
    if (value.empty() || value.size() > 18) return bad(reason::kFramingCl, "malformed Content-Length");
    int64_t n = 0;
    for (char c : value) {
      if (c < '0' || c > '9') return bad(reason::kFramingCl, "malformed Content-Length");
      n = n * 10 + (c - '0');
    }
    out_->content_length = n;
    length_ = value;
    return {};
  }

  HeadError refuse_te() const {
    if (te_count_ == 1 && cl_count_ == 0 && te_unknown_ && out_->version == Version::kHttp11)
      return {501, reason::kFramingTe, "only Transfer-Encoding: chunked is supported"};
    return bad(reason::kFramingTe, "ambiguous Transfer-Encoding");
  }

  Head* out_;
  HeadText* text_;
  std::string_view request_line_;
  std::string_view length_;     // of the body, as written but for leading zeros
  std::string_view authority_;  // of an absolute-form target
  uint32_t host_count_ = 0, cl_count_ = 0, te_count_ = 0;
  bool te_unknown_ = false, close_ = false;
};

}  // namespace

size_t HeadScan::advance(std::string_view all, const Limits& limits, HeadError* error) {
  while (true) {
    const auto* lf = static_cast<const char*>(std::memchr(all.data() + searched_, '\n', all.size() - searched_));
    size_t end = lf ? size_t(lf - all.data()) : all.size();
    if (end >= limits.header_bytes) {
      *error = lines_ == 0 ? HeadError{414, reason::kHeaderBytes, "request line too long"}
                           : HeadError{431, reason::kHeaderBytes, "request head too large"};
      return 0;
    }
    searched_ = uint32_t(all.size());
    if (!lf) return 0;
    if (end == at_ || all[end - 1] != '\r') {
      *error = bad(reason::kParse, "line without CRLF");
      return 0;
    }
    searched_ = uint32_t(end + 1);
    bool empty = end - at_ == 1;
    at_ = uint32_t(end + 1);
    // RFC 9112 §2.2: an empty line before the request line is skipped by the caller, so here it ends a head.
    if (empty) return at_;
    if (++lines_ > limits.header_fields + 1) {
      *error = {431, reason::kHeaderCount, "too many header fields"};
      return 0;
    }
  }
}

HeadError inspect_head(std::string_view head, const Limits&, Head* out, HeadText* text) {
  Inspection inspection(out, text);
  bool first = true;
  while (head.size() > 2) {
    size_t lf = head.find('\n');  // HeadScan has seen that each follows a CR
    std::string_view line = head.substr(0, lf - 1);
    head.remove_prefix(lf + 1);
    HeadError error = first ? inspection.request_line(line) : inspection.field_line(line);
    if (error) return error;
    first = false;
  }
  return first ? bad(reason::kParse, "malformed request line") : inspection.judge();
}

}  // namespace weir::wire
