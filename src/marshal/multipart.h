// multipart/form-data (RFC 7578), as browsers, curl -F and OpenAI's clients send it:
//
//   [preamble CRLF] --B CRLF part *( CRLF --B CRLF part ) CRLF --B-- [epilogue]
//   part = *( name ":" value CRLF ) CRLF octets, one of the lines Content-Disposition: form-data; name="k";
//   filename="f"
//
// MultipartReader takes the body in any pieces and keeps no part of it beyond one delimiter and one head.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace weir::marshal {

inline constexpr size_t kMaxFormFields = 256, kMaxPartHead = 8 << 10;

// "multipart/form-data" of a Content-Type, without its parameters.
std::string_view media_type(std::string_view field);
// The value of `name` in `word *( ";" name "=" ( token / quoted-string ) )`; "" where there is none.
std::string field_parameter(std::string_view field, std::string_view name);

// Errors: INVALID_ARGUMENT, the Content-Type has no boundary that can be one.
base::Result<std::string> boundary_of(std::string_view content_type);

struct PartHead {
  std::string name;
  std::string filename;      // as the client calls it: no path of this machine; empty: none
  std::string content_type;  // without parameters; empty: none
};
// The lines before a part's octets. Errors: INVALID_ARGUMENT.
base::Result<PartHead> read_part_head(std::string_view head);

class PartListener {
 public:
  // Errors end the reading, and are those of MultipartReader::read().
  virtual base::Status on_part(PartHead head) = 0;
  virtual base::Status on_octets(std::string_view octets) = 0;  // of the part that began last; good during the call
  virtual base::Status on_part_end() = 0;

 protected:
  ~PartListener() = default;
};

class MultipartReader {
 public:
  // `boundary` as of boundary_of(). The listener outlives this.
  MultipartReader(const std::string& boundary, PartListener& listener)
      : delimiter_("\r\n--" + boundary), held_("\r\n"), listener_(listener) {}

  // The next piece of the body. Errors: INVALID_ARGUMENT, it is no form; those of the listener. Nothing is read after
  // one.
  base::Status read(std::string_view piece);
  // The body is complete. Errors: INVALID_ARGUMENT, it is cut short.
  base::Status finish() const;

 private:
  enum class State : uint8_t { kPreamble, kBoundary, kHead, kOctets, kEpilogue };
  base::Result<bool> step();  // false: more of the body is needed
  base::Result<bool> read_octets();
  base::Result<bool> read_boundary();
  base::Result<bool> read_head();

  const std::string delimiter_;
  std::string held_;  // what has come and is not read; a body may begin with its first boundary
  size_t at_ = 0;     // of held_: read up to here
  State state_ = State::kPreamble;
  size_t parts_ = 0;
  PartListener& listener_;
};

}  // namespace weir::marshal
