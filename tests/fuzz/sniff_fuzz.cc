// Any bytes as a fresh cleartext connection through the real codecs; the choice must not depend on how they come.
//
// Input: byte 0 is the size of the pieces; the rest is the connection.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "support/fake_wire.h"
#include "support/split_feed.h"
#include "wire/baidu_std_packet.h"
#include "wire/sniff.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

std::string run(size_t piece, std::string_view transcript) {
  support::FakeWire wire;
  support::FakeIntake intake;
  support::FakeSlabs slabs;
  wire::Limits limits;
  wire::PeerInfo peer;
  wire::CodecEnv env{intake, slabs, limits};
  auto codec = wire::make_sniff(env, wire, peer);
  support::feed_in_pieces(transcript, piece, [&](auto bytes) {
    codec->feed(bytes);
    if (auto next = codec->successor()) codec = std::move(next);
    support::take_output(*codec);
  });
  std::string protocol(codec->protocol());
  codec->tick(wire.now());
  support::take_output(*codec);
  codec->closed();
  if (intake.begun != intake.closes) {
    std::fprintf(stderr, "broken: an exchange did not close\n");
    std::abort();
  }
  return protocol;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  std::string_view transcript(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string whole = run(transcript.size() + 1, transcript), pieces = run(data[0] % 32 + 1, transcript);
  bool h2 = transcript.starts_with(wire::kH2Preface);
  bool baidu_std = transcript.starts_with(wire::BaiduHeader::kMagic);
  bool open = wire::kH2Preface.starts_with(transcript) || wire::BaiduHeader::kMagic.starts_with(transcript);
  if (whole != pieces || whole != (h2 ? "h2" : baidu_std ? "baidu_std" : open ? "sniff" : "h1")) {
    std::fprintf(stderr, "broken: %s, in pieces %s\n", whole.c_str(), pieces.c_str());
    std::abort();
  }
  return 0;
}
