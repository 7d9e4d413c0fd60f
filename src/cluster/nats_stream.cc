#include "cluster/nats_stream.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
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

using Clock = std::chrono::steady_clock;

constexpr int64_t kNsPerMs = 1'000'000;
constexpr uint64_t kLeastBytes = uint64_t(256) << 20;  // of a stream: what stays behind a snapshot has room in it

Status away(natsStatus status) {
  return base::try_again(
      Code::kUnavailable,
      "the jobs' log in NATS is away (" + base::presentable(natsStatus_GetText(status), 100) + "); try again later");
}

}  // namespace

struct NatsStream::Parts {
  Parts(Options o, std::function<void()> n) : options(std::move(o)), news(std::move(n)) {}

  const Options options;
  const std::function<void()> news;
  const std::string told = options.name + ".news";
  Handle<natsConnection> connection;
  Handle<natsSubscription> subscription;
  Handle<jsCtx> js;
  std::atomic<bool> up{false};
  std::atomic<uint64_t> connects{0};  // grows with every new connection
  uint64_t opened = 0;                // `connects` when the stream was looked at
  Clock::time_point looked;           // when that was
  uint64_t newest = 0;                // the greatest sequence that this stream was seen to have
  Known known;
  Status silent;                 // what was said when NATS had not answered in time,
  Clock::time_point silent_at;   // and when that was
  uint64_t silent_connects = 0;  // with `connects` as it was
  std::mutex mutex;
  std::condition_variable closing;
  bool closed = false, subscribed = false;  // under mutex; `subscribed`: the subscription may still call

  natsStatus set_callbacks(natsOptions* opts);
  Status open();
  Status look();
  Status open_stream();
  Handle<jsStreamInfo> info(natsStatus& status, jsErrCode& code);
  Handle<jsStreamInfo> add(jsStreamConfig& config, natsStatus& status, jsErrCode& code);
};

NatsStream::NatsStream(Options options, std::function<void()> news)
    : parts_(std::make_unique<Parts>(std::move(options), std::move(news))) {}

NatsStream::~NatsStream() { stop(); }

bool NatsStream::connected() const { return parts_->up.load(); }
const NatsStream::Known& NatsStream::known() const { return parts_->known; }
Status NatsStream::open() { return parts_->open(); }
std::string NatsStream::subject(std::string_view what) const { return (parts_->options.name + '.').append(what); }

natsStatus NatsStream::Parts::set_callbacks(natsOptions* opts) {
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

Status NatsStream::start() {
  Parts& p = *parts_;
  natsStatus status = NATS_OK;
  auto opts = made<natsOptions>(status, [](auto** out) { return natsOptions_Create(out); });
  auto set = [&status](natsStatus next) { status = status == NATS_OK ? next : status; };
  set(set_servers(opts.get(), p.options.url, "weir jobs " + p.options.node));
  // Nothing waits in the library for the connection to come back: its sender is told that it failed.
  set(natsOptions_SetReconnectBufSize(opts.get(), 0));
  set(p.set_callbacks(opts.get()));
  if (status == NATS_OK)
    p.connection =
        made_or_begun<natsConnection>(status, [&](auto** out) { return natsConnection_Connect(out, opts.get()); });
  if (status == NATS_NOT_YET_CONNECTED) return {};
  if (status != NATS_OK) return away(status);
  if (!p.up.exchange(true)) ++p.connects;
  return {};
}

void NatsStream::abandon() {
  parts_->up = false;
  if (parts_->connection) natsConnection_Close(parts_->connection.get());
}

void NatsStream::stop() {
  Parts& p = *parts_;
  if (!p.connection) return;
  p.up = false;
  p.subscription.reset(), p.js.reset();
  natsConnection_Close(p.connection.get());
  std::unique_lock lock(p.mutex);
  p.closing.wait_for(lock, std::chrono::seconds(5), [&p] { return p.closed && !p.subscribed; });
  lock.unlock();
  p.connection.reset();
}

// A server that does not answer is not asked again for each piece of work: each would wait for kPatience.
Status NatsStream::Parts::open() {
  if (!up.load()) return away(NATS_CONNECTION_CLOSED);
  const bool asked = silent_connects == connects.load() && Clock::now() - silent_at < kLookAgain;
  if (asked && !silent.ok()) return silent;
  silent = Status();
  return look();
}

Status NatsStream::Parts::look() {
  const uint64_t now = connects.load();
  if (opened == now) return Clock::now() - looked < kLookAgain ? Status() : open_stream();
  natsStatus status = NATS_OK;
  jsOptions js_options;
  jsOptions_Init(&js_options);
  js_options.Wait = kPatience.count() / kNsPerMs;
  js = made<jsCtx>(status, [&](auto** out) { return natsConnection_JetStream(out, connection.get(), &js_options); });
  if (!js) return away(status);
  if (!subscription) {
    auto heard = [](natsConnection*, natsSubscription*, natsMsg* message, void* p) {
      natsMsg_Destroy(message);
      static_cast<Parts*>(p)->news();
    };
    subscription = made<natsSubscription>(
        status, [&](auto** out) { return natsConnection_Subscribe(out, connection.get(), told.c_str(), heard, this); });
    if (!subscription) return away(status);
    auto silent = [](void* p) {
      auto* parts = static_cast<Parts*>(p);
      std::lock_guard lock(parts->mutex);
      parts->subscribed = false;
      parts->closing.notify_all();
    };
    std::lock_guard lock(mutex);
    subscribed = natsSubscription_SetOnCompleteCB(subscription.get(), silent, this) == NATS_OK;
  }
  if (Status s = open_stream(); !s.ok()) return s;
  opened = now;
  return {};
}

Handle<jsStreamInfo> NatsStream::Parts::info(natsStatus& status, jsErrCode& code) {
  return made<jsStreamInfo>(
      status, [&](auto** out) { return js_GetStreamInfo(out, js.get(), options.name.c_str(), nullptr, &code); });
}

// The server reserves what a stream may have: of less room than was asked for, half is asked for, and half of that.
Handle<jsStreamInfo> NatsStream::Parts::add(jsStreamConfig& config, natsStatus& status, jsErrCode& code) {
  const auto wanted = int64_t(std::min<uint64_t>(std::max(options.most_bytes, kLeastBytes), INT64_MAX));
  for (uint64_t most = std::max(options.most_bytes, kLeastBytes);; most = std::max(most / 2, kLeastBytes)) {
    config.MaxBytes = int64_t(std::min<uint64_t>(most, INT64_MAX));
    auto there =
        made<jsStreamInfo>(status, [&](auto** out) { return js_AddStream(out, js.get(), &config, nullptr, &code); });
    const bool too_much = code == JSStorageResourcesExceededErr || code == JSInsufficientResourcesErr;
    if (there && config.MaxBytes < wanted)
      base::log::warning("NATS reserves less for the jobs' log than was asked for: it may fill up",
                         {{"stream", options.name}, {"bytes", config.MaxBytes}, {"wanted", wanted}});
    if (there || !too_much || most == kLeastBytes) return there;
  }
}

// It may be there with other bounds, which are somebody's choice.
Status NatsStream::Parts::open_stream() {
  natsStatus status = NATS_OK;
  jsErrCode code{};
  auto there = info(status, code);
  if (!there && status == NATS_NOT_FOUND) {
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    const std::string entries = options.name + ".entry", part = options.name + ".part",
                      snapshots = options.name + ".snapshot", copies = options.name + ".copy";
    const char* subjects[] = {entries.c_str(), part.c_str(), snapshots.c_str(), copies.c_str()};
    config.Name = options.name.c_str();
    config.Description = "files, batches and jobs of weir";
    config.Subjects = subjects, config.SubjectsLen = 4;
    config.Storage = js_FileStorage;
    config.Discard = js_DiscardNew;
    config.AllowDirect = true;
    there = add(config, status, code);
    if (!there) there = info(status, code);  // another node was faster
  }
  if (!there) {
    Status why = base::try_again(Code::kUnavailable, "the stream '" + options.name + "' in NATS cannot be had (" +
                                                         base::presentable(natsStatus_GetText(status), 100) + ", " +
                                                         std::to_string(int(code)) + ")");
    if (status == NATS_TIMEOUT) silent = why, silent_at = Clock::now(), silent_connects = connects.load();
    return why;
  }
  const Known before = std::exchange(known, {std::to_string(there->Created), connects.load()});
  if (before != known) newest = 0;
  looked = Clock::now();
  return {};
}

Result<uint64_t> NatsStream::publish(const std::string& subject, std::string_view id, std::string_view bytes,
                                     const Expected& expected) {
  Parts& p = *parts_;
  natsStatus status = NATS_OK;
  const std::string message_id(id);
  jsPubOptions how;
  jsPubOptions_Init(&how);
  how.MaxWait = kPatience.count() / kNsPerMs;
  if (!id.empty()) how.MsgId = message_id.c_str();
  if (expected.of_subject)
    how.ExpectNoMessage = *expected.of_subject == 0, how.ExpectLastSubjectSeq = *expected.of_subject;
  how.ExpectLastSeq = expected.of_all;
  jsErrCode code{};
  auto ack = made<jsPubAck>(status, [&](auto** out) {
    return js_Publish(out, p.js.get(), subject.c_str(), bytes.data(), int(bytes.size()), &how, &code);
  });
  // It is another stream, or has lost its end: as with a new connection, all is looked at again.
  if (ack && !ack->Duplicate && ack->Sequence <= p.newest) return ++p.connects, away(NATS_ERR);
  if (ack) return p.newest = std::max(p.newest, ack->Sequence), ack->Sequence;
  if (code == JSStreamWrongLastSequenceErr) return failure(Code::kAborted, "another node was faster");
  if (code == JSStreamStoreFailedErr || code == JSInsufficientResourcesErr || code == JSStorageResourcesExceededErr)
    return failure(Code::kResourceExhausted, "the jobs' log in NATS is full (jobs.disk)");
  if (status == NATS_MAX_PAYLOAD)
    return failure(Code::kResourceExhausted, "the NATS server takes no messages of that length (max_payload)");
  if (status == NATS_NO_RESPONDERS) p.opened = 0;  // the stream is gone
  return away(status);
}

Result<std::optional<NatsStream::Message>> NatsStream::get(uint64_t sequence, const std::string& subject) {
  Parts& p = *parts_;
  natsStatus status = NATS_OK;
  jsDirectGetMsgOptions what;
  jsDirectGetMsgOptions_Init(&what);
  what.Sequence = sequence;
  if (!subject.empty()) what.NextBySubject = subject.c_str();
  auto message = made<natsMsg>(
      status, [&](auto** out) { return js_DirectGetMsg(out, p.js.get(), p.options.name.c_str(), nullptr, &what); });
  // Whoever has answered may be behind; the stream's leader is not.
  if (status == NATS_NOT_FOUND && subject.empty())
    message = made<natsMsg>(status, [&](auto** out) {
      return js_GetMsg(out, p.js.get(), p.options.name.c_str(), sequence, nullptr, nullptr);
    });
  if (status == NATS_NOT_FOUND) return std::optional<Message>();
  if (status == NATS_NO_RESPONDERS) p.opened = 0;
  if (!message) return away(status);
  Message out;
  out.sequence = natsMsg_GetSequence(message.get());
  if (out.sequence < sequence) return away(NATS_ERR);
  out.subject = natsMsg_GetSubject(message.get());
  out.bytes.assign(natsMsg_GetData(message.get()), size_t(std::max(natsMsg_GetDataLength(message.get()), 0)));
  return std::optional(std::move(out));
}

Status NatsStream::drop_before(uint64_t sequence) {
  jsOptions how;
  jsOptions_Init(&how);
  how.Wait = kPatience.count() / kNsPerMs;
  how.Stream.Purge.Sequence = sequence;
  const natsStatus status = js_PurgeStream(parts_->js.get(), parts_->options.name.c_str(), &how, nullptr);
  return status == NATS_OK ? Status() : away(status);
}

Result<NatsStream::Size> NatsStream::size() {
  Parts& p = *parts_;
  natsStatus status = NATS_OK;
  jsErrCode code{};
  auto there = p.info(status, code);
  if (!there) return away(status);
  if (std::to_string(there->Created) != p.known.identity) return p.opened = 0, away(NATS_ERR);
  const int64_t most = there->Config->MaxBytes;
  return Size{there->State.Bytes, most > 0 ? uint64_t(most) : UINT64_MAX, there->State.FirstSeq, there->State.LastSeq};
}

size_t NatsStream::longest() const {
  const int64_t payload = natsConnection_GetMaxPayload(parts_->connection.get());
  return payload > 0 ? size_t(payload) : size_t(1) << 20;
}

void NatsStream::tell() { (void)natsConnection_Publish(parts_->connection.get(), parts_->told.c_str(), nullptr, 0); }

}  // namespace weir::cluster
