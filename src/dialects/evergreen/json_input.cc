#include "dialects/evergreen/json_input.h"

#include <algorithm>
#include <utility>

#include "base/attempt.h"
#include "dialects/evergreen/session.h"
#include "wire/service_guard.h"

namespace weir::evergreen {
namespace {

using base::Status;

class ReadMessage final : public base::OffloadTask {
 public:
  ReadMessage(wire::JsonForm& json, base::Bytes text) : json_(json), text_(std::move(text)) {}
  void run() override {
    auto thrown = base::attempt("reading a message", [this] { message = json_.to_binary(kMessageType, text_.view()); });
    if (!thrown.ok()) message = std::move(thrown);
  }

  base::Result<std::string> message = std::string();  // after run()

 private:
  wire::JsonForm& json_;
  const base::Bytes text_;
};

}  // namespace

void JsonInput::read(std::string_view text) {
  if (is_long(text.size())) return send(base::Bytes::copy_of(text));
  read_here(text);
}

void JsonInput::read(base::Bytes text) {
  if (is_long(text.size())) return send(std::move(text));
  read_here(text.view());
}

void JsonInput::read_here(std::string_view text) {
  auto message = state_.json.to_binary(kMessageType, text);
  if (!message) return refuse(message.error());
  session_.on_message(base::Bytes::adopt(std::move(*message)));
}

void JsonInput::send(base::Bytes text) {
  auto done = [this](const Status& status, std::unique_ptr<base::OffloadTask> task) {
    sent_ = nullptr;
    wire::guarded(exchange_, [&] {
      if (!session_.over()) on_task(status, task.get());
      listener_.on_read();
    });
  };
  const size_t size = text.size();
  auto sent = state_.options.offload->send(std::make_unique<ReadMessage>(state_.json, std::move(text)), size,
                                           wire::Offload::Part::kRequest, exchange_, std::move(done));
  if (sent)
    sent_ = std::move(*sent);
  else
    abort(sent.error());
}

void JsonInput::on_task(const Status& status, base::OffloadTask* task) {
  if (!status.ok()) return abort(status);
  auto& message = static_cast<ReadMessage*>(task)->message;
  if (!message) return refuse(message.error());
  session_.on_message(base::Bytes::adopt(std::move(*message)));
}

// Behind the first line the library shows the place.
void JsonInput::refuse(const Status& status) {
  std::string_view why = status.text;
  abort(base::invalid(listener_.on_bad_message() + std::string(why.substr(0, why.find('\n')))));
}

void JsonInput::abort(Status status) {
  session_.abort(std::move(status));
  session_.settle();
}

}  // namespace weir::evergreen
