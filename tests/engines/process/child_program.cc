// A child for tests: its first argument says what it does. It takes FP32 tensors "x" and answers with "y" = x + 1.
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "engines/process/document.h"
#include "engines/process/protocol.h"

using namespace weir;
using namespace weir::process;

namespace {

struct Mapping {
  char* data = nullptr;
  size_t size = 0;
};

std::string what;
Mapping input, output;

void send_message(const Message& message) {
  if (::send(kSocketFd, &message, sizeof message, 0) != ssize_t(sizeof message)) ::_exit(9);
}

Message receive() {
  Message message;
  for (;;) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    iovec io{&message, sizeof message};
    msghdr header{};
    header.msg_iov = &io, header.msg_iovlen = 1, header.msg_control = control, header.msg_controllen = sizeof control;
    if (::recvmsg(kSocketFd, &header, 0) != ssize_t(sizeof message)) ::_exit(0);
    if (message.type != Type::kInputRegion && message.type != Type::kOutputRegion && message.type != Type::kReplyRegion)
      return message;
    int fd;
    std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof fd);
    if (what == "shrink" && ::ftruncate(fd, 0) == 0) ::_exit(8);  // it must not succeed
    if (message.type == Type::kReplyRegion) {
      ::close(fd);
      continue;
    }
    Mapping& mapping = message.type == Type::kInputRegion ? input : output;
    if (mapping.data) ::munmap(mapping.data, mapping.size);
    mapping = {static_cast<char*>(::mmap(nullptr, message.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)),
               message.size};
    ::close(fd);
    if (message.type == Type::kOutputRegion) return message;
  }
}

Message receive_order() {
  for (;;)
    if (Message message = receive(); message.type != Type::kOutputRegion) return message;
}

void send_document(Type type, uint64_t number, const Writer& document, size_t at, uint32_t flags = 0) {
  std::memcpy(output.data + at, document.text().data(), document.text().size());
  send_message({.type = type, .flags = flags, .number = number, .offset = at, .size = document.text().size()});
}

struct Input {
  uint64_t call = 0;
  std::vector<TensorPlace> tensors;
};

std::vector<Input> read_requests(const Message& run) {
  DocumentReader in(std::string_view(input.data + run.offset, run.size));
  std::vector<Input> requests(in.count(1));
  for (auto& request : requests) {
    request.call = in.get<uint64_t>();
    (void)in.get_string();
    (void)in.get<uint32_t>();
    (void)in.get<uint64_t>();
    (void)in.get_parameters();
    for (uint32_t n = in.get<uint32_t>(); n > 0; --n) (void)in.get_string();
    for (uint32_t n = in.get<uint32_t>(); n > 0; --n) request.tensors.push_back(get_tensor(in));
  }
  return requests;
}

void misbehave_before_answering() {
  if (what == "exit") ::_exit(3);
  if (what == "abort") {
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer has a handler of its own
    ::raise(SIGSEGV);
  }
  if (what == "hang")
    for (;;) ::pause();
  if (what == "close") {
    ::close(kSocketFd);
    for (;;) ::pause();
  }
  if (what == "strange") send_message({.type = Type(77)});
  if (what == "packet") (void)!::send(kSocketFd, "short", 5, 0);
  if (what == "outside") send_message({.type = Type::kAnswers, .number = 1, .offset = output.size - 1, .size = 100});
  if (what == "overflow") send_message({.type = Type::kAnswers, .number = 1, .offset = ~0ULL, .size = 100});
  if (what == "greedy") send_message({.type = Type::kGrow, .size = 1ULL << 50});
  if (what == "flood")
    for (int i = 0; i < 200'000; ++i) std::fprintf(stderr, "line %d of a flood\n", i);
  if (what == "memory") {
    std::vector<std::string> all;
    for (;;) all.emplace_back(size_t(8) << 20, 'x');
  }
}

// Where x lies, y is put.
TensorPlace answer_to(const Input& request, size_t at) {
  const auto& x = request.tensors.at(0);
  for (size_t i = 0; i < x.size / sizeof(float); ++i) {
    float value;
    std::memcpy(&value, input.data + x.offset + i * sizeof value, sizeof value);
    value += 1;
    std::memcpy(output.data + at + i * sizeof value, &value, sizeof value);
  }
  TensorPlace y{"y", msg::DType::kFp32, x.shape, at, x.size};
  if (what == "lying offset") y.offset = output.size;
  if (what == "lying size") y.size -= 1;
  if (what == "lying shape") y.shape[0] = 1'000'000;
  if (what == "negative shape") y.shape[0] = -1;
  if (what == "wrong type") y.dtype = msg::DType::kInt32;
  if (what == "wrong name") y.name = "z";
  return y;
}

// Makes a request to the model "other", and looks whether it is answered.
void ask() {
  Writer document;
  for (const char* text : {"other", "", "id"}) document.put_string(text);
  document.put_parameters({});
  document.put(uint32_t(0));
  document.put(uint32_t(1));
  std::memset(output.data, 0, 4);
  put_tensor(document, {"x", msg::DType::kFp32, {1, what == "ask falsely" ? 2 : 1}, 0, 4});
  const bool many = what.starts_with("ask for many");
  send_document(Type::kExec, 5, document, 64, many ? kMany : 0);
  if (receive_order().type != Type::kTaken) ::_exit(10);
  if (what == "ask and exit") ::_exit(3);
  if (what == "ask for many and lie") send_message({.type = Type::kTook, .number = 5, .size = 1});
  if (what == "ask for many and forget") send_message({.type = Type::kForget, .number = 5});
  if (what == "ask for many and cancel") {
    send_message({.type = Type::kForget, .flags = kMany, .number = 5});
  } else if (many) {
    send_message({.type = Type::kTook, .number = 17, .size = uint64_t(1) << 40});  // of a call that there is not
    send_message({.type = Type::kForget, .number = 17});
    return;
  }
  Message message = receive_order();
  if (message.type != Type::kExecuted || message.number != 5) ::_exit(11);
}

bool grow(uint64_t bytes) {
  send_message({.type = Type::kGrow, .size = bytes});
  for (;;) {
    const Type type = receive().type;
    if (type == Type::kOutputRegion || type == Type::kNoRoom) return type == Type::kOutputRegion;
  }
}

void refuse(const Message& run, const std::vector<Input>& requests) {
  Writer document;
  document.put(uint32_t(requests.size()));
  for (const auto& request : requests) {
    document.put(request.call);
    document.put(uint8_t(AnswerKind::kError));
    document.put(uint32_t(8));  // RESOURCE_EXHAUSTED
    document.put_string("no room");
  }
  send_document(Type::kAnswers, run.number, document, 0);
}

void answer(const Message& run) {
  if (what.starts_with("ask")) ask();
  misbehave_before_answering();
  auto requests = read_requests(run);
  uint64_t bytes = 4096;
  for (const auto& request : requests)
    for (const auto& tensor : request.tensors) bytes += tensor.size + 256;
  if (bytes > output.size && !grow(bytes)) return refuse(run, requests);
  if (what == "twice") requests.push_back(requests.front());
  if (what == "too few") requests.pop_back();
  Writer document;
  document.put(uint32_t(requests.size()));
  size_t at = 0;
  for (const auto& request : requests) {
    document.put(request.call);
    document.put(uint8_t(what == "wrong kind" ? AnswerKind::kOneError : AnswerKind::kTensors));
    document.put(uint32_t(0));
    document.put(uint32_t(1));
    put_tensor(document, answer_to(request, at));
    at += (request.tensors.at(0).size + 63) / 64 * 64;
  }
  if (what == "rubbish") document.put(uint64_t(0x4242424242424242));
  send_document(Type::kAnswers, what == "wrong number" ? run.number + 1 : run.number, document, at);
}

std::deque<Message> later;  // orders to run that came while a stream went on

Message next_order() {
  if (later.empty()) return receive_order();
  const Message order = later.front();
  later.pop_front();
  return order;
}

// A stream of answers to one call, and what the server says meanwhile.
struct Stream {
  uint64_t call = 0;
  int64_t credit = kWindow;
  bool cancelled = false;

  // Receives until it is so.
  void wait(Type type) {
    for (;;) {
      const Message message = receive_order();
      if (message.type == Type::kRun) later.push_back(message);
      if (message.type == Type::kCredit && message.number == call) credit += int64_t(message.size);
      if (message.type == Type::kCancel && message.number == call) cancelled = true;
      if (message.type == type || (cancelled && type != Type::kTaken)) return;
    }
  }
};

// Decoupled: answers with x's elements one by one, within the credit unless it is to misbehave.
void stream(const Message& run) {
  misbehave_before_answering();
  const auto requests = read_requests(run);
  const auto& x = requests.at(0).tensors.at(0);
  std::vector<float> values(x.size / sizeof(float));
  if (x.size > 0) std::memcpy(values.data(), input.data + x.offset, x.size);
  if (what == "sleeps") ::usleep(useconds_t(values.size() * 100'000));
  if (what == "sleeps" && values.size() == 3) ::_exit(3);
  if (what == "waits") {
    send_message({.type = Type::kWorks, .number = 0});
    ::usleep(300'000);  // of its own: no time is counted
  }
  send_message({.type = Type::kReturned, .number = run.number});  // what comes next may take the place of the input
  if (what == "works on") {
    send_message({.type = Type::kWorks, .number = 1});
    for (;;) ::pause();
  }
  Stream state{run.number};
  const bool falsely = what == "long ones falsely" && values.size() > kWindow;
  for (size_t i = 0; i <= values.size() && !state.cancelled; ++i) {
    while (state.credit <= 0 && !state.cancelled && what != "unbridled") state.wait(Type::kCredit);
    if (state.cancelled) return;
    Writer document;
    document.put(uint32_t(1));
    document.put(requests.at(0).call);
    const bool wrong = what == "odd errors" && i % 2 == 1 && i < values.size();
    document.put(uint8_t(i == values.size() ? AnswerKind::kEnd : wrong ? AnswerKind::kOneError : AnswerKind::kTensors));
    if (i < values.size()) --state.credit;
    if (wrong) {
      document.put(uint32_t(5));  // NOT_FOUND
      document.put_string("odd");
    } else if (i < values.size()) {
      std::memcpy(output.data, &values[i], sizeof values[i]);
      document.put(uint32_t(0));
      document.put(uint32_t(1));
      put_tensor(document, {"y", msg::DType::kFp32, falsely ? msg::Shape{1, 1} : msg::Shape{1}, 0, sizeof(float)});
    }
    const bool large = what == "large";
    send_document(Type::kAnswer, 0, document, large ? 8 * kLargePart : 64, large ? kLarge : 0);
    if (large) state.credit -= 8;
    state.wait(Type::kTaken);
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) what += (i > 1 ? " " : "") + std::string(argv[i]);
  const bool decoupled = what.starts_with("stream");
  if (decoupled) what = what == "stream" ? "" : what.substr(7);
  (void)receive_order();  // the model
  if (what == "no start") {
    const std::string_view why = "it does not want to";
    std::memcpy(output.data, why.data(), why.size());
    send_message({.type = Type::kFailed, .size = why.size()});
    return 0;
  }
  if (what == "silent")
    for (;;) ::pause();
  if (what == "strange start") send_message({.type = Type(77)});
  if (what == "greedy start") send_message({.type = Type::kGrow, .size = 1ULL << 50});
  Writer ready;
  ready.put(uint32_t(decoupled ? 0 : 64));
  ready.put(uint8_t(decoupled));
  ready.put(uint8_t(0));
  msg::TensorSpec x, y;
  x.name = "x", y.name = "y", x.dtype = y.dtype = msg::DType::kFp32, x.shape = {-1}, y.shape = {-1};
  ready.put_specs({x});
  ready.put_specs({y});
  send_document(Type::kReady, 0, ready, 0, what == "says ready" ? kSaysReady : 0);
  for (;;) {
    const Message order = next_order();
    if (order.type == Type::kStop) return 0;
    if (order.type == Type::kRun) decoupled ? stream(order) : answer(order);
  }
}
