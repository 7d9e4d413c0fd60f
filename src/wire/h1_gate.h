// The framing gate of HTTP/1: no head reaches the parser unless there is exactly one way to read it.
//
// Request smuggling lives on heads that two parties read differently (RFC 9112 §11.2). The gate runs over the raw bytes
// and refuses whatever is ambiguous: bare CR or LF, folded lines, blanks before a colon, more than one length, any
// Transfer-Encoding but `chunked`, a Host that is missing, doubled or no host. A refused head closes the connection.
//
// Whatever is legal and has one reading passes: `Content-Length: 013` is 13 (RFC 9110 §8.6, 1*DIGIT), an empty Host is
// that of a target without authority (RFC 9112 §3.2). `gzip, chunked` is well framed but not understood: 501 (§6.1), as
// is a coding that nobody knows; where `chunked` is not last or not alone in its kind, it is 400 (§6.3). Stricter than
// the RFC on purpose: Transfer-Encoding on several lines, equal lengths sent twice, and an absolute target whose
// authority is not the Host (§3.2.2 would ignore the Host).
//
//   head         = request-line *( field-line ) CRLF
//   request-line = method SP request-target SP "HTTP/1." ( "0" / "1" ) CRLF        RFC 9112 §3
//   field-line   = token ":" OWS *( VCHAR / obs-text / SP / HTAB ) OWS CRLF         RFC 9112 §5, without obs-fold
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "wire/exchange.h"
#include "wire/limits.h"

namespace weir::wire {

// Why a request cannot be taken: status and text for the client, `reason` for the metrics. Status 0: it can.
struct HeadError {
  int status = 0;
  std::string_view reason, text;  // literals
  explicit operator bool() const { return status != 0; }
};

// Finds the end of a head that comes in pieces, and notices at once when it can only be refused.
class HeadScan {
 public:
  // `all` is everything of this head so far (a longer view of the same bytes each time). Returns the length of the
  // head, its empty line included, or 0: then either `*error` is set or more is needed.
  size_t advance(std::string_view all, const Limits& limits, HeadError* error);
  void restart() { *this = HeadScan(); }
  // Nothing of a head has been looked at.
  bool fresh() const { return searched_ == 0; }

 private:
  // Limits::header_bytes, which they pass by little, has 32 bits.
  uint32_t at_ = 0;        // bytes looked at, up to a line's begin
  uint32_t searched_ = 0;  // bytes in which there is no LF
  uint32_t lines_ = 0;
};

// The gate's findings. The views point into the head.
struct Head {
  std::string_view method;
  std::string_view target;  // origin form, "*", or for an absolute form what follows its authority (may lack the '/')
  std::string_view host;
  Version version = Version::kHttp11;
  int64_t content_length = -1;
  bool chunked = false;
  bool expect_continue = false;
  bool keep_alive = true;  // as version and Connection say
  bool te_trailers = false;
};

// Copies out of a head, in memory that the next head uses again.
struct HeadText {
  Fields fields;
  // The head for the parser: the request line and those fields that a parser acts on, as they came. It finds the
  // framing for itself; the other fields have been read here. Empty for a head of which a length, if anything, frames
  // the body, and which asks for nothing but keep-alive or close of its connection: that needs no second opinion.
  std::string for_parser;

  void clear() { fields.clear(), for_parser.clear(); }
};

// Looks at a complete head, as HeadScan found it. `text` is filled from empty, also where the head is refused.
HeadError inspect_head(std::string_view head, const Limits& limits, Head* out, HeadText* text);

}  // namespace weir::wire
