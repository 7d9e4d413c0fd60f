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

base::Result<std::unique_ptr<wire::SentErrand>> read_elsewhere(House& house, wire::Exchange& exchange, base::Bytes text,
                                                               wire::Errands::Done done) {
  const size_t size = text.size();
  return house.options.errands->send(std::make_unique<ReadMessage>(house.json, std::move(text)), size,
                                     wire::Errands::Part::kRequest, exchange, std::move(done));
}

}  // namespace weir::evergreen
