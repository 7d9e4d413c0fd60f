#include "cluster/nats_bucket.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/encoding.h"
#include "base/log.h"
#include "cluster/nats_handles.h"

namespace weir::cluster {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;

constexpr int64_t kMs = 1'000'000;
constexpr const char* kOperation = "KV-Operation";  // of a mark
constexpr base::Duration kHeartbeat = std::chrono::seconds(5);
constexpr int kMostPending = 64 << 20;  // bytes of messages that are not read yet: twice what the server sends ahead

std::string words(natsStatus status) { return base::presentable(natsStatus_GetText(status), 200); }
Status unavailable(natsStatus status) { return failure(Code::kUnavailable, "NATS: " + words(status)); }

std::string value_of(const void* data, int size, size_t largest) {
  return size <= 0 || size_t(size) > largest ? std::string()
                                             : std::string(static_cast<const char*>(data), size_t(size));
}

// From a message of the bucket's stream; a mark as well.
Bucket::KeyValue entry_of(const std::string& key, natsMsg* message, size_t largest) {
  Bucket::KeyValue out;
  out.key = key;
  out.revision = natsMsg_GetSequence(message);
  const char* operation = nullptr;
  out.erased = natsMsgHeader_Get(message, kOperation, &operation) == NATS_OK;
  if (!out.erased) out.value = value_of(natsMsg_GetData(message), natsMsg_GetDataLength(message), largest);
  return out;
}

// Where a message of the watch stands: in the bucket's stream, and among those of this watch, from 1 on. Zeros:
// nowhere.
jsSequencePair places_of(natsMsg* message) {
  natsStatus status = NATS_OK;
  auto meta = made<jsMsgMetaData>(status, [&](auto** out) { return natsMsg_GetMetaData(out, message); });
  return meta ? meta->Sequence : jsSequencePair{0, 0};
}

}  // namespace

struct NatsBucket::Parts {
  Parts(Loop& l, Options o, Listener heard) : loop(l), options(std::move(o)), listener(std::move(heard)) {}

  // The watch's thread, and those of the library, leave this for the loop.
  struct Inbox {
    std::mutex mutex;
    std::map<std::string, KeyValue> changed;  // under mutex
    size_t bytes = 0;                         // of their values; under mutex
    bool coming = false;                      // the loop will look; under mutex
  };

  std::string subject(const std::string& key) const { return "$KV." + options.name + '.' + key; }
  std::string_view key_of(std::string_view its_subject) const {
    return its_subject.substr(std::min(its_subject.size(), subject("").size()));
  }
  natsStatus set_callbacks(natsOptions* opts);
  void compare_life(kvStore* there);
  void connect();
  Status open();
  void opened();
  void lost(const std::string& why);
  void retry();
  void begin_watch();
  void end_watch();
  void watch(natsSubscription* watched);
  void keep(KeyValue entry);
  void take();
  void publish(const std::string& key, const std::string& value, bool mark, uint64_t expected, const OnWritten& then);

  Loop& loop;
  const Options options;
  const Listener listener;
  // Posts of other threads ask whether this is still there: it is the loop's to say.
  const std::shared_ptr<std::atomic<bool>> alive = std::make_shared<std::atomic<bool>>(true);
  Handle<natsConnection> connection;
  Handle<jsCtx> js;
  // Cleared by whichever thread is told first that the connection is lost: what is queued for the loop does not wait
  // for it one by one.
  std::atomic<bool> up{false};
  bool told_away = false, compared_life = false;
  base::TimerId timer = base::TimerId::kNone;
  Inbox inbox;
  std::condition_variable closing;
  bool closed = false;  // under inbox.mutex
  std::atomic<bool> watching{false};
  Handle<natsSubscription> watched;
  std::thread watch_thread;
};

NatsBucket::NatsBucket(Loop& loop, Options options, Listener listener)
    : parts_(std::make_unique<Parts>(loop, std::move(options), std::move(listener))) {}

NatsBucket::~NatsBucket() = default;

void NatsBucket::start() { parts_->connect(); }

void NatsBucket::stop() {
  Parts& p = *parts_;
  *p.alive = false;
  p.loop.cancel(p.timer);
  p.up = false;
  p.end_watch();
  p.js.reset();
  if (!p.connection) return;
  natsConnection_Close(p.connection.get());
  // The last of the library's callbacks: after it nobody knows of this.
  std::unique_lock lock(p.inbox.mutex);
  p.closing.wait_for(lock, std::chrono::seconds(5), [&p] { return p.closed; });
  lock.unlock();
  p.connection.reset();
}

// The library's threads call these; what they say is the loop's.
natsStatus NatsBucket::Parts::set_callbacks(natsOptions* opts) {
  auto lost = [](natsConnection*, void* p) {
    auto* parts = static_cast<Parts*>(p);
    parts->up = false;
    parts->loop.post([parts, alive = parts->alive] {
      if (*alive) parts->lost("the connection was lost");
    });
  };
  auto back = [](natsConnection*, void* p) {
    auto* parts = static_cast<Parts*>(p);
    parts->loop.post([parts, alive = parts->alive] {
      if (*alive) parts->opened();
    });
  };
  auto closed = [](natsConnection*, void* p) {
    auto* parts = static_cast<Parts*>(p);
    std::lock_guard lock(parts->inbox.mutex);
    parts->closed = true;
    parts->closing.notify_all();
  };
  natsStatus status = natsOptions_SetDisconnectedCB(opts, lost, this);
  if (status == NATS_OK) status = natsOptions_SetReconnectedCB(opts, back, this);
  return status == NATS_OK ? natsOptions_SetClosedCB(opts, closed, this) : status;
}

// Once there is a connection the library makes it anew when it is lost.
void NatsBucket::Parts::connect() {
  natsStatus status = NATS_OK;
  auto opts = made<natsOptions>(status, [](auto** out) { return natsOptions_Create(out); });
  auto set = [&status](natsStatus next) { status = status == NATS_OK ? next : status; };
  set(set_servers(opts.get(), options.url, "weir " + options.node));
  // Nothing waits in the library for the connection to come back: its sender is told that it failed.
  set(natsOptions_SetReconnectBufSize(opts.get(), 0));
  set(set_callbacks(opts.get()));
  if (status == NATS_OK)
    connection = made<natsConnection>(status, [&](auto** out) { return natsConnection_Connect(out, opts.get()); });
  if (status == NATS_OK) return opened();
  lost(words(status));
  retry();
}

void NatsBucket::Parts::retry() {
  loop.cancel(timer);
  timer = loop.at(loop.now() + kRetry, [this] { connection ? opened() : connect(); });
}

// The bucket may be there with other options, which are somebody's choice.
Status NatsBucket::Parts::open() {
  natsStatus status = NATS_OK;
  jsOptions js_options;
  jsOptions_Init(&js_options);
  js_options.Wait = kPatience.count() / kMs;
  js = made<jsCtx>(status, [&](auto** out) { return natsConnection_JetStream(out, connection.get(), &js_options); });
  if (!js) return unavailable(status);
  kvConfig config;
  kvConfig_Init(&config);
  config.Bucket = options.name.c_str();
  config.Description = "nodes of weir, and what they own";
  config.History = 1;
  config.TTL = options.life.count();
  config.MaxValueSize = 1 << 20;
  config.MaxBytes = int64_t(options.most_bytes);
  config.StorageType = options.store == Options::Store::kFile ? js_FileStorage : js_MemoryStorage;
  auto there = made<kvStore>(status, [&](auto** out) { return js_CreateKeyValue(out, js.get(), &config); });
  if (there) return {};
  const std::string why = words(status);
  there = made<kvStore>(status, [&](auto** out) { return js_KeyValue(out, js.get(), options.name.c_str()); });
  if (there) return compare_life(there.get()), Status();
  return failure(Code::kUnavailable, "the bucket '" + options.name + "' cannot be had (" + why +
                                         "); JetStream must be on, as by nats-server -js");
}

void NatsBucket::Parts::opened() {
  end_watch();
  if (Status status = open(); !status.ok()) {
    lost(status.text);
    return retry();
  }
  up = true, told_away = false;
  begin_watch();
  listener.connected();
}

// A bucket that was there keeps its own time to live, as after an upgrade, or a change of a setting.
void NatsBucket::Parts::compare_life(kvStore* there) {
  if (compared_life || options.life.count() == 0) return;
  natsStatus status = NATS_OK;
  auto has = made<kvStatus>(status, [&](auto** out) { return kvStore_Status(out, there); });
  if (!has) return;
  compared_life = true;
  const std::chrono::nanoseconds life(kvStatus_TTL(has.get()));
  if (life.count() != 0 && life >= options.life) return;
  using std::chrono::seconds;
  base::log::warning(life.count() == 0
                         ? "a bucket of NATS forgets nothing, and will be full: set the max age of its stream"
                         : "a bucket of NATS forgets earlier than it should: change the max age of its stream",
                     {{"stream", "KV_" + options.name},
                      {"seconds", std::chrono::duration_cast<seconds>(life).count()},
                      {"wanted", std::chrono::duration_cast<seconds>(options.life).count()}});
}

void NatsBucket::Parts::lost(const std::string& why) {
  const bool was = up.exchange(false);
  if (std::exchange(told_away, true) && !was) return;
  listener.disconnected(why);
}

// A consumer of our own: the library's watcher makes its own anew on a thread of its own, which frees the name of the
// consumer under whoever stops it (libnats 3.4).
void NatsBucket::Parts::begin_watch() {
  if (options.watch.empty()) return;
  const std::string stream = "KV_" + options.name, keys = subject(options.watch);
  jsSubOptions how;
  jsSubOptions_Init(&how);
  how.Stream = stream.c_str();
  how.Config.DeliverPolicy = js_DeliverLastPerSubject;
  how.Config.AckPolicy = js_AckNone;
  how.Config.MaxDeliver = 1;
  how.Config.FlowControl = true;  // what is not read yet is bounded
  how.Config.Heartbeat = kHeartbeat.count();
  how.Config.MemoryStorage = true;
  how.Config.Replicas = 1;
  natsStatus status = NATS_OK;
  watched = made<natsSubscription>(
      status, [&](auto** out) { return js_SubscribeSync(out, js.get(), keys.c_str(), nullptr, &how, nullptr); });
  if (watched) status = natsSubscription_SetPendingLimits(watched.get(), -1, kMostPending);
  if (!watched || status != NATS_OK) return retry();
  watching = true;
  watch_thread = std::thread([this, w = watched.get()] { watch(w); });
}

void NatsBucket::Parts::end_watch() {
  watching = false;
  if (watched) natsSubscription_Unsubscribe(watched.get());
  if (watch_thread.joinable()) watch_thread.join();
  watched.reset();
}

// On a thread of its own. Where messages were lost, or heartbeats do not come, it is begun anew, and all is read again.
void NatsBucket::Parts::watch(natsSubscription* w) {
  for (uint64_t next = 1; watching;) {
    natsStatus status = NATS_OK;
    auto message = made<natsMsg>(status, [&](auto** out) { return natsSubscription_NextMsg(out, w, 1000); });
    if (status == NATS_TIMEOUT) continue;
    const jsSequencePair places = message ? places_of(message.get()) : jsSequencePair{0, 0};
    if (!message || places.Consumer != next) break;
    ++next;
    KeyValue entry = entry_of(std::string(key_of(natsMsg_GetSubject(message.get()))), message.get(), options.largest);
    entry.revision = places.Stream;
    keep(std::move(entry));
  }
  if (!watching) return;
  loop.post([this, still = alive] {
    if (*still && up) retry();
  });
}

void NatsBucket::Parts::keep(KeyValue entry) {
  std::lock_guard lock(inbox.mutex);
  auto found = inbox.changed.find(entry.key);
  const bool fresh = found == inbox.changed.end();
  const size_t before = fresh ? 0 : found->second.value.size();
  if (fresh && inbox.changed.size() >= kMostKeys) return;
  if (inbox.bytes - before + entry.value.size() > kMostBytes) return;
  inbox.bytes += entry.value.size() - before;
  inbox.changed[entry.key] = std::move(entry);
  if (std::exchange(inbox.coming, true)) return;
  loop.post([this, still = alive] {
    if (*still) take();
  });
}

void NatsBucket::Parts::take() {
  std::map<std::string, KeyValue> changed;
  {
    std::lock_guard lock(inbox.mutex);
    changed.swap(inbox.changed);
    inbox.bytes = 0;
    inbox.coming = false;
  }
  for (const auto& [key, entry] : changed) listener.changed(entry);
}

// As the library's kvStore_Update(), but for a mark as well, and with the server's own code of what went wrong.
void NatsBucket::Parts::publish(const std::string& key, const std::string& value, bool mark, uint64_t expected,
                                const OnWritten& then) {
  if (!up) return then(failure(Code::kUnavailable, "NATS is away"));
  natsStatus status = NATS_OK;
  const std::string its_subject = subject(key);
  auto message = made<natsMsg>(status, [&](auto** out) {
    return natsMsg_Create(out, its_subject.c_str(), nullptr, value.data(), int(value.size()));
  });
  if (status == NATS_OK && mark) status = natsMsgHeader_Set(message.get(), kOperation, "DEL");
  if (status != NATS_OK) return then(unavailable(status));
  jsPubOptions how;
  jsPubOptions_Init(&how);
  how.MaxWait = kPatience.count() / kMs;
  how.ExpectNoMessage = expected == 0;
  how.ExpectLastSubjectSeq = expected == kAny ? 0 : expected;
  jsErrCode code{};
  auto ack =
      made<jsPubAck>(status, [&](auto** out) { return js_PublishMsg(out, js.get(), message.get(), &how, &code); });
  if (ack) return then(ack->Sequence);
  if (code == JSStreamStoreFailedErr || code == JSInsufficientResourcesErr)
    return then(failure(Code::kResourceExhausted, "the bucket is full"));
  if (code == JSStreamWrongLastSequenceErr) return then(failure(Code::kAborted, "another revision"));
  then(unavailable(status));
}

// Answers are posted: nobody is called from inside of a request.
void NatsBucket::write(const std::string& key, std::string value, uint64_t expected, OnWritten then) {
  parts_->loop.post([p = parts_.get(), alive = parts_->alive, key, value = std::move(value), expected, then] {
    if (*alive) p->publish(key, value, false, expected, then);
  });
}

void NatsBucket::erase(const std::string& key, uint64_t expected, OnWritten then) {
  parts_->loop.post([p = parts_.get(), alive = parts_->alive, key, expected, then] {
    if (*alive) p->publish(key, "", true, expected, then);
  });
}

void NatsBucket::read(const std::string& key, OnRead then) {
  parts_->loop.post([p = parts_.get(), alive = parts_->alive, key, then] {
    if (!*alive) return;
    if (!p->up) return then(failure(Code::kUnavailable, "NATS is away"));
    natsStatus status = NATS_OK;
    const std::string stream = "KV_" + p->options.name, subject = p->subject(key);
    auto message = made<natsMsg>(status, [&](auto** out) {
      return js_GetLastMsg(out, p->js.get(), stream.c_str(), subject.c_str(), nullptr, nullptr);
    });
    if (message) return then(entry_of(key, message.get(), p->options.largest));
    then(status == NATS_NOT_FOUND ? failure(Code::kNotFound, "nothing there") : unavailable(status));
  });
}

void NatsBucket::abandon() { *parts_->alive = false; }

std::string NatsBucket::client_ip() const {
  char* ip = nullptr;
  if (!parts_->connection || natsConnection_GetClientIP(parts_->connection.get(), &ip) != NATS_OK || !ip) return "";
  std::string out(ip);
  std::free(ip);
  return out;
}

}  // namespace weir::cluster
