// The form of NatsLog's messages: mac kind body (nats_log.h). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::cluster {

enum class LogMessage : char { kInline = 'E', kInParts = 'P', kSnapshot = 'S', kCopy = 'C' };

// A MAC's key (empty: there is none), and the stream that the message is of, by the time that one was made: a message
// that was sealed for a stream that is gone is none in the one that has its name now.
struct Seal {
  std::string_view key, stream;
};
std::string seal_message(const Seal& seal, LogMessage kind, std::string_view body);
// Kind and body; empty: it is none of that kind, not of one who has the key, or of another stream.
std::string_view unseal_message(const Seal& seal, LogMessage kind, std::string_view message);

// The list of a content that lies in parts: how long it is, and which those are, with the SHA-256 of each: 32 bytes.
struct PartList {
  struct Part {
    uint64_t sequence = 0;
    std::string digest;
  };
  uint64_t bytes = 0;
  std::vector<Part> parts;
};
std::string digest_of(std::string_view bytes);
std::string write_list(const PartList& list);
// Nothing: it is none.
std::optional<PartList> read_list(std::string_view text);

// A number as 8 bytes, little-endian, and back; they are there.
std::string number_bytes(uint64_t value);
uint64_t number_at(std::string_view bytes, size_t at);

}  // namespace weir::cluster
