#include "cluster/kept_records.h"

#include <algorithm>
#include <vector>

#include "cluster/node.h"

namespace weir::cluster {
namespace {

using base::Code;
using base::failure;
using base::Status;
using State = KeptRecords::Found::State;

constexpr auto kRetryUnkeptRecords = std::chrono::seconds(1);
constexpr size_t kRecordsAtOnce = 16;  // that are tried again, or forgotten

Status too_many() {
  return base::try_again(Code::kResourceExhausted,
                         "too many stored responses are read or written at once; try again later");
}
Status no_turn() {
  return base::try_again(Code::kUnavailable,
                         "too many stored responses of other nodes are read at once; try again later");
}
Status not_reached() {
  return base::try_again(Code::kUnavailable, "NATS is away, and what other nodes have stored cannot be read");
}

Status maybe_deleted() {
  return base::try_again(Code::kUnavailable, "it is not known whether the response was deleted: try again");
}

// No further try of a write follows. True: its record was erased meanwhile, and so is what was written of it.
bool end_write(std::map<std::string, bool>& writing, Bucket& bucket, const std::string& key,
               const base::Result<uint64_t>& written) {
  const bool erased = std::exchange(writing[key], false);
  writing.erase(key);
  if (written && erased) bucket.erase(key, *written, [](const auto&) {});
  return erased;
}

}  // namespace

struct KeptRecords::Reading {
  std::string owner, key;
  base::Time until;
  Read then;  // null: it was answered
  uint64_t timer = 0;
  bool begun = false;
  base::MemoryCharge charge;
};

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

uint64_t KeptRecords::later(base::Duration after, std::function<void()> work) {
  const uint64_t number = ++last_timer_;
  timers_[number] = env_.at(env_.now() + after, [this, number, work = std::move(work)] {
    timers_.erase(number);
    work();
  });
  return number;
}

void KeptRecords::drop_timer(uint64_t number) {
  auto timer = timers_.extract(number);
  if (!timer.empty()) env_.cancel(timer.mapped());
}

// The write itself goes on behind a bucket that does not answer.
KeptRecords::Done KeptRecords::in_time(Done then) {
  auto waits = std::make_shared<Done>(std::move(then));
  const uint64_t timer = later(limits_.patience, [this, waits] {
    stalled_ = true;
    if (Done tell = std::exchange(*waits, nullptr)) tell({});
  });
  return [this, waits, timer](Status status) {
    drop_timer(timer);
    if (Done tell = std::exchange(*waits, nullptr)) tell(std::move(status));
  };
}

void KeptRecords::keep(const std::string& owner, const std::string& id, std::string record, Done then) {
  const uint64_t size = record.size();
  if (busy(owner) || size > Ownership::kLargestState || bytes_ + size > limits_.bytes_at_once) return ++lost_, then({});
  bytes_ += size;
  Done told;
  if (stalled_)
    then({});
  else
    told = in_time(std::move(then));
  Done done = counted<Status>(owner, [this, size, told = std::move(told)](Status status) {
    bytes_ -= size;
    if (told) told(std::move(status));
  });
  const std::string key = key_of(owner, id);
  write(key, write_record({name_, 0, 0, std::move(record)}, key, key_), env_.now() + limits_.patience, std::move(done));
}

// An earlier try of this very write may have come through: the key is this record's alone.
void KeptRecords::write(const std::string& key, std::string value, base::Time until, Done then) {
  writing_.emplace(key, false);
  bucket_.write(key, value, 0, [this, key, value, until, then](base::Result<uint64_t> written) {
    const bool away = !written && written.error().code == Code::kUnavailable;
    if (!away) stalled_ = false;
    if (away && !writing_[key] && reaches_() && env_.now() < until)
      return (void)later(limits_.retry, [this, key, value, until, then] { write(key, value, until, then); });
    if (!end_write(writing_, bucket_, key, written) && away) set_unkept(key, value);
    if (!written && !away && written.error().code != Code::kAborted) ++lost_;
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
  for (auto& [key, value] : again) {
    if (!writing_.emplace(key, false).second) continue;
    bucket_.write(key, std::move(value), 0, [this, key = key](base::Result<uint64_t> written) {
      end_write(writing_, bucket_, key, written);
      if (!written && written.error().code == Code::kUnavailable) return;
      if (!written && written.error().code != Code::kAborted) ++lost_;
      clear_unkept(key);
    });
  }
}

void KeptRecords::read(const std::string& owner, const std::string& id, Read then) {
  if (busy(owner)) return then(too_many());
  auto reading = std::make_shared<Reading>();
  reading->owner = owner, reading->key = key_of(owner, id), reading->until = env_.now() + limits_.patience;
  reading->then = counted<base::Result<Found>>(owner, std::move(then));
  reading->timer = later(limits_.patience, [this, reading] {
    answer(*reading, reading->begun ? not_reached() : no_turn());
    std::erase(waiting_, reading);
  });
  waiting_.push_back(std::move(reading));
  begin_reads();
}

// The first one for which its owner, and all together, have room.
std::shared_ptr<KeptRecords::Reading> KeptRecords::next_read() {
  if (reading_bytes_ + kOfRead > limits_.read_bytes) return nullptr;
  const auto has_room = [&](const std::shared_ptr<Reading>& reading) {
    auto own = reading_of_.find(reading->owner);
    return own == reading_of_.end() || own->second + kOfRead <= limits_.read_bytes_of_one_owner;
  };
  auto at = std::find_if(waiting_.begin(), waiting_.end(), has_room);
  if (at == waiting_.end()) return nullptr;
  auto out = std::move(*at);
  waiting_.erase(at);
  return out;
}

// The bucket may answer at once, and then this is called from inside of itself.
void KeptRecords::begin_reads() {
  if (std::exchange(beginning_, true)) return;
  while (auto reading = next_read()) {
    if (memory_) reading->charge = {*memory_, base::MemoryKind::kAnswers};
    if (!reading->charge.grow(kOfRead)) {
      answer(*reading, base::try_again(Code::kUnavailable, memory_->shortage()));
      continue;
    }
    reading->begun = true;
    reading_bytes_ += kOfRead, reading_of_[reading->owner] += kOfRead;
    look(reading);
  }
  beginning_ = false;
}

void KeptRecords::look(const std::shared_ptr<Reading>& reading) {
  bucket_.read(reading->key,
               [this, reading](base::Result<Bucket::KeyValue> entry) { found(reading, std::move(entry)); });
}

void KeptRecords::found(const std::shared_ptr<Reading>& reading, base::Result<Bucket::KeyValue> entry) {
  const bool away = !entry && entry.error().code == Code::kUnavailable;
  if (away && reading->then && reaches_() && env_.now() < reading->until)
    return (void)later(limits_.retry, [this, reading] { look(reading); });
  if (away) return end_read(reading, not_reached());
  if (!entry && entry.error().code == Code::kNotFound) return end_read(reading, Found{});
  if (!entry) return end_read(reading, entry.error());
  if (entry->erased) return end_read(reading, Found{State::kErased, {}});
  end_read(reading, found_there(*reading, *entry));
}

// From here on the record is charged for as long as it is.
base::Result<KeptRecords::Found> KeptRecords::found_there(Reading& reading, const Bucket::KeyValue& entry) {
  auto record = read_record(entry.value, reading.key, key_);
  if (!record) return ++refused_, failure(Code::kDataLoss, "what was kept of the response cannot be read");
  reading.charge.clear();
  auto bytes = base::adopt(memory_, base::MemoryKind::kAnswers, std::move(record->state));
  if (!bytes) return base::try_again(Code::kUnavailable, memory_->shortage());
  return Found{State::kThere, std::move(*bytes)};
}

void KeptRecords::end_read(const std::shared_ptr<Reading>& reading, base::Result<Found> found) {
  reading_bytes_ -= kOfRead;
  if (auto own = reading_of_.find(reading->owner); (own->second -= kOfRead) == 0) reading_of_.erase(own);
  reading->charge.clear();
  answer(*reading, std::move(found));
  begin_reads();
}

void KeptRecords::answer(Reading& reading, base::Result<Found> found) {
  drop_timer(reading.timer);
  if (Read then = std::exchange(reading.then, nullptr)) then(std::move(found));
}

void KeptRecords::erase(const std::string& owner, const std::string& id, Done then) {
  if (busy(owner)) return then(too_many());
  // The deletion itself goes on behind a bucket that does not answer.
  auto waits = std::make_shared<Done>(std::move(then));
  const uint64_t timer = later(limits_.patience, [waits] {
    if (Done tell = std::exchange(*waits, nullptr)) tell(maybe_deleted());
  });
  erase_key(key_of(owner, id), counted<Status>(owner, [this, waits, timer](Status status) {
              drop_timer(timer);
              if (Done tell = std::exchange(*waits, nullptr)) tell(std::move(status));
            }));
}

void KeptRecords::erase_key(const std::string& key, Done tell) {
  // A write of it that is under way must not undo what is told.
  const Done done = [this, key, tell = std::move(tell)](Status status) {
    if (auto write = writing_.find(key); status.ok() && write != writing_.end()) write->second = true;
    tell(std::move(status));
  };
  auto waiting = unkept_.find(key);
  const std::string value = waiting == unkept_.end() ? std::string() : waiting->second;
  clear_unkept(key);
  bucket_.erase(key, Bucket::kAny, [this, key, value, done](base::Result<uint64_t> erased) {
    const Code code = erased ? Code::kOk : erased.error().code;
    // ABORTED: whoever has written there meanwhile has erased it.
    if (code == Code::kOk || code == Code::kAborted || code == Code::kNotFound) return done({});
    if (!value.empty()) set_unkept(key, value);
    if (code != Code::kUnavailable && code != Code::kResourceExhausted) return done(erased.error());
    done(reaches_() ? maybe_deleted() : not_reached());
  });
}

void KeptRecords::forget(const std::string& owner, const std::string& id) {
  if (to_forget_.size() >= limits_.to_forget) return void(++left_);
  to_forget_.push_back(key_of(owner, id));
  forget_next();
}

void KeptRecords::forget_next() {
  while (!forgets_later_ && forgetting_ < kRecordsAtOnce && !to_forget_.empty()) {
    std::string key = std::move(to_forget_.front());
    to_forget_.pop_front();
    ++forgetting_;
    erase_key(key, [this, key](const Status& status) {
      --forgetting_;
      // A record that cannot be read now cannot be later.
      if (!status.ok() && status.code != Code::kUnavailable) ++left_;
      if (status.code != Code::kUnavailable) return forget_next();
      to_forget_.push_back(key);
      if (std::exchange(forgets_later_, true)) return;
      later(kRetryUnkeptRecords, [this] {
        forgets_later_ = false;
        forget_next();
      });
    });
  }
}

}  // namespace weir::cluster
