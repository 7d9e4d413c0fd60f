// The opening handshake: RFC 6455 §4.2 for HTTP/1.1, RFC 8441 §5 for HTTP/2.
#include <array>
#include <bit>

#include "base/encoding.h"
#include "wire/router.h"
#include "wire/text.h"
#include "wire/websocket.h"

namespace weir::wire {
namespace {

// FIPS 180-4 §6.1, for the one purpose for which SHA-1 is still asked for: Sec-WebSocket-Accept of a short key.
std::string sha1(std::string text) {
  std::array<uint32_t, 5> h{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  uint64_t bits = text.size() * 8;
  text += char(0x80);
  while (text.size() % 64 != 56) text += '\0';
  for (int i = 8; i-- > 0;) text += char(bits >> (8 * i));
  for (size_t at = 0; at < text.size(); at += 64) {
    std::array<uint32_t, 80> w{};
    for (size_t i = 0; i < 64; ++i) w[i / 4] = w[i / 4] << 8 | uint8_t(text[at + i]);
    for (size_t i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    auto [a, b, c, d, e] = h;
    for (size_t i = 0; i < 80; ++i) {
      uint32_t f = i < 20 ? (b & c) | (~b & d) : i < 40 || i >= 60 ? b ^ c ^ d : (b & c) | (b & d) | (c & d);
      uint32_t k = i < 20 ? 0x5a827999 : i < 40 ? 0x6ed9eba1 : i < 60 ? 0x8f1bbcdc : 0xca62c1d6;
      uint32_t next = std::rotl(a, 5) + f + e + k + w[i];
      e = d, d = c, c = std::rotl(b, 30), b = a, a = next;
    }
    h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e;
  }
  std::string out;
  for (uint32_t word : h)
    for (int i = 4; i-- > 0;) out += char(word >> (8 * i));
  return out;
}

// A list may come on several lines (RFC 9110 §5.3), and proxies write `Connection` so.
bool lists(const Fields& fields, std::string_view name, std::string_view element) {
  for (size_t i = 0; i < fields.size(); ++i)
    if (fields[i].name == name && has_element(fields[i].value, element)) return true;
  return false;
}

bool refuse_handshake(Exchange& exchange, int status, std::string_view text) {
  if (status == 426) {
    exchange.extra_fields().add("upgrade", "websocket");
    exchange.extra_fields().add("sec-websocket-version", "13");
  }
  exchange.match ? exchange.match->router->word_error(exchange, status, text) : respond_error(exchange, status, text);
  return false;
}

size_t count(const Fields& fields, std::string_view name) {
  size_t n = 0;
  for (size_t i = 0; i < fields.size(); ++i) n += fields[i].name == name;
  return n;
}

// The bytes behind a 101 are frames. A proxy that takes them for a body would read other frames, or other requests.
bool has_body(const Request& request) { return request.content_length > 0 || request.fields.has("transfer-encoding"); }

// "weir" alone is chosen of what a client offers: beside it a browser may show its key (auth/credentials.h), and a
// browser breaks off where nothing of its offer is chosen.
void choose_subprotocol(const Request& request, Response& response) {
  constexpr std::string_view kField = "sec-websocket-protocol", kOurs = "weir";
  if (lists(request.fields, kField, kOurs)) response.fields.add(kField, kOurs);
}

}  // namespace

bool wants_websocket(const Request& request) { return lists(request.fields, "upgrade", "websocket"); }

bool accept_websocket(Exchange& exchange) {
  constexpr size_t kKey = 24;  // 16 bytes in base64
  constexpr std::string_view kMagic = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  const Request& request = exchange.request();
  if (!wants_websocket(request)) return refuse_handshake(exchange, 426, "this path is for WebSockets");
  if (request.fields.find("sec-websocket-version") != "13")
    return refuse_handshake(exchange, 426, "only version 13 of the WebSocket protocol is supported");
  Response response;
  choose_subprotocol(request, response);
  if (request.version == Version::kHttp2) {
    exchange.head(std::move(response));
    return true;
  }
  std::string_view key = request.fields.find("sec-websocket-key");
  auto nonce = base::base64_decode(key);
  bool upgrade = lists(request.fields, "connection", "upgrade");
  if (request.version != Version::kHttp11 || !upgrade || key.size() != kKey || !nonce || nonce->size() != 16)
    return refuse_handshake(exchange, 400, "not a WebSocket handshake");
  for (std::string_view once : {"sec-websocket-key", "sec-websocket-version"})  // RFC 6455 §11.3.1 and §11.3.5
    if (count(request.fields, once) > 1)
      return refuse_handshake(exchange, 400, "more than one header " + std::string(once));
  if (has_body(request)) return refuse_handshake(exchange, 400, "a WebSocket handshake has no body");
  response.status = 101;
  response.fields.add("sec-websocket-accept", base::base64_encode(sha1(std::string(key) + std::string(kMagic))));
  exchange.head(std::move(response));
  return true;
}

}  // namespace weir::wire
