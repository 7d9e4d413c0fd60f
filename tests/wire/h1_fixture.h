// One HTTP/1.1 connection: a codec between a fake socket and fake services.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "support/fake_wire.h"
#include "wire/body_memory.h"
#include "wire/codec.h"
#include "wire/coding.h"

namespace weir::wire {

using base::Bytes;
using support::FakeIntake;
using support::FakeSlabs;
using support::FakeWire;
using support::Heard;
using support::RecordingReader;
using support::take_output;
using namespace std::chrono_literals;

struct Conn {
  FakeWire wire;
  FakeIntake intake;
  FakeSlabs slabs;
  Limits limits;
  PeerInfo peer{"127.0.0.1:5000", Security::kCleartext};
  CodecEnv env{intake, slabs, limits};
  std::unique_ptr<Codec> h1 = make_h1(env, wire, peer);

  void feed(std::string_view text) { support::feed(*h1, text); }
  std::string out() { return take_output(*h1); }
  std::string talk(std::string_view text) {
    feed(text);
    return out();
  }
  void wait(base::Duration by) {
    for (base::Duration t = 1s; t <= by; t += 1s) {
      wire.env.advance(1s);
      h1->tick(wire.now());
    }
  }
  // Requests are left to the test to answer.
  void hold() {
    intake.on_whole = [](Exchange&) {};
  }
  void stream(Heard& heard) {
    intake.on_begin = [&heard](Exchange& x) {
      x.attach(std::make_unique<RecordingReader>(heard));
      return Plan{BodyPlan::kStream, 64 << 20};
    };
  }
};

inline const std::string kOk = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok";
inline std::string get(std::string target = "/") { return "GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n"; }
inline std::string post(std::string body, std::string fields = "") {
  return "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + fields + "\r\n" +
         body;
}
inline Response with_status(int status) {
  Response r;
  r.status = status;
  return r;
}
inline std::string gzip(std::string_view text) {
  Bytes piece = Bytes::copy_of(text);
  return std::string(deflate(Coding::kGzip, std::span(&piece, 1)).view());
}

}  // namespace weir::wire
