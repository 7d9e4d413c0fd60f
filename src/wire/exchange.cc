#include "wire/exchange.h"

#include <array>
#include <charconv>
#include <utility>

#include "base/encoding.h"
#include "base/recycled.h"
#include "base/release.h"
#include "wire/answer_flow.h"
#include "wire/coding.h"
#include "wire/limits.h"
#include "wire/router.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr size_t kKeptText = 256;  // of a record's texts that an Exchange keeps for its next request

// application/x-www-form-urlencoded: '+' is a space.
std::string form_decode(std::string_view text) {
  std::string spaced(text);
  for (char& c : spaced)
    if (c == '+') c = ' ';
  auto decoded = base::percent_decode(spaced);
  return decoded ? *std::move(decoded) : std::string();
}

}  // namespace

void Fields::add(std::string_view name, std::string_view value) {
  if (entries_.capacity() == 0) take_memory();
  entries_.push_back({uint32_t(text_.size()), uint32_t(name.size()), uint32_t(value.size())});
  text_.append(name).append(value);
}

// Where nothing is kept: one allocation each for an ordinary head.
void Fields::take_memory() {
  entries_ = base::SpareVector<FieldSpan>::take();
  text_ = base::SpareText::take();
  if (entries_.capacity() < 8) entries_.reserve(8);
  if (text_.capacity() < 240) text_.reserve(240);
}

void Fields::keep_memory() {
  base::SpareVector<FieldSpan>::keep(std::move(entries_));
  base::SpareText::keep(std::move(text_));
}

void Fields::add_lowered(std::string_view name, std::string_view value) {
  size_t at = text_.size();
  add(name, value);
  make_lower(text_.data() + at, name.size());
}

void Fields::remove(std::string_view name) {
  if (!has(name)) return;
  Fields kept;
  for (size_t i = 0; i < size(); ++i)
    if ((*this)[i].name != name) kept.add((*this)[i].name, (*this)[i].value);
  *this = std::move(kept);
}

void Fields::set(std::string_view name, std::string_view value) {
  if (!has(name)) return add(name, value);
  std::string keep_name(name), keep_value(value);  // both may lie in text_
  remove(keep_name);
  add(keep_name, keep_value);
}

void Fields::clear() {
  text_.clear();
  entries_.clear();
}

std::string_view Fields::find(std::string_view name) const {
  for (const FieldSpan& e : entries_) {
    if (e.name != name.size()) continue;
    const char* at = text_.data() + e.at;
    if (std::string_view(at, e.name) == name) return {at + e.name, e.value};
  }
  return {};
}

Fields::View Fields::operator[](size_t i) const {
  const FieldSpan& e = entries_[i];
  const char* at = text_.data() + e.at;
  return {{at, e.name}, {at + e.name, e.value}};
}

std::string_view Request::path() const {
  std::string_view t = target;
  return t.substr(0, t.find('?'));
}

std::string_view Request::query() const {
  std::string_view t = target;
  size_t mark = t.find('?');
  return mark == std::string_view::npos ? std::string_view() : t.substr(mark + 1);
}

std::string Request::query_value(std::string_view name) const {
  std::string_view rest = query();
  while (!rest.empty()) {
    size_t amp = rest.find('&');
    std::string_view pair = rest.substr(0, amp);
    rest = amp == std::string_view::npos ? std::string_view() : rest.substr(amp + 1);
    size_t equals = pair.find('=');
    if (form_decode(pair.substr(0, equals)) != name) continue;
    return equals == std::string_view::npos ? std::string() : form_decode(pair.substr(equals + 1));
  }
  return {};
}

std::string Plan::too_large() const {
  std::string text = "the request body is larger than the limit of " + std::to_string(limit) + " bytes";
  return setting.empty() ? text : text + " (" + std::string(setting) + ")";
}

void Intake::refuse(Exchange& exchange, int status, std::string_view text) { respond_error(exchange, status, text); }

Exchange::Exchange() = default;
Exchange::~Exchange() = default;

void Exchange::set_caller(Caller caller) {
  caller_ = std::move(caller);
  request_.identity = caller_.identity();
  if (!caller_.client() || !request_.peer) return;
  forwarded_ = std::make_unique<PeerInfo>(*request_.peer);
  forwarded_->client = caller_.client();
  request_.peer = forwarded_.get();
}

void RequestRecord::clear() {
  protocol = "http";
  route = reject = {};
  for (std::string* text : {&model, &version, &request_id, &traceparent}) {
    if (text->capacity() > kKeptText) base::release(*text);
    text->clear();
  }
  trace.reset();
  code = base::Code::kOk;
  status = 0;
  bytes_in = bytes_out = 0;
  began = deadline = base::kNever;
  queue = compute = base::Duration{0};
  times = {};
}

void Exchange::respond_text(int status, std::string_view content_type, std::string body, Compress compress) {
  const bool coded = compress == Compress::kIfAccepted && worth_coding(body.size());
  if (!coded && body.size() < base::kLeastCharged && respond_small(status, content_type, body))
    base::SpareText::keep(std::move(body));
  else
    respond(status, content_type, base::Bytes::adopt(std::move(body)), compress);
}

void Exchange::respond(int status, std::string_view content_type, base::Bytes body, Compress compress) {
  const bool coded = compress == Compress::kIfAccepted && worth_coding(body.size());
  if (!coded && body.size() < base::kLeastCharged && respond_small(status, content_type, body.view())) return;
  Response response;
  response.status = status;
  if (!content_type.empty()) response.fields.add("content-type", content_type);
  if (coded) {
    response.fields.add("vary", "accept-encoding");
    Coding coding = choose_coding(request_.fields.find("accept-encoding"));
    if (coding != Coding::kIdentity) {
      base::Bytes coded = deflate(coding, std::span(&body, 1));
      if (coded.size() < body.size()) {
        response.fields.add("content-encoding", name(coding));
        body = std::move(coded);
      }
    }
  }
  respond(std::move(response), std::move(body));
}

// An answer for which there is no memory is replaced by an error before any of it is sent. A service with an error form
// of its own charges the body itself before, and refuses in that form.
void Exchange::respond(Response response, base::Bytes body) {
  if (body.size() >= base::kLeastCharged && !base::charge(memory(), base::MemoryKind::kAnswers, body)) {
    body = {};
    record_.reject = reason::kOverload;
    record_.code = base::Code::kResourceExhausted;
    return respond_error(*this, 503, "there is no memory for the answer; try again later");
  }
  if (!bodiless(response.status) && !response.fields.has("content-length")) {
    std::array<char, 20> digits;
    auto end = std::to_chars(digits.data(), digits.data() + digits.size(), body.size()).ptr;
    response.fields.add("content-length", {digits.data(), size_t(end - digits.data())});
  }
  at_once_ = true;
  head(std::move(response));
  at_once_ = false;
  if (!body.empty()) this->body(std::move(body));
  end();
}

}  // namespace weir::wire
