// What can be set about the protocol.
#pragma once

#include <cstdint>
#include <string>

namespace weir::grps {

// Whether HTTP answers carry the outcome in their status line, or are always 200 as the reference server's (the
// payload's status says what happened in both cases).
enum class HttpStatus : uint8_t { kReal, kBodyOnly };
// How the parts of a streamed HTTP answer follow each other: one after the other as the reference server writes them,
// one per line, or as Server-Sent Events.
enum class StreamFormat : uint8_t { kGrps, kNdjson, kSse };

struct Options {
  std::string server_version;
  HttpStatus http_status = HttpStatus::kReal;
  StreamFormat stream_format = StreamFormat::kGrps;
  std::string stream_content_type;  // "" = what belongs to the format
  std::string default_model;        // "" = none, unless there is only one model
  uint64_t max_body = 64 << 20;     // of one HTTP request
};

}  // namespace weir::grps
