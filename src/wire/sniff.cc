#include "wire/sniff.h"

#include <algorithm>

namespace weir::wire {

Sniff::Sniff(const CodecEnv& env, Wire& wire, const PeerInfo& peer, Make h1, Make h2)
    : env_(env), wire_(wire), peer_(peer), h1_(h1), h2_(h2), since_(wire.now()) {}

void Sniff::feed(std::span<const std::byte> bytes) {
  if (next_) return next_->feed(bytes);
  if (over_ || bytes.empty()) return;
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string_view expected = kH2Preface.substr(seen_);
  size_t n = std::min(text.size(), expected.size());
  if (text.substr(0, n) != expected.substr(0, n)) return choose(h1_, bytes);
  if (n == expected.size()) return choose(h2_, bytes);
  seen_ += n;
}

// The bytes seen so far are the beginning of the preface, so they need not be kept.
void Sniff::choose(Make make, std::span<const std::byte> rest) {
  next_ = make(env_, wire_, peer_);
  if (seen_ > 0) next_->feed(std::as_bytes(std::span(kH2Preface.substr(0, seen_))));
  next_->feed(rest);
}

void Sniff::eof() {
  if (next_) return next_->eof();
  over_ = true;
}

void Sniff::closed() {
  if (next_) return next_->closed();
  over_ = true;
}

void Sniff::consumed(size_t n) {
  if (next_) next_->consumed(n);
}

void Sniff::tick(base::Time now) {
  if (next_) return next_->tick(now);
  if (over_ || now - since_ <= env_.limits.sniff) return;
  env_.intake.rejected(seen_ > 0 ? reason::kPreface : reason::kIdle, peer_);
  over_ = true;
}

void Sniff::drain(Drain step) {
  if (next_) return next_->drain(step);
  if (step == Drain::kRefuse) over_ = true;
}

std::unique_ptr<Codec> make_sniff(const CodecEnv& env, Wire& wire, const PeerInfo& peer) {
  return std::make_unique<Sniff>(env, wire, peer);
}

}  // namespace weir::wire
