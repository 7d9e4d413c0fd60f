#include "wire/h2_client_streams.h"

#include <utility>

namespace weir::wire {

ClientStream& H2ClientStreams::open(int32_t id, ClientAnswer& answer) {
  std::unique_ptr<ClientStream> stream;
  if (spare_.empty()) {
    stream = std::make_unique<ClientStream>();
  } else {
    stream = std::move(spare_.back());
    spare_.pop_back();
  }
  ClientStream& out = *stream;
  out.id = answer.stream_ = id;
  out.answer = &answer;
  open_.put(id, std::move(stream));
  return out;
}

void H2ClientStreams::close(ClientStream& stream) {
  auto closed = open_.take_out(stream.id);
  closed->clear();
  if (spare_.size() < kMostSpare) spare_.push_back(std::move(closed));
}

std::vector<int32_t> H2ClientStreams::ids() const {
  std::vector<int32_t> out;
  open_.each([&](int32_t id, const auto&) { out.push_back(id); });
  return out;
}

}  // namespace weir::wire
