#include "wire/tls_wanted.h"

#include <string>
#include <utility>

#include "wire/grpc_status.h"
#include "wire/sniff.h"

namespace weir::wire {
namespace {

constexpr std::string_view kTlsOnly = "this port takes TLS connections only";

// The first answer of HTTP/1 is to say `connection: close`.
std::unique_ptr<Codec> make_closing_h1(const CodecEnv& env, Wire& wire, const PeerInfo& peer) {
  auto h1 = make_h1(env, wire, peer);
  h1->drain(Drain::kAnnounce);
  return h1;
}

// An ordinary codec under an Intake that refuses every request.
class TlsWanted final : public Codec, private Intake {
 public:
  TlsWanted(const CodecEnv& env, Wire& wire, const PeerInfo& peer)
      : intake_(env.intake),
        peer_(peer),
        env_{*this, env.slabs, env.limits, env.date},
        codec_(std::make_unique<Sniff>(env_, wire, peer, Sniff::Codecs{.h1 = make_closing_h1})) {}

  void feed(std::span<const std::byte> bytes) override {
    codec_->feed(bytes);
    while (auto next = codec_->successor()) codec_ = std::move(next);
    if (refused_ && !std::exchange(drained_, true)) codec_->drain(Drain::kRefuse);
  }
  void eof() override { codec_->eof(); }
  void closed() override { codec_->closed(); }
  size_t pending(std::span<iovec> out) override { return codec_->pending(out); }
  void consumed(size_t n) override { codec_->consumed(n); }
  bool wants_read() const override { return codec_->wants_read(); }
  bool finished() const override { return codec_->finished(); }
  bool idle() const override { return codec_->idle(); }
  void tick(base::Time now) override { codec_->tick(now); }
  void drain(Drain step) override { codec_->drain(step); }
  std::string_view protocol() const override { return codec_->protocol(); }

 private:
  Plan begin(Exchange& x) override {
    if (!std::exchange(refused_, true)) intake_.rejected(reason::kTls, peer_);
    if (is_grpc_or_web(x.request().fields.find("content-type"))) {
      Response response;
      response.fields.add("content-type", "application/grpc");
      response.fields.add("grpc-status", std::to_string(int(base::Code::kUnauthenticated)));
      response.fields.add("grpc-message", kTlsOnly);
      x.head(std::move(response));
      x.end();
    } else {
      x.respond(400, "text/plain", base::Bytes::adopt(std::string(kTlsOnly) + "\n"));
    }
    return {BodyPlan::kIgnore};
  }
  void whole(Exchange&) override {}
  void closed(Exchange&) override {}
  void rejected(std::string_view reason, const PeerInfo& peer) override { intake_.rejected(reason, peer); }

  Intake& intake_;
  const PeerInfo& peer_;
  const CodecEnv env_;
  std::unique_ptr<Codec> codec_;
  bool refused_ = false, drained_ = false;
};

}  // namespace

std::unique_ptr<Codec> make_tls_wanted(const CodecEnv& env, Wire& wire, const PeerInfo& peer) {
  return std::make_unique<TlsWanted>(env, wire, peer);
}

}  // namespace weir::wire
