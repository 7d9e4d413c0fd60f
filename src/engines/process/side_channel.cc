#include "engines/process/side_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/release.h"

namespace weir::process {
namespace {

using base::Code;
using base::failure;
using base::Status;

// More than a socket holds: so a child that goes on sending does not keep anybody here, and what was sent before its
// answers has been taken.
constexpr int kMostPackets = 1024;

MetricLabels get_labels(DocumentReader& in) {
  MetricLabels labels(in.count(8));
  for (auto& [name, value] : labels) name = in.get_string(), value = in.get_string();
  return labels;
}

Status no_form() { return base::invalid("a request of the child has no such form"); }

}  // namespace

base::Result<std::unique_ptr<SideChannel>> SideChannel::open(Options options) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return failure(Code::kResourceExhausted, "there is no file descriptor left for a model (ulimit -n)");
  return std::unique_ptr<SideChannel>(new SideChannel(std::move(options), pair[0], pair[1]));
}

SideChannel::SideChannel(Options options, int ours, int theirs)
    : options_(std::move(options)),
      replies_(std::make_shared<Replies>()),
      readiness_(std::make_shared<ChildReadiness>(
          options_.model, [replies = replies_](uint64_t number) { return replies->ask(number); })),
      theirs_(theirs),
      metrics_(options_.metrics ? options_.metrics : std::make_shared<CustomMetrics>(options_.ledger)) {
  replies_->fd = ours;
  if (options_.ledger) charge_ = {*options_.ledger, base::MemoryKind::kInput};
}

SideChannel::~SideChannel() {
  close_child_end();
  readiness_->end("model '" + options_.model + "' is being unloaded");
  std::lock_guard lock(replies_->mutex);
  ::close(std::exchange(replies_->fd, -1));
}

void SideChannel::close_child_end() {
  if (const int fd = std::exchange(theirs_, -1); fd >= 0) ::close(fd);
}

// A child that does not read its replies waits for them in vain; so nobody waits for it.
void SideChannel::Replies::send(uint64_t number, const Status& status, const Writer& result) {
  Writer document;
  document.put(uint32_t(status.code));
  if (!status.ok()) document.put_string(std::string_view(status.text).substr(0, kLongestPart / 2));
  const std::string bytes = document.text() + (status.ok() ? result.text() : "");
  const Message message{.type = Type::kReply, .number = number, .size = bytes.size()};
  iovec parts[2] = {{const_cast<Message*>(&message), sizeof message}, {const_cast<char*>(bytes.data()), bytes.size()}};
  msghdr header{};
  header.msg_iov = parts, header.msg_iovlen = 2;
  std::lock_guard lock(mutex);
  if (fd >= 0) (void)!::sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool SideChannel::Replies::ask(uint64_t number) {
  const Message message{.type = Type::kIsReady, .number = number};
  std::lock_guard lock(mutex);
  return fd >= 0 && ::send(fd, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL) == ssize_t(sizeof message);
}

void SideChannel::ended() {
  metrics_.clear();
  readiness_->end("the process of model '" + options_.model + "' has ended");
}

bool SideChannel::serve() {
  std::lock_guard lock(mutex_);
  std::array<char, kLongestPart> room;
  for (int left = kMostPackets; left > 0; --left) {
    Message message;
    iovec parts[2] = {{&message, sizeof message}, {room.data(), room.size()}};
    msghdr header{};
    header.msg_iov = parts, header.msg_iovlen = 2;  // descriptors are dropped by the kernel
    const ssize_t n = ::recvmsg(replies_->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n < ssize_t(sizeof message) || (header.msg_flags & MSG_TRUNC) != 0) return false;
    const std::string_view bytes(room.data(), size_t(n) - sizeof message);
    if (bytes.size() != message.size || !take(message, bytes)) return false;
  }
  return true;
}

bool SideChannel::take(const Message& message, std::string_view bytes) {
  switch (message.type) {
    case Type::kMetricIncrement:
    case Type::kMetricSet:
    case Type::kMetricObserve:
    case Type::kForgetFamily: return count(message, bytes);
    case Type::kLoadModel:
    case Type::kUnloadModel: return control_models(message, bytes);
    case Type::kMetricFamily:
    case Type::kMetric:
    case Type::kMetricValue:
    case Type::kModelReady:
    case Type::kReadiness: break;
    default: return false;
  }
  DocumentReader in(bytes);
  return message.type == Type::kReadiness ? take_readiness(message, in) : answer(message, in);
}

bool SideChannel::count(const Message& message, std::string_view bytes) {
  if (message.type == Type::kForgetFamily) {
    metrics_.remove_family(message.number);
    return true;
  }
  DocumentReader in(bytes);
  const auto value = in.get<double>();
  if (!in.at_end()) return false;
  if (message.type == Type::kMetricIncrement) metrics_.increment(message.number, value);
  if (message.type == Type::kMetricSet) metrics_.set(message.number, value);
  if (message.type == Type::kMetricObserve) metrics_.observe(message.number, value);
  return true;
}

bool SideChannel::answer(const Message& message, DocumentReader& in) {
  Writer out;
  Status status;
  if (message.type == Type::kMetricFamily) status = make_family(in, out);
  if (message.type == Type::kMetric) status = make_metric(in, out);
  if (message.type == Type::kMetricValue) status = read_value(in, out);
  if (message.type == Type::kModelReady)
    if (status = ask_other(message, in); status.ok()) return true;
  replies_->send(message.number, status, out);
  return true;
}

bool SideChannel::take_readiness(const Message& message, DocumentReader& in) {
  const bool ready = in.get<uint8_t>() != 0;
  const std::string why_not = in.get_string();
  if (in.at_end()) readiness_->answered(message.number, ready, why_not);
  return in.at_end();
}

Status SideChannel::make_family(DocumentReader& in, Writer& out) {
  const std::string name = in.get_string(), help = in.get_string();
  const auto kind = in.get<uint8_t>();
  if (!in.at_end() || kind > uint8_t(MetricKind::kHistogram)) return no_form();
  auto number = metrics_.add_family(name, help, MetricKind(kind));
  if (!number) return std::move(number).error();
  out.put(*number);
  return {};
}

Status SideChannel::make_metric(DocumentReader& in, Writer& out) {
  const auto family = in.get<uint64_t>();
  auto labels = get_labels(in);
  std::vector<double> bounds(in.count(sizeof(double)));
  for (double& bound : bounds) bound = in.get<double>();
  if (!in.at_end()) return no_form();
  auto number = metrics_.add_metric(family, std::move(labels), bounds);
  if (!number) return std::move(number).error();
  out.put(*number);
  return {};
}

Status SideChannel::read_value(DocumentReader& in, Writer& out) const {
  const auto number = in.get<uint64_t>();
  if (!in.at_end()) return no_form();
  auto value = metrics_.value(number);
  if (!value) return std::move(value).error();
  out.put(*value);
  return {};
}

// Whether another model is ready. One that says so itself is asked: the reply comes when it has answered.
Status SideChannel::ask_other(const Message& message, DocumentReader& in) {
  const std::string model = in.get_string(), version = in.get_string();
  if (!in.at_end()) return no_form();
  base::Result<Target> target = failure(Code::kNotFound, "there are no other models");
  if (options_.find) target = options_.find(model, version);
  auto reply = [replies = replies_, number = message.number](bool ready) {
    Writer out;
    out.put(uint8_t(ready));
    replies->send(number, {}, out);
  };
  if (!target || !target->readiness) return reply(target.has_value()), Status();
  {
    std::lock_guard lock(replies_->mutex);
    auto& questions = replies_->questions;
    const base::Time now = base::steady_now();
    if (questions.size() >= kMostQuestions)
      std::erase_if(questions, [&](const auto& question) { return now - question.second >= options_.patience; });
    if (questions.size() >= kMostQuestions)
      return failure(Code::kResourceExhausted, "a model asks for " + std::to_string(kMostQuestions) +
                                                   " others at once at most whether they are ready");
    if (!questions.emplace(message.number, now).second) return no_form();
  }
  target->readiness->ask([replies = replies_, reply, number = message.number](const std::string& why_not) {
    {
      std::lock_guard lock(replies->mutex);
      if (replies->questions.erase(number) == 0) return;
    }
    reply(why_not.empty());
  });
  return {};
}

// Parts follow each other, of one request at a time; kMore says that another one comes.
bool SideChannel::control_models(const Message& message, std::string_view bytes) {
  const bool more = (message.flags & kMore) != 0;
  Status status;
  if (parts_.size() + bytes.size() > options_.most_request)
    status =
        failure(Code::kResourceExhausted, "a request to load a model has " + std::to_string(options_.most_request) +
                                              " bytes at most (process_answer)");
  else if ((more || !parts_.empty()) && !charge_.grow(bytes.size()))
    status = failure(Code::kResourceExhausted, options_.ledger->shortage());
  if (status.ok() && more) {
    parts_.append(bytes);
    return true;
  }
  if (status.ok()) {
    if (!parts_.empty()) bytes = parts_.append(bytes);
    DocumentReader in(bytes);
    status = begin(message, in);
  }
  base::release(parts_);
  charge_.clear();
  if (status.ok()) return true;
  replies_->send(message.number, status, {});
  return !more;  // the parts that follow would be taken for a request of their own
}

Status SideChannel::begin(const Message& message, DocumentReader& in) {
  const std::string name = in.get_string();
  ModelControl::Parameters parameters;
  uint8_t dependents = 0;
  if (message.type == Type::kUnloadModel) {
    dependents = in.get<uint8_t>();
  } else {
    for (uint32_t left = in.count(8); left > 0 && in.ok(); --left) {
      std::string key = in.get_string();
      parameters[std::move(key)] = in.get_string();
    }
  }
  if (!in.at_end()) return no_form();
  if (!options_.control.load) return failure(Code::kUnimplemented, "models cannot load and unload models here");
  {
    std::lock_guard lock(replies_->mutex);
    if (replies_->loads >= kMostLoads)
      return failure(Code::kResourceExhausted,
                     "a model loads and unloads " + std::to_string(kMostLoads) + " models at once at most");
    ++replies_->loads;
  }
  auto done = [replies = replies_, number = message.number](const Status& status) {
    {
      std::lock_guard lock(replies->mutex);
      --replies->loads;
    }
    replies->send(number, status, {});
  };
  const bool loads = message.type == Type::kLoadModel;
  base::log::info(loads ? "a model loads another" : "a model unloads another",
                  {{"model", options_.model}, {"other", name.substr(0, 200)}});
  if (loads)
    options_.control.load(name, std::move(parameters), std::move(done));
  else
    options_.control.unload(name, dependents != 0 ? Dependents::kUnload : Dependents::kKeep, std::move(done));
  return {};
}

}  // namespace weir::process
