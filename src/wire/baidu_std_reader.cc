#include "wire/baidu_std_reader.h"

#include <algorithm>
#include <utility>

#include "wire/grpc_frames.h"
#include "wire/limits.h"
#include "wire/service_guard.h"

namespace weir::wire {
namespace {

constexpr uint64_t kSkippable = 1 << 20;  // of a message that nobody wants, to keep the connection
constexpr size_t kReadAhead = 64 << 10;   // while no other call may begin, so that the peer's end is seen
constexpr size_t kLongestName = 256;      // of a service, of a method
constexpr size_t kLongestCredential = 8 << 10;

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

bool is_coding(int32_t coding) {
  return coding >= int32_t(BaiduCoding::kNone) && coding <= int32_t(BaiduCoding::kZlib);
}

}  // namespace

void BaiduReader::process(std::string_view fresh) {
  std::string_view input = input_.join(fresh);
  size_t used = 0;
  while (used < input.size()) {
    const size_t n = step(input.substr(used));
    if (n == 0) break;
    used += n;
  }
  input_.used(input, used);
  if (!input_.charge(connection_.heads)) end_connection(reason::kOverload);
}

// How many bytes of the front were used; 0: none can be now.
size_t BaiduReader::step(std::string_view input) {
  if (connection_.over) return input.size();
  if (message_left_ > 0) return step_message(input);
  if (skip_left_ == 0) return step_packet(input);
  const size_t n = size_t(std::min<uint64_t>(skip_left_, input.size()));
  skip_left_ -= n;
  skip_floor_.add(int64_t(n));
  if (skip_left_ == 0) skip_floor_.stop();
  return n;
}

size_t BaiduReader::step_packet(std::string_view input) {
  if (calls_.crowded() || served_ >= connection_.env.limits.requests_per_read) return 0;
  if (began_ == base::kNever) began_ = connection_.wire.now();
  if (input.size() < BaiduHeader::kSize) return 0;
  const auto header = BaiduHeader::read(input);
  if (!header) return end_connection(reason::kParse), input.size();
  if (header->meta > connection_.env.limits.header_bytes_hard)
    return end_connection(reason::kHeaderBytes), input.size();
  const size_t size = BaiduHeader::kSize + header->meta;
  if (input.size() < size) return 0;
  began_ = base::kNever;
  ++served_;
  const auto request =
      BaiduRequest::read(input.substr(BaiduHeader::kSize, header->meta), connection_.env.limits.header_fields);
  const uint64_t rest = header->body - header->meta;
  if (!request || request->attachment_size < 0 || uint64_t(request->attachment_size) > rest)
    return end_connection(reason::kParse), input.size();
  skip_left_ = uint64_t(request->attachment_size);
  message_left_ = rest - skip_left_;
  start(*request, header->meta);
  return size;
}

void BaiduReader::start(const BaiduRequest& request, size_t meta) {
  if (!refused(request)) begin(request, meta);
  if (connection_.over) return;
  if (message_left_ == 0) return message_over();
  if (!calls_.current() && message_left_ + skip_left_ > kSkippable) end_connection();
}

// True: it has been refused before it became a request.
bool BaiduReader::refused(const BaiduRequest& request) {
  if (connection_.draining) {
    refuse(request, BrpcError::kLogOff, "this connection ends: call by another one", reason::kDrain);
  } else if (!is_name(request.service) || !is_name(request.method)) {
    refuse(request, BrpcError::kRequest, "service_name and method_name are letters, digits, '_' and '.'");
  } else if (request.content_type != 0) {
    refuse(request, BrpcError::kRequest,
           "content_type " + std::to_string(request.content_type) + " is not offered: messages are protobuf (0)");
  } else if (!is_coding(request.coding)) {
    refuse(request, BrpcError::kRequest,
           "compress_type " + std::to_string(request.coding) +
               " is not offered: 0, 1 (Snappy), 2 (gzip) and 3 (zlib) are");
  } else if (!authenticate(request.credential)) {
    refuse(request, BrpcError::kAuth, "authentication_data is not a key of printable ASCII", reason::kAuth);
  } else {
    return false;
  }
  return true;
}

void BaiduReader::refuse(const BaiduRequest& request, BrpcError error, std::string_view text, std::string_view why) {
  connection_.env.intake.rejected(why, connection_.peer);
  BaiduAnswer answer(request.correlation_id);
  answer.fail(error, text);
  const std::string packet = answer.write(0);
  connection_.output.append(packet);
  (void)connection_.small.add(connection_.memory, packet.size());
}

// A credential is a whole authorization field ("Bearer …", "Basic …"), or a key alone.
bool BaiduReader::authenticate(std::string_view shown) {
  if (shown.empty()) return true;
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (shown.size() > kLongestCredential || !std::all_of(shown.begin(), shown.end(), printable)) return false;
  credential_ = shown.find(' ') == shown.npos ? "Bearer " : "";
  credential_ += shown;
  return true;
}

void BaiduReader::begin(const BaiduRequest& request, size_t meta) {
  const size_t charged = meta + BaiduExchange::kOwnCost;
  if (!connection_.heads.take(charged)) return refuse(request, BrpcError::kLimit, kNoMemoryForHead, reason::kOverload);
  BaiduExchange& x = calls_.add(request, credential_, charged);
  if (!x.begin(connection_.env.intake)) return;
  const auto flag = request.coding == 0 ? GrpcFlag::kPlain : GrpcFlag::kCompressed;
  x.received(grpc_prefix(flag, uint32_t(message_left_)));
}

size_t BaiduReader::step_message(std::string_view input) {
  BaiduExchange* x = calls_.current();
  if (x && x->unconsumed >= connection_.env.limits.stream_window) return 0;
  const size_t n = size_t(std::min<uint64_t>(message_left_, input.size()));
  message_left_ -= n;
  if (x)
    x->received(std::as_bytes(std::span(input.substr(0, n))));
  else
    skip_floor_.add(int64_t(n));
  if (message_left_ == 0)
    message_over();
  else if (!calls_.current() && message_left_ + skip_left_ > kSkippable)
    end_connection();
  return n;
}

void BaiduReader::message_over() {
  skip_floor_.stop();
  if (BaiduExchange* x = calls_.take_current()) notify_end(*x);
}

std::span<std::byte> BaiduReader::receive_buffer() {
  BaiduExchange* x = calls_.current();
  if (!x || message_left_ == 0 || input_.waiting() > 0) return {};
  const auto room = x->receive_buffer();
  return room.first(size_t(std::min<uint64_t>(room.size(), message_left_)));
}

// Nothing more is read. What is under way is answered, but for the request whose message is not whole.
void BaiduReader::end_connection(std::string_view why) {
  if (std::exchange(connection_.over, true)) return;
  if (!why.empty()) connection_.env.intake.rejected(why, connection_.peer);
  if (BaiduExchange* x = calls_.take_current()) x->fail(base::Code::kInvalidArgument, "the request is not whole");
  connection_.notify_output();
}

bool BaiduReader::paused() const {
  return served_ >= connection_.env.limits.requests_per_read && input_.waiting() > 0 && !connection_.over;
}

bool BaiduReader::held_back() const {
  if (connection_.over || paused()) return true;
  if (const BaiduExchange* x = calls_.current()) return x->unconsumed >= connection_.env.limits.stream_window;
  return message_left_ == 0 && skip_left_ == 0 && calls_.crowded() && input_.waiting() >= kReadAhead;
}

// A request's own message has its pace already (wire/request_pace.h).
void BaiduReader::check(base::Time now) {
  const Limits& limits = connection_.env.limits;
  if (connection_.over) return;
  if (began_ != base::kNever && calls_.crowded()) began_ = now;
  if (began_ != base::kNever && now - began_ > limits.head) return end_connection(reason::kSlowHeader);
  if (calls_.current() || message_left_ + skip_left_ == 0) return skip_floor_.stop();
  skip_floor_.start(now);
  if (skip_floor_.below(now, limits.min_body_rate, limits.grace)) end_connection(reason::kSlowBody);
}

}  // namespace weir::wire
