#include "dialects/evergreen/long_message.h"

#include "base/attempt.h"

namespace weir::evergreen {

void ReadMessage::run() {
  auto thrown = base::attempt("reading a message", [this] {
    auto binary = json_.to_binary(kMessageType, text_.view());
    if (binary)
      message = base::Bytes::adopt(std::move(*binary));
    else
      status = std::move(binary).error();
  });
  if (!thrown.ok()) status = std::move(thrown);
}

base::Result<std::unique_ptr<wire::SentTask>> read_elsewhere(EvergreenState& state, wire::Exchange& exchange,
                                                             base::Bytes text, wire::Offload::Done done) {
  const size_t size = text.size();
  return state.options.offload->send(std::make_unique<ReadMessage>(state.json, std::move(text)), size,
                                     wire::Offload::Part::kRequest, exchange, std::move(done));
}

}  // namespace weir::evergreen
