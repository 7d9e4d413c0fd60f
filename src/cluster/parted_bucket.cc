#include "cluster/parted_bucket.h"

#include <charconv>
#include <optional>
#include <utility>

#include "base/encoding.h"

namespace weir::cluster {
namespace {

using base::Code;
using base::failure;
using base::Result;

constexpr std::string_view kPartsHead = "weir-parts 1 ";
constexpr size_t kNonceDigits = 16;

struct PartsHead {
  std::string nonce;
  size_t count = 0, size = 0;
};

std::string write_parts_head(const PartsHead& head) {
  return std::string(kPartsHead) + head.nonce + ' ' + std::to_string(head.count) + ' ' + std::to_string(head.size) +
         '\n';
}

// Nothing: it cannot be one.
std::optional<PartsHead> read_parts_head(std::string_view text) {
  if (!text.starts_with(kPartsHead)) return std::nullopt;
  PartsHead out;
  text.remove_prefix(kPartsHead.size());
  if (text.size() < kNonceDigits + 2 || text[kNonceDigits] != ' ') return std::nullopt;
  out.nonce = text.substr(0, kNonceDigits);
  if (out.nonce.find_first_not_of("0123456789abcdef") != out.nonce.npos) return std::nullopt;
  const char* const end = text.data() + text.size();
  auto [space, no_count] = std::from_chars(text.data() + kNonceDigits + 1, end, out.count);
  if (no_count != std::errc() || space == end || *space != ' ') return std::nullopt;
  auto [line_end, no_size] = std::from_chars(space + 1, end, out.size);
  if (no_size != std::errc() || line_end + 1 != end || *line_end != '\n') return std::nullopt;
  const size_t wanted = (out.size + PartedBucket::kPart - 1) / PartedBucket::kPart;
  if (out.count == 0 || out.count > PartedBucket::kMostParts || out.count != wanted) return std::nullopt;
  return out;
}

std::string part_key(const std::string& key, const std::string& nonce, size_t number) {
  return std::string(PartedBucket::kPrefix) + key + '.' + nonce + '.' + std::to_string(number);
}

}  // namespace

struct PartedBucket::Writing {
  std::string key, value, nonce;
  uint64_t expected;
  OnWritten then;
  size_t count;
  Parts parts;
};

struct PartedBucket::Reading {
  KeyValue head;
  PartsHead what;
  OnRead then;
  std::string value;
  Parts parts;
};

void PartedBucket::write(const std::string& key, std::string value, uint64_t expected, OnWritten then) {
  // A value that reads as the head of parts lies in one.
  if (value.size() <= kPart && !value.starts_with(kPartsHead))
    return bucket_.write(key, std::move(value), expected, [this, key, then](Result<uint64_t> revision) {
      if (revision) replace(key, {});
      then(std::move(revision));
    });
  const size_t count = (value.size() + kPart - 1) / kPart;
  if (count > kMostParts) return then(failure(Code::kResourceExhausted, "the value is too long"));
  const uint64_t bits = env_.random();
  std::string nonce = base::hex({reinterpret_cast<const char*>(&bits), sizeof bits});
  write_next(std::make_shared<Writing>(
      Writing{key, std::move(value), std::move(nonce), expected, std::move(then), count, Parts()}));
}

void PartedBucket::write_next(const std::shared_ptr<Writing>& w) {
  const size_t number = w->parts.revisions.size();
  if (number == w->count) return write_head(w);
  w->parts.keys.push_back(part_key(w->key, w->nonce, number));
  bucket_.write(w->parts.keys.back(), w->value.substr(number * kPart, kPart), 0, [this, w](Result<uint64_t> revision) {
    if (!revision) {
      forget(w->parts);
      return w->then(revision.error().code == Code::kAborted ? failure(Code::kUnavailable, "a part was there already")
                                                             : revision.error());
    }
    w->parts.revisions.push_back(*revision);
    write_next(w);
  });
}

// Where nobody knows whether it was written, somebody may read the parts.
void PartedBucket::write_head(const std::shared_ptr<Writing>& w) {
  std::string head = write_parts_head({w->nonce, w->count, w->value.size()});
  bucket_.write(w->key, head, w->expected, [this, w, head](Result<uint64_t> revision) {
    if (!revision && revision.error().code == Code::kAborted) return look_for_head(w, head, revision.error());
    if (revision) replace(w->key, std::move(w->parts));
    w->then(std::move(revision));
  });
}

// The head that stands there may be an earlier try of this very write.
void PartedBucket::look_for_head(const std::shared_ptr<Writing>& w, const std::string& head, const base::Status& why) {
  bucket_.read(w->key, [this, w, head, why](Result<KeyValue> entry) {
    if (entry && !entry->erased && entry->value == head) {
      replace(w->key, std::move(w->parts));
      return w->then(entry->revision);
    }
    if (entry || entry.error().code == Code::kNotFound) forget(w->parts);
    w->then(why);
  });
}

void PartedBucket::erase(const std::string& key, uint64_t expected, OnWritten then) {
  if (expected == kAny) return erase_any(key, std::move(then));
  bucket_.erase(key, expected, [this, key, then](Result<uint64_t> revision) {
    if (revision) replace(key, {});
    then(std::move(revision));
  });
}

void PartedBucket::erase_any(const std::string& key, OnWritten then) {
  bucket_.read(key, [this, key, then = std::move(then)](Result<KeyValue> entry) {
    if (!entry) return then(entry.error());
    if (entry->erased) return then(entry->revision);
    Parts parts;
    if (auto head = read_parts_head(entry->value))
      for (size_t n = 0; n < head->count; ++n) parts.keys.push_back(part_key(key, head->nonce, n));
    parts.revisions.assign(parts.keys.size(), kAny);
    bucket_.erase(key, entry->revision, [this, key, parts, then](Result<uint64_t> revision) {
      if (revision) known_.erase(key), forget(parts);
      then(std::move(revision));
    });
  });
}

void PartedBucket::read(const std::string& key, OnRead then) {
  bucket_.read(key, [this, then = std::move(then)](Result<KeyValue> entry) {
    if (!entry || entry->erased || !entry->value.starts_with(kPartsHead)) return then(std::move(entry));
    auto head = read_parts_head(entry->value);
    if (!head || head->size > largest_)
      return then(failure(Code::kDataLoss, "the list of a value's parts cannot be read"));
    read_next(std::make_shared<Reading>(Reading{std::move(*entry), std::move(*head), then, {}, {}}));
  });
}

void PartedBucket::read_next(const std::shared_ptr<Reading>& r) {
  const size_t number = r->parts.keys.size();
  if (number == r->what.count) return finish(r);
  r->parts.keys.push_back(part_key(r->head.key, r->what.nonce, number));
  bucket_.read(r->parts.keys.back(), [this, r](Result<KeyValue> part) {
    const bool gone = part ? part->erased : part.error().code == Code::kNotFound;
    if (!part && !gone) return r->then(part.error());
    if (!gone) {
      r->value += part->value, r->parts.revisions.push_back(part->revision);
      if (r->value.size() <= r->what.size) return read_next(r);
    }
    // A newer value may have taken the place of this one meanwhile.
    bucket_.read(r->head.key, [r](Result<KeyValue> again) {
      const bool same = again && again->revision == r->head.revision;
      r->then(same ? failure(Code::kDataLoss, "a part of the value is not there")
                   : failure(Code::kUnavailable, "the value was written to meanwhile"));
    });
  });
}

void PartedBucket::finish(const std::shared_ptr<Reading>& r) {
  if (r->value.size() != r->what.size) return r->then(failure(Code::kDataLoss, "a part of the value is not whole"));
  if (known_.size() < kMostKnown || known_.contains(r->head.key)) known_[r->head.key] = std::move(r->parts);
  r->head.value = std::move(r->value);
  r->then(std::move(r->head));
}

// Those of the value before are of no use any more.
void PartedBucket::replace(const std::string& key, Parts parts) {
  auto before = known_.extract(key);
  if (!parts.keys.empty() && known_.size() < kMostKnown) known_[key] = std::move(parts);
  if (!before.empty()) forget(before.mapped());
}

void PartedBucket::forget(const Parts& parts) {
  for (size_t i = 0; i < parts.revisions.size(); ++i)
    bucket_.erase(parts.keys[i], parts.revisions[i], [](const Result<uint64_t>&) {});
}

}  // namespace weir::cluster
