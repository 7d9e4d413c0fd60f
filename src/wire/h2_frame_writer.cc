#include "wire/h2_frame_writer.h"

#include <array>
#include <string>

#include "wire/h2_frame_cutter.h"

namespace weir::wire {
namespace {

constexpr uint8_t kEndOfBlock = 0x4;
constexpr size_t kFrameOfAnyPeer = 1 << 14;  // bytes, which every peer takes

void put_number(char* to, uint32_t value) {
  for (int i = 0; i < 4; ++i) to[i] = char(value >> (24 - 8 * i));
}

}  // namespace

// A small frame is written directly into the output's block.
void H2FrameWriter::put(H2Frame type, uint8_t flags, int32_t stream, std::string_view payload) {
  const bool small = kH2FrameHead + payload.size() <= H2Output::kMostInRow;
  const size_t size = kH2FrameHead + (small ? payload.size() : 0);
  char* at = output.room(size);
  write_frame_head(at, payload.size(), type, flags, stream);
  if (small) payload.copy(at + kH2FrameHead, payload.size());
  output.wrote(size);
  if (!small) output.copy(payload.data(), payload.size());
}

void H2FrameWriter::head(uint8_t flags, int32_t stream, std::string_view block) {
  if (block.size() <= kFrameOfAnyPeer) return put(H2Frame::kHeaders, flags | kEndOfBlock, stream, block);
  put(H2Frame::kHeaders, flags, stream, block.substr(0, kFrameOfAnyPeer));
  for (size_t at = kFrameOfAnyPeer; at < block.size(); at += kFrameOfAnyPeer) {
    const bool last = block.size() - at <= kFrameOfAnyPeer;
    put(H2Frame::kContinuation, last ? kEndOfBlock : 0, stream, block.substr(at, kFrameOfAnyPeer));
  }
}

void H2FrameWriter::settings(std::span<const Setting> settings) {
  std::string payload;
  for (const Setting& one : settings) {
    std::array<char, 6> entry{char(one.id >> 8), char(one.id)};
    put_number(entry.data() + 2, one.value);
    payload.append(entry.data(), entry.size());
  }
  put(H2Frame::kSettings, 0, 0, payload);
}

void H2FrameWriter::window_update(int32_t stream, uint32_t by) {
  std::array<char, 4> payload;
  put_number(payload.data(), by);
  put(H2Frame::kWindowUpdate, 0, stream, {payload.data(), payload.size()});
}

void H2FrameWriter::reset(int32_t stream, uint32_t code) {
  std::array<char, 4> payload;
  put_number(payload.data(), code);
  put(H2Frame::kRstStream, 0, stream, {payload.data(), payload.size()});
}

void H2FrameWriter::goaway(int32_t last, uint32_t code, std::string_view text) {
  std::string payload(8, '\0');
  put_number(payload.data(), uint32_t(last));
  put_number(payload.data() + 4, code);
  put(H2Frame::kGoaway, 0, 0, payload.append(text));
}

}  // namespace weir::wire
