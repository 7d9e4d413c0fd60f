#include "wire/sniff.h"

#include <algorithm>

#include "wire/baidu_std_packet.h"

namespace weir::wire {

Sniff::Sniff(const CodecEnv& env, Wire& wire, const PeerInfo& peer, Codecs codecs)
    : env_(env), wire_(wire), peer_(peer), codecs_(codecs), since_(wire.now()) {}

void Sniff::feed(std::span<const std::byte> bytes) {
  if (next_) return next_->feed(bytes);
  if (over_ || bytes.empty()) return;
  const size_t n = std::min(bytes.size(), kH2Preface.size() - seen_.size());
  std::string_view opening(reinterpret_cast<const char*>(bytes.data()), n);
  if (!seen_.empty()) opening = seen_.append(opening);
  const Make make = decide(opening);
  if (!make) {
    if (seen_.empty()) seen_ = opening;
    return;
  }
  next_ = make(env_, wire_, peer_);
  if (!seen_.empty()) {
    next_->feed(std::as_bytes(std::span(seen_)));
    bytes = bytes.subspan(n);
  }
  if (!bytes.empty()) next_->feed(bytes);
}

// Makes the codec of a connection that begins so; null: more must come.
Sniff::Make Sniff::decide(std::string_view opening) const {
  if (opening == kH2Preface) return codecs_.h2;
  if (opening.starts_with(BaiduHeader::kMagic)) return codecs_.baidu_std;
  const bool open = kH2Preface.starts_with(opening) || BaiduHeader::kMagic.starts_with(opening);
  return open ? nullptr : codecs_.h1;
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
  env_.intake.rejected(!seen_.empty() ? reason::kPreface : reason::kIdle, peer_);
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
