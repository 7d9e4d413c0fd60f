#include "wire/h2_client_streams.h"

#include <utility>

namespace weir::wire {

H2ClientStreams::H2ClientStreams() : places_(kFirstPlaces) {}

ClientStream& H2ClientStreams::open(int32_t id, ClientAnswer& answer) {
  if (2 * (size_ + 1) > places_.size()) grow();
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
  put(std::move(stream));
  ++size_;
  return out;
}

void H2ClientStreams::put(std::unique_ptr<ClientStream> stream) {
  size_t i = home(stream->id);
  if (places_[i]) ++astray_;
  while (places_[i]) i = (i + 1) & mask_;
  places_[i] = std::move(stream);
}

void H2ClientStreams::grow() {
  auto all = std::exchange(places_, std::vector<std::unique_ptr<ClientStream>>(2 * places_.size()));
  mask_ = places_.size() - 1;
  astray_ = 0;
  for (auto& stream : all)
    if (stream) put(std::move(stream));
}

// Those behind it move up, so that no search ends at its place too early.
void H2ClientStreams::close(ClientStream& stream) {
  size_t gap = home(stream.id);
  if (places_[gap].get() != &stream) --astray_;
  while (places_[gap].get() != &stream) gap = (gap + 1) & mask_;
  auto closed = std::move(places_[gap]);
  for (size_t i = (gap + 1) & mask_; astray_ > 0 && places_[i]; i = (i + 1) & mask_) {
    const size_t from_home = (i - home(places_[i]->id)) & mask_, from_gap = (i - gap) & mask_;
    if (from_home < from_gap) continue;
    if (from_home == from_gap) --astray_;
    places_[gap] = std::move(places_[i]);
    gap = i;
  }
  --size_;
  closed->clear();
  if (spare_.size() < kMostSpare) spare_.push_back(std::move(closed));
}

std::vector<int32_t> H2ClientStreams::ids() const {
  std::vector<int32_t> out;
  for (const auto& place : places_)
    if (place) out.push_back(place->id);
  return out;
}

}  // namespace weir::wire
