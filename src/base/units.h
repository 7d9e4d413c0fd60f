// Durations, sizes and switches as people write them in files, flags and environment variables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/status.h"

namespace weir::base {

// "2ms", "1.5s", "10us", "250ns", "5m", "1h"; a bare "0" too. Errors: INVALID_ARGUMENT, saying what was expected.
Result<Duration> parse_duration(std::string_view text);
// "64MiB", "16KiB", "2GiB" (powers of 1024), "64MB" (of 1000), "512B", or bytes as a plain number.
Result<uint64_t> parse_size(std::string_view text);
// A decimal number of at most `max`.
Result<uint64_t> parse_count(std::string_view text, uint64_t max = UINT64_MAX);
// true, false, on, off, yes, no, 1, 0.
Result<bool> parse_switch(std::string_view text);

// The shortest spelling that parses back to the same value: "2ms", "64MiB".
std::string show_duration(Duration duration);
std::string show_size(uint64_t bytes);

}  // namespace weir::base
