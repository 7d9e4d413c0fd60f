#include "cluster/kept_records.h"

#include <algorithm>
#include <vector>

#include "cluster/node.h"
#include "cluster/ownership.h"

namespace weir::cluster {
namespace {

using base::Code;
using base::failure;
using base::Status;
using State = KeptRecords::Found::State;

constexpr auto kRetryUnkeptRecords = std::chrono::seconds(1);
constexpr size_t kRecordsAtOnce = 16;  // that are tried again

Status too_many() {
  return base::try_again(Code::kResourceExhausted,
                         "too many stored responses are read or written at once; try again later");
}
Status not_reached() {
  return base::try_again(Code::kUnavailable, "NATS is away, and what other nodes have stored cannot be read");
}

}  // namespace

KeptRecords::~KeptRecords() {
  env_.cancel(timer_);
  for (const auto& [number, timer] : timers_) env_.cancel(timer);
}

std::string KeptRecords::key_of(const std::string& owner, const std::string& id) const {
  return std::string(kPrefix) + mac_of(key_, owner + '\n' + id);
}

template <class T>
std::function<void(T)> KeptRecords::counted(const std::string& owner, std::function<void(T)> then) {
  ++under_way_, ++of_owner_[owner];
  return [this, owner, then = std::move(then)](T answer) {
    --under_way_;
    if (auto own = of_owner_.find(owner); --own->second == 0) of_owner_.erase(own);
    then(std::move(answer));
  };
}

bool KeptRecords::busy(const std::string& owner) const {
  auto own = of_owner_.find(owner);
  return under_way_ >= limits_.at_once || (own != of_owner_.end() && own->second >= limits_.of_one_owner);
}

void KeptRecords::later(base::Duration after, std::function<void()> work) {
  const uint64_t number = ++last_timer_;
  timers_[number] = env_.at(env_.now() + after, [this, number, work = std::move(work)] {
    timers_.erase(number);
    work();
  });
}

void KeptRecords::keep(const std::string& owner, const std::string& id, std::string record, Done then) {
  const uint64_t size = record.size();
  if (busy(owner) || size > Ownership::kLargestState || bytes_ + size > limits_.bytes_at_once) return ++lost_, then({});
  bytes_ += size;
  Done done = counted<Status>(owner, [this, size, then = std::move(then)](Status status) {
    bytes_ -= size;
    then(std::move(status));
  });
  const std::string key = key_of(owner, id);
  write(key, write_record({name_, 0, 0, std::move(record)}, key, key_), env_.now() + limits_.patience, std::move(done));
}

// An earlier try of this very write may have come through: the key is this record's alone.
void KeptRecords::write(const std::string& key, std::string value, base::Time until, Done then) {
  bucket_.write(key, value, 0, [this, key, value, until, then](base::Result<uint64_t> written) {
    if (written || written.error().code == Code::kAborted) return then({});
    if (written.error().code != Code::kUnavailable) return ++lost_, then({});
    if (reaches_() && env_.now() < until)
      return later(limits_.retry, [this, key, value, until, then] { write(key, value, until, then); });
    set_unkept(key, value);
    then({});
  });
}

void KeptRecords::set_unkept(const std::string& key, std::string value) {
  clear_unkept(key);
  if (unkept_bytes_ + value.size() > limits_.unkept_bytes) return void(++lost_);
  unkept_bytes_ += value.size();
  unkept_[key] = std::move(value);
  arm();
}

void KeptRecords::clear_unkept(const std::string& key) {
  auto found = unkept_.find(key);
  if (found == unkept_.end()) return;
  unkept_bytes_ -= found->second.size();
  unkept_.erase(found);
}

void KeptRecords::arm() {
  if (timer_ != base::TimerId::kNone || unkept_.empty()) return;
  timer_ = env_.at(env_.now() + kRetryUnkeptRecords, [this] {
    timer_ = base::TimerId::kNone;
    if (reaches_()) retry_unkept();
    arm();
  });
}

void KeptRecords::retry_unkept() {
  std::vector<std::pair<std::string, std::string>> again;
  for (const auto& [key, value] : unkept_) {
    if (again.size() == kRecordsAtOnce) break;
    again.emplace_back(key, value);
  }
  for (auto& [key, value] : again)
    bucket_.write(key, std::move(value), 0, [this, key = key](base::Result<uint64_t> written) {
      if (!written && written.error().code == Code::kUnavailable) return;
      if (!written && written.error().code != Code::kAborted) ++lost_;
      clear_unkept(key);
    });
}

void KeptRecords::read(const std::string& owner, const std::string& id, Read then) {
  if (busy(owner)) return then(too_many());
  look(key_of(owner, id), env_.now() + limits_.patience, counted<base::Result<Found>>(owner, std::move(then)));
}

void KeptRecords::look(const std::string& key, base::Time until, Read then) {
  bucket_.read(key, [this, key, until, then = std::move(then)](base::Result<Bucket::KeyValue> entry) {
    found(key, std::move(entry), until, then);
  });
}

void KeptRecords::found(const std::string& key, base::Result<Bucket::KeyValue> entry, base::Time until,
                        const Read& then) {
  if (!entry && entry.error().code == Code::kNotFound) return then(Found{});
  if (!entry && entry.error().code == Code::kUnavailable && reaches_() && env_.now() < until)
    return later(limits_.retry, [this, key, until, then] { look(key, until, then); });
  if (!entry) return then(entry.error().code == Code::kUnavailable ? not_reached() : entry.error());
  if (entry->erased) return then(Found{State::kErased, {}});
  auto record = read_record(entry->value, key, key_);
  if (record) return then(Found{State::kThere, std::move(record->state)});
  ++refused_;
  then(failure(Code::kDataLoss, "what was kept of the response cannot be read"));
}

void KeptRecords::erase(const std::string& owner, const std::string& id, Done then) {
  if (busy(owner)) return then(too_many());
  const std::string key = key_of(owner, id);
  auto waiting = unkept_.find(key);
  const std::string value = waiting == unkept_.end() ? std::string() : waiting->second;
  clear_unkept(key);
  Done done = counted<Status>(owner, std::move(then));
  bucket_.read(key, [this, key, value, done](base::Result<Bucket::KeyValue> entry) {
    if (!entry && entry.error().code == Code::kNotFound) return done({});
    if (!entry && !value.empty()) set_unkept(key, value);
    if (!entry) return done(entry.error().code == Code::kUnavailable ? not_reached() : entry.error());
    if (entry->erased) return done({});
    bucket_.erase(key, entry->revision, [done](base::Result<uint64_t> erased) {
      // Whoever has written there meanwhile has erased it.
      if (erased || erased.error().code == Code::kAborted) return done({});
      done(base::try_again(Code::kUnavailable, "it is not known whether the response was deleted: try again"));
    });
  });
}

}  // namespace weir::cluster
