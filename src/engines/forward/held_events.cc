#include "engines/forward/held_events.h"

#include <algorithm>
#include <utility>

#include "engines/forward/kind.h"

namespace weir::forward {
namespace {

// Tensors' contents are slices of slabs, which are charged as such.
uint64_t charged_bytes(const msg::Event& event) {
  uint64_t bytes = sizeof event;
  if (const auto* token = std::get_if<msg::Token>(&event.what); token && token->details) {
    bytes += sizeof *token->details + token->details->top.capacity() * sizeof(msg::TokenLogprob) +
             token->details->readout.capacity() * sizeof(float);
    for (const auto& text : token->details->texts) bytes += sizeof text + text.capacity();
  }
  if (const auto* outputs = std::get_if<msg::Outputs>(&event.what))
    bytes += outputs->tensors.capacity() * sizeof(msg::Tensor) +
             outputs->parameters.capacity() * sizeof(msg::Parameters::value_type);
  return bytes;
}

}  // namespace

base::Status HeldEvents::take_room(const msg::Event& event) {
  const uint64_t bytes = bytes_ + charged_bytes(event), wanted = bytes / kStep * kStep;
  if (wanted > charge_.bytes() && !charge_.grow(wanted - charge_.bytes())) return no_memory_for_answer();
  bytes_ = bytes;
  return {};
}

msg::Event HeldEvents::pop() {
  msg::Event event = std::move(events_.front());
  events_.pop();
  bytes_ -= std::min(bytes_, charged_bytes(event));
  if (events_.empty()) bytes_ = 0, charge_.clear();
  return event;
}

}  // namespace weir::forward
