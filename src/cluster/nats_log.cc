#include "cluster/nats_log.h"

#include <nats/nats.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "base/encoding.h"
#include "base/log.h"
#include "cluster/log_message.h"

namespace weir::cluster {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;

constexpr int64_t kNsPerMs = 1'000'000;
constexpr uint64_t kLeastBytes = uint64_t(256) << 20;  // of a stream: what stays behind a snapshot has room in it

struct Destroy {
  void operator()(natsOptions* p) const { natsOptions_Destroy(p); }
  void operator()(natsConnection* p) const { natsConnection_Destroy(p); }
  void operator()(natsSubscription* p) const { natsSubscription_Destroy(p); }
  void operator()(jsCtx* p) const { jsCtx_Destroy(p); }
  void operator()(jsStreamInfo* p) const { jsStreamInfo_Destroy(p); }
  void operator()(natsMsg* p) const { natsMsg_Destroy(p); }
  void operator()(jsPubAck* p) const { jsPubAck_Destroy(p); }
};
template <class T>
using Held = std::unique_ptr<T, Destroy>;

// Makes one by a function of the library; `status` says how that went.
template <class T, class Make>
Held<T> held(natsStatus& status, Make&& make) {
  T* out = nullptr;
  status = make(&out);
  return Held<T>(out);
}

Status away(natsStatus status) {
  return base::try_again(
      Code::kUnavailable,
      "the jobs' log in NATS is away (" + base::presentable(natsStatus_GetText(status), 100) + "); try again later");
}

}  // namespace

struct NatsLog::Parts {
  Parts(Options o, std::function<void()> n) : options(std::move(o)), news(std::move(n)) {}

  const Options options;
  const std::function<void()> news;
  const std::string entries = options.name + ".entry", part = options.name + ".part",
                    snapshots = options.name + ".snapshot", told = options.name + ".news";
  Held<natsConnection> connection;
  Held<natsSubscription> subscription;
  Held<jsCtx> js;
  std::atomic<bool> up{false};
  std::atomic<uint64_t> connects{0};  // grows with every new connection
  uint64_t opened = 0;                // `connects` when the stream was looked at
  Extent known;
  std::mutex mutex;
  std::condition_variable closing;
  bool closed = false;  // under mutex

  natsStatus set_callbacks(natsOptions* opts);
  Status open();
  Status open_stream();
  std::string seal(LogMessage kind, std::string_view body) const { return seal_message(options.key, kind, body); }
  std::string_view unseal(natsMsg* message, LogMessage kind) const {
    const int size = natsMsg_GetDataLength(message);
    return unseal_message(options.key, kind, {natsMsg_GetData(message), size_t(std::max(size, 0))});
  }
  Result<uint64_t> publish(const std::string& subject, std::string_view id, std::string_view bytes);
  Result<std::string> read_parts(std::string_view list, uint64_t sequence);
  Result<std::string> content(natsMsg* message, uint64_t sequence);
  natsStatus get(Held<natsMsg>& message, const char* subject, uint64_t sequence);
};

NatsLog::NatsLog(Options options, std::function<void()> news)
    : parts_(std::make_unique<Parts>(std::move(options), std::move(news))) {}

NatsLog::~NatsLog() { stop(); }

bool NatsLog::connected() const { return parts_->up.load(); }

natsStatus NatsLog::Parts::set_callbacks(natsOptions* opts) {
  auto there = [](natsConnection*, void* p) {
    auto* parts = static_cast<Parts*>(p);
    ++parts->connects;
    parts->up = true;
    parts->news();
  };
  auto lost = [](natsConnection*, void* p) {
    auto* parts = static_cast<Parts*>(p);
    parts->up = false;
    parts->news();
  };
  auto ended = [](natsConnection*, void* p) {
    auto* parts = static_cast<Parts*>(p);
    std::lock_guard lock(parts->mutex);
    parts->closed = true;
    parts->closing.notify_all();
  };
  natsStatus status = natsOptions_SetRetryOnFailedConnect(opts, true, there, this);
  if (status == NATS_OK) status = natsOptions_SetReconnectedCB(opts, there, this);
  if (status == NATS_OK) status = natsOptions_SetDisconnectedCB(opts, lost, this);
  return status == NATS_OK ? natsOptions_SetClosedCB(opts, ended, this) : status;
}

Status NatsLog::start() {
  Parts& p = *parts_;
  natsStatus status = NATS_OK;
  auto opts = held<natsOptions>(status, [](auto** out) { return natsOptions_Create(out); });
  auto set = [&status](natsStatus next) { status = status == NATS_OK ? next : status; };
  std::string urls = p.options.url;
  std::vector<const char*> servers{urls.c_str()};
  for (size_t at = 0; (at = urls.find(',', at)) != urls.npos; ++at) {
    urls[at] = '\0';
    servers.push_back(urls.c_str() + at + 1);
  }
  set(natsOptions_SetServers(opts.get(), servers.data(), int(servers.size())));
  set(natsOptions_SetName(opts.get(), ("weir jobs " + p.options.node).c_str()));
  set(natsOptions_SetMaxReconnect(opts.get(), -1));
  set(natsOptions_SetReconnectWait(opts.get(), 250));
  set(natsOptions_SetReconnectJitter(opts.get(), 250, 250));
  set(natsOptions_SetTimeout(opts.get(), 2000));
  set(natsOptions_SetPingInterval(opts.get(), 2000));
  set(natsOptions_SetMaxPingsOut(opts.get(), 2));
  // Nothing waits in the library for the connection to come back: its sender is told that it failed.
  set(natsOptions_SetReconnectBufSize(opts.get(), 0));
  set(p.set_callbacks(opts.get()));
  if (status == NATS_OK)
    p.connection = held<natsConnection>(status, [&](auto** out) { return natsConnection_Connect(out, opts.get()); });
  if (status == NATS_NOT_YET_CONNECTED) return {};
  if (status != NATS_OK) return away(status);
  if (!p.up.exchange(true)) ++p.connects;
  return {};
}

void NatsLog::stop() {
  Parts& p = *parts_;
  if (!p.connection) return;
  p.up = false;
  p.subscription.reset(), p.js.reset();
  natsConnection_Close(p.connection.get());
  std::unique_lock lock(p.mutex);
  p.closing.wait_for(lock, std::chrono::seconds(5), [&p] { return p.closed; });
  lock.unlock();
  p.connection.reset();
}

// Whether the stream is there, and which one: looked at once for each connection.
Status NatsLog::Parts::open() {
  if (!up.load()) return away(NATS_CONNECTION_CLOSED);
  const uint64_t now = connects.load();
  if (opened == now) return {};
  natsStatus status = NATS_OK;
  jsOptions js_options;
  jsOptions_Init(&js_options);
  js_options.Wait = kPatience.count() / kNsPerMs;
  js = held<jsCtx>(status, [&](auto** out) { return natsConnection_JetStream(out, connection.get(), &js_options); });
  if (!js) return away(status);
  if (!subscription) {
    auto heard = [](natsConnection*, natsSubscription*, natsMsg* message, void* p) {
      natsMsg_Destroy(message);
      static_cast<Parts*>(p)->news();
    };
    subscription = held<natsSubscription>(
        status, [&](auto** out) { return natsConnection_Subscribe(out, connection.get(), told.c_str(), heard, this); });
    if (!subscription) return away(status);
  }
  if (Status s = open_stream(); !s.ok()) return s;
  opened = now;
  return {};
}

// It may be there with other bounds, which are somebody's choice.
Status NatsLog::Parts::open_stream() {
  natsStatus status = NATS_OK;
  jsErrCode code{};
  auto find = [&] {
    return held<jsStreamInfo>(
        status, [&](auto** out) { return js_GetStreamInfo(out, js.get(), options.name.c_str(), nullptr, &code); });
  };
  auto info = find();
  if (!info && status == NATS_NOT_FOUND) {
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    const char* subjects[] = {entries.c_str(), part.c_str(), snapshots.c_str()};
    config.Name = options.name.c_str();
    config.Description = "files, batches and jobs of weir";
    config.Subjects = subjects, config.SubjectsLen = 3;
    config.Storage = js_FileStorage;
    config.Discard = js_DiscardNew;
    config.AllowDirect = true;
    info = held<jsStreamInfo>(status, [&](auto** out) { return js_AddStream(out, js.get(), &config, nullptr, &code); });
    if (!info) info = find();  // another node was faster
  }
  if (!info)
    return base::try_again(Code::kUnavailable, "the stream '" + options.name + "' cannot be had (" +
                                                   base::presentable(natsStatus_GetText(status), 100) + ", " +
                                                   std::to_string(int(code)) + ")");
  known = {std::to_string(info->Created), info->State.LastSeq};
  return {};
}

Result<uint64_t> NatsLog::Parts::publish(const std::string& subject, std::string_view id, std::string_view bytes) {
  natsStatus status = NATS_OK;
  const std::string message_id(id);
  jsPubOptions how;
  jsPubOptions_Init(&how);
  how.MaxWait = kPatience.count() / kNsPerMs;
  if (!id.empty()) how.MsgId = message_id.c_str();
  jsErrCode code{};
  auto ack = held<jsPubAck>(status, [&](auto** out) {
    return js_Publish(out, js.get(), subject.c_str(), bytes.data(), int(bytes.size()), &how, &code);
  });
  if (ack) return ack->Sequence;
  if (code == JSStreamStoreFailedErr || code == JSInsufficientResourcesErr || code == JSStorageResourcesExceededErr)
    return failure(Code::kResourceExhausted, "the jobs' log in NATS is full (jobs.disk)");
  if (status == NATS_MAX_PAYLOAD)
    return failure(Code::kResourceExhausted, "the NATS server takes no messages of that length (max_payload)");
  if (status == NATS_NO_RESPONDERS) opened = 0;  // the stream is gone
  return away(status);
}

Result<uint64_t> NatsLog::append(std::string_view id, std::string_view bytes) {
  Parts& p = *parts_;
  if (bytes.size() > kLargest) return failure(Code::kResourceExhausted, "that is too long for the jobs' log");
  if (Status s = p.open(); !s.ok()) return s;
  const int64_t payload = natsConnection_GetMaxPayload(p.connection.get());
  const size_t part = std::min<size_t>(kPart, payload > 0 ? size_t(payload) / 2 : kPart);
  std::string message;
  if (bytes.size() <= part) {
    message = p.seal(LogMessage::kInline, bytes);
  } else if (bytes.size() > part * kMostParts) {
    return failure(Code::kResourceExhausted, "that is too long for messages of the NATS server (max_payload)");
  } else {
    std::string list = number_bytes(bytes.size());
    for (size_t at = 0; at < bytes.size(); at += part) {
      auto sequence = p.publish(p.part, {}, bytes.substr(at, part));
      if (!sequence) return sequence.error();
      list += number_bytes(*sequence);
    }
    message = p.seal(LogMessage::kInParts, list);
  }
  auto sequence = p.publish(p.entries, id, message);
  if (sequence) (void)natsConnection_Publish(p.connection.get(), p.told.c_str(), nullptr, 0);
  return sequence;
}

natsStatus NatsLog::Parts::get(Held<natsMsg>& message, const char* subject, uint64_t sequence) {
  natsStatus status = NATS_OK;
  jsDirectGetMsgOptions what;
  jsDirectGetMsgOptions_Init(&what);
  what.Sequence = sequence;
  what.NextBySubject = subject;
  message = held<natsMsg>(
      status, [&](auto** out) { return js_DirectGetMsg(out, js.get(), options.name.c_str(), nullptr, &what); });
  return status;
}

// Empty: some of them are gone, or too far away for everybody.
Result<std::string> NatsLog::Parts::read_parts(std::string_view list, uint64_t sequence) {
  if (list.size() < 16 || list.size() % 8 != 0) return std::string();
  const uint64_t bytes = number_at(list, 0);
  if (bytes > kLargest) return std::string();
  std::string out;
  for (size_t at = 8; at < list.size(); at += 8) {
    const uint64_t from = number_at(list, at);
    if (from >= sequence || sequence - from > kMostPartsBack) return std::string();
    Held<natsMsg> message;
    const natsStatus status = get(message, nullptr, from);
    if (status == NATS_NOT_FOUND) return std::string();
    if (!message) return away(status);
    const size_t size = size_t(std::max(natsMsg_GetDataLength(message.get()), 0));
    if (natsMsg_GetSubject(message.get()) != part || out.size() + size > bytes) return std::string();
    out.append(natsMsg_GetData(message.get()), size);
  }
  return out.size() == bytes ? out : std::string();
}

Result<std::string> NatsLog::Parts::content(natsMsg* message, uint64_t sequence) {
  // The kind's letter is there in whatever can be read.
  const std::string_view whole = unseal(message, LogMessage::kInline);
  if (!whole.empty()) return std::string(whole.substr(1));
  const std::string_view list = unseal(message, LogMessage::kInParts);
  return list.empty() ? std::string() : read_parts(list.substr(1), sequence);
}

Result<std::optional<NatsLog::LogEntry>> NatsLog::next(uint64_t after) {
  Parts& p = *parts_;
  if (Status s = p.open(); !s.ok()) return s;
  Held<natsMsg> message;
  const natsStatus status = p.get(message, p.entries.c_str(), after + 1);
  if (status == NATS_NOT_FOUND) return std::optional<LogEntry>();
  if (status == NATS_NO_RESPONDERS) p.opened = 0;
  if (!message) return away(status);
  LogEntry entry;
  entry.sequence = natsMsg_GetSequence(message.get());
  if (entry.sequence <= after) return away(NATS_ERR);
  if (entry.sequence > after + 1 && after > 0) {
    Held<natsMsg> behind;  // a part, or what was there is gone
    const natsStatus found = p.get(behind, nullptr, after + 1);
    if (!behind && found != NATS_NOT_FOUND) return away(found);
    entry.gap = !behind;
  }
  auto bytes = p.content(message.get(), entry.sequence);
  if (!bytes) return bytes.error();
  entry.bytes = *std::move(bytes);
  return std::optional<LogEntry>(std::move(entry));
}

Result<NatsLog::Extent> NatsLog::extent() {
  if (Status s = parts_->open(); !s.ok()) return s;
  return parts_->known;
}

Result<std::optional<NatsLog::Snapshot>> NatsLog::snapshot() {
  Parts& p = *parts_;
  if (Status s = p.open(); !s.ok()) return s;
  natsStatus status = NATS_OK;
  jsDirectGetMsgOptions what;
  jsDirectGetMsgOptions_Init(&what);
  what.LastBySubject = p.snapshots.c_str();
  auto message = held<natsMsg>(
      status, [&](auto** out) { return js_DirectGetMsg(out, p.js.get(), p.options.name.c_str(), nullptr, &what); });
  if (status == NATS_NOT_FOUND) return std::optional<Snapshot>();
  if (!message) return away(status);
  const std::string_view text = p.unseal(message.get(), LogMessage::kSnapshot);
  if (text.size() < 17 || text.size() % 8 != 1) return std::optional<Snapshot>();
  Snapshot out;
  out.sequence = number_at(text, 1), out.bytes = number_at(text, 9);
  for (size_t at = 17; at < text.size(); at += 8) out.parts.push_back(number_at(text, at));
  return std::optional<Snapshot>(std::move(out));
}

Result<uint64_t> NatsLog::append_part(std::string_view bytes) {
  if (Status s = parts_->open(); !s.ok()) return s;
  return parts_->publish(parts_->part, {}, bytes);
}

Result<std::string> NatsLog::read_part(uint64_t sequence) {
  Parts& p = *parts_;
  if (Status s = p.open(); !s.ok()) return s;
  Held<natsMsg> message;
  const natsStatus status = p.get(message, nullptr, sequence);
  if (status == NATS_NOT_FOUND) return std::string();
  if (!message) return away(status);
  if (natsMsg_GetSubject(message.get()) != p.part) return std::string();
  return std::string(natsMsg_GetData(message.get()), size_t(std::max(natsMsg_GetDataLength(message.get()), 0)));
}

// The snapshot is there before anything goes.
Status NatsLog::set_snapshot(const Snapshot& snapshot) {
  Parts& p = *parts_;
  if (Status s = p.open(); !s.ok()) return s;
  std::string body = number_bytes(snapshot.sequence) + number_bytes(snapshot.bytes);
  for (const uint64_t part : snapshot.parts) body += number_bytes(part);
  if (auto there = p.publish(p.snapshots, {}, p.seal(LogMessage::kSnapshot, body)); !there) return there.error();
  if (snapshot.sequence <= kMostPartsBack) return {};
  jsOptions how;
  jsOptions_Init(&how);
  how.Wait = kPatience.count() / kNsPerMs;
  how.Stream.Purge.Sequence = snapshot.sequence - kMostPartsBack;
  const natsStatus status = js_PurgeStream(p.js.get(), p.options.name.c_str(), &how, nullptr);
  return status == NATS_OK ? Status() : away(status);
}

Result<NatsLog::Room> NatsLog::room() {
  Parts& p = *parts_;
  if (Status s = p.open(); !s.ok()) return s;
  natsStatus status = NATS_OK;
  auto info = held<jsStreamInfo>(
      status, [&](auto** out) { return js_GetStreamInfo(out, p.js.get(), p.options.name.c_str(), nullptr, nullptr); });
  if (!info) return away(status);
  const int64_t most = info->Config->MaxBytes;
  return Room{info->State.Bytes, most > 0 ? uint64_t(most) : UINT64_MAX};
}

}  // namespace weir::cluster
