#include "cluster/nats_bucket.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/encoding.h"
#include "cluster/nats_handles.h"

namespace weir::cluster {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;

constexpr int64_t kMs = 1'000'000;
constexpr const char* kOperation = "KV-Operation";  // of a mark

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

Bucket::KeyValue entry_of(kvEntry* e, size_t largest) {
  Bucket::KeyValue out;
  out.key = kvEntry_Key(e);
  out.revision = kvEntry_Revision(e);
  out.erased = kvEntry_Operation(e) != kvOp_Put;
  if (!out.erased) out.value = value_of(kvEntry_Value(e), kvEntry_ValueLen(e), largest);
  return out;
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
  natsStatus set_callbacks(natsOptions* opts);
  void connect();
  Status open();
  void opened();
  void lost(const std::string& why);
  void retry();
  void begin_watch();
  void end_watch();
  void watch(kvWatcher* watcher);
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
  Handle<kvStore> kv;
  bool up = false, told_away = false;
  base::TimerId timer = base::TimerId::kNone;
  Inbox inbox;
  std::condition_variable closing;
  bool closed = false;  // under inbox.mutex
  std::atomic<bool> watching{false};
  Handle<kvWatcher> watcher;
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
  p.kv.reset(), p.js.reset();
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
  kv.reset();
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
  kv = made<kvStore>(status, [&](auto** out) { return js_CreateKeyValue(out, js.get(), &config); });
  if (kv) return {};
  const std::string why = words(status);
  kv = made<kvStore>(status, [&](auto** out) { return js_KeyValue(out, js.get(), options.name.c_str()); });
  if (kv) return {};
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

void NatsBucket::Parts::lost(const std::string& why) {
  const bool was = std::exchange(up, false);
  if (std::exchange(told_away, true) && !was) return;
  listener.disconnected(why);
}

void NatsBucket::Parts::begin_watch() {
  if (options.watch.empty()) return;
  natsStatus status = NATS_OK;
  watcher =
      made<kvWatcher>(status, [&](auto** out) { return kvStore_Watch(out, kv.get(), options.watch.c_str(), nullptr); });
  if (!watcher) return retry();
  watching = true;
  watch_thread = std::thread([this, w = watcher.get()] { watch(w); });
}

void NatsBucket::Parts::end_watch() {
  watching = false;
  if (watcher) kvWatcher_Stop(watcher.get());
  if (watch_thread.joinable()) watch_thread.join();
  watcher.reset();
}

// On a thread of its own. The mark between what was there and what comes is an entry that is null.
void NatsBucket::Parts::watch(kvWatcher* w) {
  while (watching) {
    kvEntry* next = nullptr;
    const natsStatus status = kvWatcher_Next(&next, w, 1000);
    Handle<kvEntry> entry(next);
    if (status == NATS_TIMEOUT || (status == NATS_OK && !entry)) continue;
    if (status == NATS_OK) {
      keep(entry_of(entry.get(), options.largest));
      continue;
    }
    if (!watching) return;
    loop.post([this, still = alive] {
      if (*still && up) opened();
    });
    return;
  }
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
  how.ExpectLastSubjectSeq = expected;
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
