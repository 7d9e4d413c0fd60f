// A connection of baidu_std to a server with methods of each kind: packets by hand, and what was answered.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/memory_ledger.h"
#include "support/fake_wire.h"
#include "support/rpc_methods.h"
#include "support/rpc_wire.h"
#include "wire/codec.h"

namespace weir::wire::baidu {

using namespace std::chrono_literals;
using support::take_output;

inline std::string varint(uint64_t n) {
  std::string out;
  for (; n >= 0x80; n >>= 7) out += char((n & 0x7f) | 0x80);
  return out += char(n);
}
inline std::string text_field(uint32_t number, std::string_view text) {
  return varint(number << 3 | 2) + varint(text.size()) + std::string(text);
}
inline std::string number_field(uint32_t number, uint64_t n) { return varint(number << 3) + varint(n); }
inline std::string size(size_t n) { return {char(n >> 24), char(n >> 16), char(n >> 8), char(n)}; }

inline std::string packet(std::string_view meta, std::string_view rest) {
  return "PRPC" + size(meta.size() + rest.size()) + size(meta.size()) + std::string(meta) + std::string(rest);
}
// A request; `more` is further fields of its meta.
inline std::string ask(std::string_view method, uint64_t id, std::string_view message, std::string_view more = {},
                       std::string_view service = "test.Service") {
  const std::string call = text_field(1, service) + text_field(2, method);
  return packet(text_field(1, call) + number_field(4, id) + std::string(more), message);
}
inline std::string user_field(std::string_view name, std::string_view value) {
  return text_field(9, text_field(1, name) + text_field(2, value));
}

struct Reply {
  uint64_t error = 0, coding = 0;
  std::string text, message;
  std::map<std::string, std::string> fields;
};

inline uint64_t take_varint(std::string_view& in) {
  uint64_t n = 0;
  for (unsigned shift = 0; !in.empty(); shift += 7) {
    const auto byte = uint8_t(in.front());
    in.remove_prefix(1);
    n |= uint64_t(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return n;
}
// A message's fields: texts by their number, and numbers.
struct Parsed {
  std::multimap<uint64_t, std::string> texts;
  std::map<uint64_t, uint64_t> numbers;
  std::string text(uint64_t number) const {
    auto at = texts.find(number);
    return at == texts.end() ? "" : at->second;
  }
};
inline Parsed parse(std::string_view in) {
  Parsed out;
  while (!in.empty()) {
    const uint64_t tag = take_varint(in), value = take_varint(in);
    if ((tag & 7) == 0) {
      out.numbers[tag >> 3] = value;
      continue;
    }
    out.texts.emplace(tag >> 3, in.substr(0, value));
    in.remove_prefix(std::min<size_t>(value, in.size()));
  }
  return out;
}
inline size_t size_at(std::string_view in, size_t at) {
  size_t n = 0;
  for (size_t i = 0; i < 4; ++i) n = n << 8 | uint8_t(in[at + i]);
  return n;
}

class BaiduStd : public testing::Test {
 protected:
  BaiduStd() : service_(bench_.server()) {}

  Codec& codec() {
    if (!codec_) codec_ = make_sniff(env_, wire_, peer_);
    return *codec_;
  }
  void feed(std::string_view bytes) { support::feed(codec(), bytes); }
  // The answers since the last call, by correlation_id, with its order.
  std::map<uint64_t, Reply> replies() {
    std::map<uint64_t, Reply> out;
    const std::string all = take_output(codec());
    for (std::string_view in = all; !in.empty();) {
      EXPECT_EQ(in.substr(0, 4), "PRPC");
      const size_t body = size_at(in, 4), meta = size_at(in, 8);
      const Parsed parsed = parse(in.substr(12, meta));
      const Parsed response = parse(parsed.text(2));
      const uint64_t id = parsed.numbers.at(4);
      Reply& reply = out[id];
      reply.error = response.numbers.contains(1) ? response.numbers.at(1) : 0;
      reply.text = response.text(2);
      reply.coding = parsed.numbers.contains(3) ? parsed.numbers.at(3) : 0;
      reply.message = in.substr(12 + meta, body - meta);
      for (auto [at, end] = parsed.texts.equal_range(9); at != end; ++at) {
        const Parsed entry = parse(at->second);
        reply.fields[entry.text(1)] = entry.text(2);
      }
      order_.push_back(id);
      in.remove_prefix(12 + body);
    }
    return out;
  }
  Reply talk(std::string_view bytes) {
    feed(bytes);
    return replies()[7];
  }
  void pass(base::Duration by) {
    for (base::Duration t = 1s; t <= by; t += 1s) {
      wire_.env.advance(1s);
      codec().tick(wire_.now());
    }
  }

  support::RpcBench bench_;
  support::TestService service_;
  support::FakeWire wire_;
  Limits limits_;
  PeerInfo peer_{"127.0.0.1:5000", Security::kCleartext};
  CodecEnv env_{bench_.router, bench_.slabs, limits_};
  std::unique_ptr<Codec> codec_;
  std::vector<uint64_t> order_;
};

}  // namespace weir::wire::baidu
