#include "wire/coding.h"

#include <zlib.h>

#include <algorithm>
#include <new>

#include "base/memory_ledger.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr int kGzipWindow = 15 + 16, kZlibWindow = 15, kRawWindow = -15;  // zlib.h, windowBits
constexpr uint64_t kFreeOfRatio = 512 << 10;  // a tensor of zeros shrinks a thousandfold and is no bomb
constexpr size_t kStep = 1 << 30;             // z_stream counts in 32 bits
// Data that does not shrink becomes longer by less than a 64th, and has a head and a tail.
constexpr uint64_t coded_limit(uint64_t bytes) { return bytes + bytes / 64 + (64 << 10); }

// RFC 1950 §2.2: method 8 and a header that divides by 31.
bool has_zlib_header(uint8_t first, uint8_t second) { return (first & 0x0f) == 8 && (first << 8 | second) % 31 == 0; }

// The quality of one Accept-Encoding element in thousandths: ";q=0.5" is 500; malformed counts as 0.
int quality(std::string_view parameters) {
  size_t at = parameters.find('=');
  if (parameters.empty()) return 1000;
  if (at == std::string_view::npos || !same_text(trim(parameters.substr(0, at)), "q")) return 0;
  std::string_view digits = trim(parameters.substr(at + 1));
  if (digits.empty() || (digits[0] != '0' && digits[0] != '1')) return 0;
  int value = (digits[0] - '0') * 1000;
  int unit = 100;
  for (size_t i = 2; i < digits.size() && unit > 0 && digits[i] >= '0' && digits[i] <= '9'; ++i, unit /= 10)
    value += (digits[i] - '0') * unit;
  return std::min(value, 1000);
}

class Deflater {
 public:
  explicit Deflater(int window) {
    if (deflateInit2(&z_, Z_BEST_SPEED, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
  }
  ~Deflater() { deflateEnd(&z_); }
  Deflater(const Deflater&) = delete;

  base::Bytes run(std::span<const base::Bytes> pieces) {
    size_t total = 0;
    for (const auto& p : pieces) total += p.size();
    deflateReset(&z_);
    base::Block out(base::heap_slab(deflateBound(&z_, total) + 16));
    for (const auto& p : pieces) put(p.span(), Z_NO_FLUSH, out);
    put({}, Z_FINISH, out);
    return out.freeze();
  }

 private:
  void put(std::span<const std::byte> in, int flush, base::Block& out) {
    do {
      size_t n = std::min(in.size(), kStep);
      z_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
      z_.avail_in = uInt(n);
      size_t room = std::min(out.room(), size_t(4) * kStep - 1);
      z_.next_out = reinterpret_cast<Bytef*>(out.data() + out.size());
      z_.avail_out = uInt(room);
      ::deflate(&z_, flush);  // deflateBound() makes running out of room impossible
      out.resize(out.size() + room - z_.avail_out);
      in = in.subspan(n - z_.avail_in);
    } while (!in.empty());
  }
  z_stream z_{};
};

}  // namespace

std::string_view name(Coding coding) {
  switch (coding) {
    case Coding::kGzip: return "gzip";
    case Coding::kDeflate: return "deflate";
    case Coding::kSnappy: return "x-snappy-raw";
    case Coding::kIdentity: break;
  }
  return "identity";
}

std::optional<Coding> coding_of(std::string_view name) {
  if (name.empty() || same_text(name, "identity")) return Coding::kIdentity;
  if (same_text(name, "gzip") || same_text(name, "x-gzip")) return Coding::kGzip;
  if (same_text(name, "deflate")) return Coding::kDeflate;
  return std::nullopt;
}

Coding choose_coding(std::string_view accept) {
  int gzip = -1, deflate = -1, identity = -1, any = -1;
  for_each_element(accept, [&](std::string_view element) {
    size_t semicolon = element.find(';');
    std::string_view coding = trim(element.substr(0, semicolon));
    int q = quality(semicolon == std::string_view::npos ? std::string_view() : trim(element.substr(semicolon + 1)));
    if (same_text(coding, "gzip") || same_text(coding, "x-gzip")) gzip = q;
    if (same_text(coding, "deflate")) deflate = q;
    if (same_text(coding, "identity")) identity = q;
    if (coding == "*") any = q;
  });
  if (gzip < 0) gzip = any;
  if (deflate < 0) deflate = any;
  int best = std::max(gzip, deflate);
  if (best <= 0 || identity > best) return Coding::kIdentity;
  return gzip >= deflate ? Coding::kGzip : Coding::kDeflate;
}

struct Inflater::Stream {
  z_stream z{};
  Coding coding;
  InflateLimits limits;
  uint64_t taken = 0, made = 0;
  int first = -1;        // of an undecided "deflate" stream: its first byte
  bool open = false;     // inflateInit2 has run
  bool at_end = false;   // of the stream, or of a gzip member
  bool corrupt = false;  // sticky

  Stream(Coding c, InflateLimits l) : coding(c), limits(l) {
    if (coding == Coding::kGzip) start(kGzipWindow);
  }
  ~Stream() {
    if (open) inflateEnd(&z);
  }
  void start(int window) {
    if (inflateInit2(&z, window) != Z_OK) throw std::bad_alloc();
    open = true;
  }

  // Returns true once it is known whether "deflate" is wrapped; the byte kept back is then fed first.
  bool decide(std::span<const std::byte>& in) {
    if (open) return true;
    if (first < 0 && !in.empty()) {
      first = int(in[0]);
      in = in.subspan(1);
    }
    if (in.empty()) return false;
    start(has_zlib_header(uint8_t(first), uint8_t(in[0])) ? kZlibWindow : kRawWindow);
    Bytef byte = Bytef(first), nowhere = 0;
    z.next_in = &byte, z.avail_in = 1, z.next_out = &nowhere, z.avail_out = 0;
    int rc = ::inflate(&z, Z_NO_FLUSH);
    if ((rc != Z_OK && rc != Z_BUF_ERROR) || z.avail_in != 0) corrupt = true;
    taken = 1;
    return true;
  }

  // One call of zlib. Returns false when nothing more can be done with this input and output.
  bool turn(std::span<const std::byte>& in, std::span<std::byte>& out) {
    size_t offered = std::min(in.size(), kStep), room = std::min(out.size(), kStep);
    z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    z.avail_in = uInt(offered);
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = uInt(room);
    int rc = ::inflate(&z, Z_NO_FLUSH);
    size_t used = offered - z.avail_in, wrote = room - z.avail_out;
    in = in.subspan(used), out = out.subspan(wrote);
    taken += used, made += wrote;
    if (rc == Z_STREAM_END) at_end = true;
    if (rc != Z_OK && rc != Z_BUF_ERROR && rc != Z_STREAM_END) corrupt = true;
    return rc == Z_OK && (used != 0 || wrote != 0);
  }
  bool too_big() const { return made > limits.bytes || taken > coded_limit(limits.bytes); }
  bool over_ratio() const { return made > kFreeOfRatio && made > taken * uint64_t(limits.ratio); }
};

Inflater::Inflater(Coding coding, InflateLimits limits) : stream_(std::make_unique<Stream>(coding, limits)) {}
Inflater::~Inflater() = default;
Inflater::Inflater(Inflater&&) noexcept = default;
Inflater& Inflater::operator=(Inflater&&) noexcept = default;

bool Inflater::fresh() const { return stream_->taken == 0 && stream_->first < 0; }
bool Inflater::complete() const { return stream_->at_end && !stream_->corrupt; }

Inflate Inflater::step(std::span<const std::byte>& in, std::span<std::byte>& out) {
  Stream& s = *stream_;
  while (true) {
    if (s.corrupt) return Inflate::kCorrupt;
    if (s.too_big()) return Inflate::kTooBig;
    if (s.over_ratio()) return Inflate::kOverRatio;
    if (s.at_end) {
      if (in.empty()) return Inflate::kMore;
      // RFC 1952 §2.2: a gzip file is a series of members.
      if (s.coding != Coding::kGzip) return Inflate::kCorrupt;
      inflateReset(&s.z);
      s.at_end = false;
    }
    if (!s.decide(in)) return Inflate::kMore;
    if (s.corrupt) continue;
    if (out.empty()) return Inflate::kFull;
    if (!s.turn(in, out) && !s.corrupt && !s.at_end && !s.too_big() && !s.over_ratio())
      return out.empty() ? Inflate::kFull : Inflate::kMore;
  }
}

Inflate inflate_into(Inflater& inflater, GrowingBlock& block, std::span<const std::byte>& in, size_t& left) {
  std::span<std::byte> room;
  if (block) room = {block.end(), std::min(block.room(), left)};
  const auto offered = in.first(std::min(in.size(), left / kInflatedPerCoded + 1));
  auto rest = offered;
  const size_t before = room.size();
  const Inflate did = inflater.step(rest, room);
  const size_t made = before - room.size(), used = offered.size() - rest.size();
  block.filled(made);
  in = in.subspan(used);
  left -= std::min(left, made + used * kInflatedPerCoded);
  return did;
}

// A message says how long it is, and cannot be longer than its own length allows.
Inflate WholeInflater::step_snappy(base::SlabSource& slabs, base::Bytes* out) {
  if (!snappy_) {
    const SnappyDecoder decoder(coded_.span());
    const uint64_t size = decoder.size();
    if (decoder.broken()) return Inflate::kCorrupt;
    if (size > limits_.bytes) return Inflate::kTooBig;
    base::Slab* slab = slabs.take(size_t(std::max<uint64_t>(size, 1)));
    if (!slab) return base::wait_in_vain(slabs, size_t(size)) ? Inflate::kNoMemory : Inflate::kNoRoom;
    block_.widen(slab);
    block_.move(0);
    snappy_.emplace(decoder);
  }
  block_.filled(snappy_->step(block_.end() - block_.size(), kInflateSlice));
  if (snappy_->broken()) return Inflate::kCorrupt;
  if (!snappy_->done()) return Inflate::kMore;
  *out = block_.freeze();
  return Inflate::kDone;
}

Inflate WholeInflater::step(base::SlabSource& slabs, base::Bytes* out) {
  if (coding_ == Coding::kSnappy) return step_snappy(slabs, out);
  if (!inflater_ && !begin(slabs)) return Inflate::kNoMemory;
  for (size_t work = kInflateSlice; work > 0;) {
    if (block_.room() == 0 && !block_.moving())
      if (Inflate widened = widen(slabs); widened != Inflate::kMore) return widened;
    if (block_.moving()) {
      work -= std::min(work, block_.move(kMovedSlice) / kMovedPerInflated);
      if (block_.moving()) return Inflate::kMore;
      continue;
    }
    const Inflate did = inflate_into(*inflater_, block_, in_, work);
    if (did == Inflate::kCorrupt || did == Inflate::kTooBig || did == Inflate::kOverRatio) return did;
    if (did == Inflate::kMore && in_.empty()) {
      if (!inflater_->complete()) return Inflate::kCorrupt;
      *out = block_.freeze();
      return Inflate::kDone;
    }
  }
  return Inflate::kMore;
}

// False: there is no room for the Inflater.
bool WholeInflater::begin(base::SlabSource& slabs) {
  if (charge_.bytes() == 0) {
    if (auto* ledger = slabs.ledger()) charge_ = {*ledger, base::MemoryKind::kInput};
    if (!charge_.grow(kInflaterBytes)) return false;
  }
  inflater_.emplace(coding_, limits_);
  in_ = coded_.span();
  return true;
}

// One byte more than the limit at the most, so that exactly the limit fits and more is noticed. kMore: it has a larger
// slab to move into.
Inflate WholeInflater::widen(base::SlabSource& slabs) {
  const uint64_t most = std::max<uint64_t>(limits_.bytes + 1, 4096);
  const uint64_t first = std::clamp<uint64_t>(uint64_t(coded_.size()) * 4, 4096, most);
  const uint64_t want = block_ ? uint64_t(block_.capacity()) * 2 : first;
  base::Slab* slab = slabs.take(size_t(want));
  if (!slab) {
    block_.clear();
    inflater_.reset();
    charge_.clear();
    return base::wait_in_vain(slabs, size_t(want)) ? Inflate::kNoMemory : Inflate::kNoRoom;
  }
  block_.widen(slab);
  return Inflate::kMore;
}

Inflate inflate_whole(Coding coding, std::span<const std::byte> in, InflateLimits limits, base::SlabSource& slabs,
                      base::Bytes* out) {
  WholeInflater inflater(coding, base::Bytes(nullptr, in.data(), in.size()), limits);
  Inflate did;
  do did = inflater.step(slabs, out);
  while (did == Inflate::kMore);
  return did;
}

base::Bytes deflate(Coding coding, std::span<const base::Bytes> pieces) {
  // Setting up a compressor touches a quarter of a megabyte, so that each thread keeps one of each kind.
  if (coding == Coding::kGzip) {
    thread_local Deflater gzip(kGzipWindow);
    return gzip.run(pieces);
  }
  thread_local Deflater zlib(kZlibWindow);
  return zlib.run(pieces);
}

}  // namespace weir::wire
