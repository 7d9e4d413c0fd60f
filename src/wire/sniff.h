// Sniff: the codec of a fresh cleartext connection. The first bytes say which protocol it speaks.
//
// HTTP/2 with prior knowledge opens with the 24 bytes of its preface (RFC 9113 §3.4), baidu_std with "PRPC"; anything
// else is HTTP/1, decided at the first byte that differs from both. From then on the chosen codec does all the work:
// inside, or in the connection's own hands once it has asked for the successor(). A peer that has not said enough
// within Limits::sniff is closed.
#pragma once

#include <memory>
#include <string>

#include "wire/codec.h"

namespace weir::wire {

inline constexpr std::string_view kH2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

class Sniff final : public Codec {
 public:
  using Make = std::unique_ptr<Codec> (*)(const CodecEnv&, Wire&, const PeerInfo&);

  struct Codecs {
    Make h1 = make_h1, h2 = make_h2, baidu_std = make_baidu_std;
  };

  Sniff(const CodecEnv& env, Wire& wire, const PeerInfo& peer) : Sniff(env, wire, peer, Codecs()) {}
  Sniff(const CodecEnv& env, Wire& wire, const PeerInfo& peer, Codecs codecs);

  void feed(std::span<const std::byte> bytes) override;
  void eof() override;
  void closed() override;
  size_t pending(std::span<iovec> out) override { return next_ ? next_->pending(out) : 0; }
  void consumed(size_t n) override;
  bool wants_read() const override { return next_ ? next_->wants_read() : true; }
  bool finished() const override { return next_ ? next_->finished() : over_; }
  bool idle() const override { return next_ ? next_->idle() : true; }
  void tick(base::Time now) override;
  void drain(Drain step) override;
  std::unique_ptr<Codec> successor() override { return std::move(next_); }
  std::string_view protocol() const override { return next_ ? next_->protocol() : "sniff"; }

 private:
  Make decide(std::string_view opening) const;

  const CodecEnv& env_;
  Wire& wire_;
  const PeerInfo& peer_;
  const Codecs codecs_;
  std::string seen_;  // what has come, while it is not decided
  bool over_ = false;
  base::Time since_;
  std::unique_ptr<Codec> next_;
};

}  // namespace weir::wire
