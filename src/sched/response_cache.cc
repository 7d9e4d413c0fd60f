#include "sched/response_cache.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/attempt.h"
#include "base/clock.h"
#include "bus/cache_stats.h"
#include "sched/proxy_inbox.h"

namespace weir::sched {
namespace {

constexpr uint64_t kEntryBytes = 512;  // of an entry beside its tensors' data

void append_number(std::string& out, uint64_t number) { out.append(reinterpret_cast<const char*>(&number), 8); }
void append_text(std::string& out, std::string_view text) {
  append_number(out, text.size());
  out += text;
}

void append_hash(std::string& out, const base::Bytes& data) {
  const base::Hash128 hash = base::hash128(base::process_key(), data.span());
  append_number(out, hash.low);
  append_number(out, hash.high);
}

void append_value(std::string& out, const msg::ParamValue& value) {
  append_number(out, value.index());
  std::visit(
      [&out](const auto& x) {
        if constexpr (std::is_same_v<std::decay_t<decltype(x)>, std::string>)
          append_text(out, x);
        else
          out.append(reinterpret_cast<const char*>(&x), sizeof x);
      },
      value);
}

// They say when a Call runs, not what it asks.
bool is_schedule(std::string_view parameter) { return parameter == "priority" || parameter == "timeout"; }

uint64_t nanoseconds(base::Duration d) { return uint64_t(std::max<int64_t>(d.count(), 0)); }

class CachedInbox final : public ProxyInbox, public bus::CountsCache {
 public:
  CachedInbox(std::shared_ptr<ResponseCache> cache, std::unique_ptr<msg::Inbox> inner, bus::ModelStats& stats)
      : ProxyInbox(Receives::kAtOnce),
        cache_(std::move(cache)),
        owner_(cache_->new_owner()),
        stats_(stats),
        inner_(std::move(inner)) {}
  ~CachedInbox() override {
    inner_.reset();  // its threads may still be inside post()
    cache_->forget(owner_);
  }

  void put(msg::Call* call) override;
  void poke() override { inner_->poke(); }
  const bus::CacheStats& cache_stats() const override { return counts_; }

 private:
  struct Missed {
    msg::Home* home = nullptr;
    ResponseCache::Key key;
  };

  void receive(msg::Mail&& mail, bus::MailBursts& out) override;
  void answer(msg::Call* call, msg::Outputs&& outputs, base::Time began);
  void miss(msg::Call* call, const ResponseCache::Key& key);
  Missed leave(const msg::Mail& mail);

  const std::shared_ptr<ResponseCache> cache_;
  const uint64_t owner_;
  bus::ModelStats& stats_;
  bus::CacheStats counts_;
  std::unique_ptr<msg::Inbox> inner_;
  std::mutex mutex_;
  std::unordered_map<const msg::Call*, Missed> missed_;  // the Calls inside; under mutex_
};

void CachedInbox::put(msg::Call* call) {
  if (!ResponseCache::takes(*call)) return inner_->put(call);
  const base::Time began = base::steady_now();
  const ResponseCache::Key key = ResponseCache::key_of(owner_, *call);
  msg::Outputs outputs;
  if (cache_->find(key, outputs)) return answer(call, std::move(outputs), began);
  counts_.miss.add(nanoseconds(base::steady_now() - began));
  miss(call, key);
}

void CachedInbox::answer(msg::Call* call, msg::Outputs&& outputs, base::Time began) {
  const base::Time now = base::steady_now();
  const uint64_t took = nanoseconds(now - began);
  auto& times = call->times;
  times.queued = times.started = times.computing = began;
  times.computed = times.finished = now;
  counts_.hit.add(took);
  stats_.success.add(took);
  stats_.queue.add(0);
  const uint64_t at_ms = base::unix_ms();
  stats_.set_last_inference(at_ms);
  if (stats_.durations) stats_.durations->add_cached(took, at_ms);
  call->home->post_here({call, {std::move(outputs)}});
}

void CachedInbox::miss(msg::Call* call, const ResponseCache::Key& key) {
  msg::Home* const home = call->home;
  enter([&] {
    try {
      {
        std::lock_guard lock(mutex_);
        missed_.emplace(call, Missed{home, key});
      }
      call->home = this;
      inner_->put(call);  // this may be gone afterwards
    } catch (...) {
      {
        std::lock_guard lock(mutex_);
        missed_.erase(call);
      }
      call->home = home;
      throw;
    }
  });
}

CachedInbox::Missed CachedInbox::leave(const msg::Mail& mail) {
  std::lock_guard lock(mutex_);
  auto found = missed_.find(mail.call);
  Missed missed = found->second;
  if (mail.event.last()) missed_.erase(found);
  return missed;
}

void CachedInbox::receive(msg::Mail&& mail, bus::MailBursts& out) {
  const Missed missed = leave(mail);
  if (mail.event.last()) {
    mail.call->home = missed.home;
    if (auto* outputs = std::get_if<msg::Outputs>(&mail.event.what)) {
      const base::Time began = base::steady_now();
      (void)base::attempt("the response cache", [&] { cache_->insert(missed.key, *outputs); });
      counts_.miss.add(nanoseconds(base::steady_now() - began), 0);
    }
  }
  out.add(missed.home, std::move(mail));
}

}  // namespace

uint64_t ResponseCache::new_owner() {
  std::lock_guard lock(mutex_);
  return ++owners_;
}

void ResponseCache::forget(uint64_t owner) {
  std::list<CachedAnswer> gone;
  std::lock_guard lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    auto next = std::next(at);
    if (at->key.owner == owner) {
      bytes_ -= at->bytes;
      places_.erase(at->key);
      gone.splice(gone.end(), entries_, at);
    }
    at = next;
  }
}

bool ResponseCache::takes(const msg::Call& call) {
  if (call.generation || call.session) return false;
  uint64_t bytes = 0;
  for (const auto& tensor : call.inputs) bytes += tensor.data.size();
  return bytes <= kLargestInputs;
}

ResponseCache::Key ResponseCache::key_of(uint64_t owner, const msg::Call& call) {
  std::string text;
  append_number(text, owner);
  append_number(text, call.cache_scope);
  append_number(text, call.adapter);
  append_number(text, call.inputs.size());
  for (const auto& tensor : call.inputs) {
    append_text(text, tensor.name);
    append_number(text, uint64_t(tensor.dtype));
    append_number(text, tensor.shape.rank());
    for (int64_t d : tensor.shape.dims()) append_number(text, uint64_t(d));
    append_number(text, tensor.data.size());
    append_hash(text, tensor.data);
  }
  append_number(text, call.outputs.size());
  for (const auto& name : call.outputs) append_text(text, name);
  for (const auto& [name, value] : call.parameters) {
    if (is_schedule(name)) continue;
    append_text(text, name);
    append_value(text, value);
  }
  return {owner, base::hash128(base::process_key(), std::as_bytes(std::span(text)))};
}

bool ResponseCache::find(const Key& key, msg::Outputs& out) {
  std::lock_guard lock(mutex_);
  auto found = places_.find(key);
  if (found == places_.end()) return false;
  entries_.splice(entries_.begin(), entries_, found->second);
  out = found->second->answer;
  return true;
}

// Slices of an engine's slab would keep all of it; so the tensors are copied.
bool ResponseCache::copy(const msg::Outputs& from, CachedAnswer& to) const {
  if (ledger_) to.charge = {*ledger_, base::MemoryKind::kSessions};
  uint64_t own = kEntryBytes;
  for (const auto& tensor : from.tensors)
    own += tensor.name.size() + (tensor.data.size() < base::kLeastCharged ? tensor.data.size() : 0);
  if (!to.charge.grow(own)) return false;
  to.answer.parameters = from.parameters;
  for (const auto& tensor : from.tensors) {
    auto data = base::adopt(ledger_, base::MemoryKind::kSessions, std::string(tensor.data.view()));
    if (!data) return false;
    to.answer.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, *std::move(data)});
  }
  return true;
}

void ResponseCache::insert(const Key& key, const msg::Outputs& answer) {
  uint64_t bytes = kEntryBytes;
  for (const auto& tensor : answer.tensors) bytes += tensor.data.size() + tensor.name.size();
  if (ledger_ && ledger_->at_least(base::Overload::kShrink)) return clear();
  if (bytes > most_ / 8) return;
  std::list<CachedAnswer> one(1);
  one.front().key = key;
  one.front().bytes = bytes;
  if (!copy(answer, one.front())) return;
  std::lock_guard lock(mutex_);
  if (!places_.emplace(key, one.begin()).second) return;  // another Call has asked the same meanwhile
  entries_.splice(entries_.begin(), one);
  bytes_ += bytes;
  while (bytes_ > most_) drop_last();
}

void ResponseCache::drop_last() {
  bytes_ -= entries_.back().bytes;
  places_.erase(entries_.back().key);
  entries_.pop_back();
}

void ResponseCache::clear() {
  std::list<CachedAnswer> gone;
  std::lock_guard lock(mutex_);
  places_.clear();
  gone.swap(entries_);
  bytes_ = 0;
}

uint64_t ResponseCache::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

size_t ResponseCache::answers() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

std::unique_ptr<msg::Inbox> cached(std::shared_ptr<ResponseCache> cache, std::unique_ptr<msg::Inbox> inner,
                                   bus::ModelStats& stats) {
  return std::make_unique<CachedInbox>(std::move(cache), std::move(inner), stats);
}

}  // namespace weir::sched
