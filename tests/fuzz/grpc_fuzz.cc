// Any bytes as the body of a call, in any form, cut in any way: one status at most, every byte given back, and the same
// answer however the body was cut.
//
// Input: byte 0 chooses method, form, encoding and faults; byte 1 the size of the pieces; the rest is the body.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "require.h"
#include "support/rpc_methods.h"
#include "support/rpc_wire.h"
#include "support/split_feed.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

struct Choice {
  std::string method, type;
  support::RpcBench::Headers headers;
  bool starve;
};

Choice choose(uint8_t byte) {
  constexpr std::array kMethods = {"Echo", "Stream", "Spell", "Nope"};
  constexpr std::array kTypes = {"application/grpc", "application/grpc-web", "application/grpc-web-text",
                                 "application/json"};
  constexpr std::array kEncodings = {"", "gzip", "deflate"};
  Choice out{kMethods[byte & 3], kTypes[byte >> 2 & 3], {}, (byte >> 6 & 1) != 0};
  std::string encoding = kEncodings[(byte >> 4 & 3) % 3];
  if (!encoding.empty()) out.headers = {{"grpc-encoding", encoding}, {"grpc-accept-encoding", encoding}};
  return out;
}

struct Answer {
  int http;
  std::string body, status;
  friend bool operator==(const Answer&, const Answer&) = default;
};

Answer run(const Choice& choice, std::string_view body, size_t piece) {
  support::QuoteJson json;
  wire::RpcOptions options;
  options.max_message = 1 << 16;
  support::RpcBench bench(&json, options);
  support::TestService service(bench.server());
  auto x = bench.open("/test.Service/" + choice.method, choice.type, choice.headers);
  size_t fed = 0;
  support::feed_in_pieces(body, piece, [&](std::span<const std::byte> in) {
    bench.slabs.empty = choice.starve && (fed / piece) % 3 == 1;
    if (x->listener()) x->listener()->on_data(*x, in);
    fed += in.size();
  });
  if (x->listener()) support::RpcBench::end(*x);
  bench.slabs.empty = false;
  bench.advance(*x, std::chrono::milliseconds(20));
  require(x->headed && x->ended, "every call ends");
  require(support::grpc_status(*x) != -2, "one status");
  require(!x->listener() || x->consumed == body.size(), "every byte is given back");
  require(bench.env.armed() == 0, "no timer is left");
  return {x->response.status, x->sent,
          std::string(x->response.fields.find("grpc-status")) + std::string(x->trailers.find("grpc-status"))};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  Choice choice = choose(data[0]);
  std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  Answer whole = run(choice, body, body.size() + 1);
  Answer pieces = run(choice, body, size_t(data[1]) + 1);
  // A stream that breaks off has answered as many messages as came before; the cut does not change that either.
  require(whole == pieces, "the cut changes nothing");
  return 0;
}
