#include "dialects/evergreen/json_output.h"

#include <utility>

#include "base/encoding.h"
#include "wire/offload.h"
#include "wire/service_guard.h"

namespace weir::evergreen {
namespace {

constexpr size_t kPiece = 96 << 10;  // of data; a multiple of 3, for base64 without padding

}  // namespace

void JsonOutput::send(const OutFragment& fragment) {
  std::string text;
  write_json_head(text, fragment, state_.json);
  if (!busy() && fragment.data.size() <= wire::kLongBody) {
    text += base::base64_encode(fragment.data.view());
    text += json_tail(fragment);
    return listener_.on_text(std::move(text), More::kNo);
  }
  unwritten_.push_back({std::move(text), fragment.data, json_tail(fragment)});
  write_on();
}

void JsonOutput::write_on() {
  while (busy() && exchange_.has_room()) {
    if (state_.turn_budget.spent()) return state_.turn_budget.wait(*this);
    write_piece();
  }
}

void JsonOutput::write_piece() {
  LongMessage& message = unwritten_.front();
  std::string text = std::exchange(message.head, {});
  const std::string_view data = message.data.view().substr(message.at, kPiece);
  message.at += data.size();
  text += base::base64_encode(data);
  const bool more = message.at < message.data.size();
  if (!more) {
    text += message.tail;
    unwritten_.pop_front();
  }
  state_.turn_budget.spend(1 + text.size() / kBytesPerStep);
  listener_.on_text(std::move(text), more ? More::kYes : More::kNo);
}

void JsonOutput::on_turn() {
  wire::guarded(exchange_, [this] {
    write_on();
    if (!busy()) listener_.on_written();
  });
}

uint64_t JsonOutput::held() const {
  uint64_t bytes = 0;
  for (const auto& message : unwritten_) bytes += message.head.size() + message.data.size();
  return bytes;
}

void JsonOutput::stop() {
  unwritten_.clear();
  state_.turn_budget.forget(*this);
}

}  // namespace weir::evergreen
