// The form of NatsLog's messages: mac kind body (nats_log.h). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::cluster {

enum class LogMessage : char { kInline = 'E', kInParts = 'P', kSnapshot = 'S' };

std::string seal_message(std::string_view key, LogMessage kind, std::string_view body);
// Kind and body; empty: it is none of that kind, or not of one who has the key.
std::string_view unseal_message(std::string_view key, LogMessage kind, std::string_view message);

// A number as 8 bytes, little-endian, and back; they are there.
std::string number_bytes(uint64_t value);
uint64_t number_at(std::string_view bytes, size_t at);

}  // namespace weir::cluster
