#include "wire/rpc_json_work.h"

#include <cstring>

#include "base/attempt.h"
#include "base/overload.h"
#include "wire/limits.h"
#include "wire/sse.h"

namespace weir::wire {
namespace {

constexpr size_t kLittle = 4096;  // a message that is longer than its text, but no longer than this, is the heap's

}  // namespace

// A worker's thread has no border above this.
void ReadText::run() {
  auto thrown = base::attempt("reading a message", [this] {
    auto binary = state_.json->to_binary(route_.request_type, text_);
    if (binary) return settle(std::move(*binary));
    status = binary.error(), reject = reason::kParse;
  });
  if (!thrown.ok()) status = std::move(thrown), reject = reason::kOverload;
}

void ReadText::settle(std::string binary) {
  const size_t size = binary.size();
  if (size <= place_.size()) {
    if (size > 0) std::memcpy(const_cast<std::byte*>(place_.data()), binary.data(), size);
    message = place_.slice(0, size);
  } else if (size <= kLittle) {
    message = base::Bytes::adopt(std::move(binary));
  } else if (size > state_.options.max_message) {
    too_large = true, reject = reason::kBodyBytes;
    status = base::failure(base::Code::kResourceExhausted, "the message of this text is over the limit of " +
                                                               std::to_string(state_.options.max_message) + " bytes");
  } else if (base::Block block{state_.slabs.take(size)}) {  // numbers may be written shorter than they are
    block.append(binary.data(), size);
    message = block.freeze();
  } else {
    status = base::overloaded("there is no memory for the message; try again later"), reject = reason::kOverload;
  }
}

std::string framed(std::string json, Framing framing) {
  if (framing == Framing::kLine) json += '\n';
  if (framing != Framing::kSse) return json;
  std::string event;
  append_sse(event, json);
  return event;
}

void WriteText::run() {
  auto thrown = base::attempt("writing an answer", [this] { work(); });
  if (!thrown.ok()) status = std::move(thrown);
}

void WriteText::work() {
  std::string joined;
  std::string_view binary;
  if (pieces_.size() == 1) {
    binary = pieces_[0].view();
  } else {
    for (const auto& p : pieces_) joined += p.view();
    binary = joined;
  }
  auto json = state_.json->to_json(route_.response_type, binary);
  if (json)
    text = framed(std::move(*json), framing_);
  else
    status = base::failure(base::Code::kInternal, "the answer has no JSON form: " + json.error().text);
}

}  // namespace weir::wire
