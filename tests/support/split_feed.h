// Feeds a transcript in pieces of every interesting size: what a codec makes of bytes must not depend on how they come.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace weir::support {

// 1, 2, 3, … small, then some larger sizes, then all at once.
inline std::vector<size_t> piece_sizes(size_t whole) {
  std::vector<size_t> sizes;
  for (size_t n = 1; n < 24 && n < whole; ++n) sizes.push_back(n);
  for (size_t n : {31u, 64u, 127u, 509u, 1000u, 4096u, 16384u})
    if (n < whole) sizes.push_back(n);
  sizes.push_back(whole == 0 ? 1 : whole);
  return sizes;
}

// Calls `feed(span of bytes)` until all of `transcript` has been fed in pieces of `size`.
template <class Feed>
void feed_in_pieces(std::string_view transcript, size_t size, Feed feed) {
  for (size_t at = 0; at < transcript.size(); at += size) feed(std::as_bytes(std::span(transcript.substr(at, size))));
}

// For each piece size calls `run(size)`: it makes a fresh codec, feeds it with feed_in_pieces() and checks.
template <class Run>
void for_each_split(std::string_view transcript, Run run) {
  for (size_t size : piece_sizes(transcript.size())) run(size);
}

}  // namespace weir::support
