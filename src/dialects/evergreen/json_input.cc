#include "dialects/evergreen/json_input.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/attempt.h"
#include "base/clients.h"
#include "base/memory_ledger.h"
#include "dialects/evergreen/session.h"
#include "wire/body_memory.h"
#include "wire/service_guard.h"

namespace weir::evergreen {
namespace {

using base::Status;

base::Status no_memory() {
  return base::overloaded(
      "there is no memory for the message (limits.slab_budget, limits.client_share); try again later");
}

// A message, and the charge for its memory, which ends with the last slice of it.
struct MessageSlab final : base::Slab {
  MessageSlab(base::Bytes message, std::unique_ptr<base::SteppedCharge> of_it)
      : Slab(const_cast<std::byte*>(message.data()), message.size(), give_back),
        charge(std::move(of_it)),
        all(std::move(message)) {}
  static void give_back(Slab* slab) { delete static_cast<MessageSlab*>(slab); }

  const std::unique_ptr<base::SteppedCharge> charge;
  const base::Bytes all;
};

size_t bytes_of(const std::vector<base::Bytes>& text) {
  size_t bytes = 0;
  for (const base::Bytes& piece : text) bytes += piece.size();
  return bytes;
}

// The memory that it makes, and needs meanwhile, is charged to the client when a worker has begun: only as much waits
// in line as is charged already.
class ReadMessage final : public base::OffloadTask {
 public:
  ReadMessage(EvergreenState& state, base::ClientRef client, std::vector<base::Bytes> text)
      : json_(state.json),
        ledger_(state.slabs.ledger()),
        client_(std::move(client)),
        owner_(wire::owner_of_heads(state.options.bodies, client_.get())),
        text_(std::move(text)) {}
  void run() override {
    auto thrown = base::attempt("reading a message", [this] { message = read(); });
    if (!thrown.ok()) message = std::move(thrown);
  }

  base::Result<base::Bytes> message = base::Bytes();  // after run()

 private:
  base::Result<base::Bytes> read() const {
    constexpr uint64_t kHeld = 5;  // times the text: the library's copies, and the message while it grows
    const bool joins = text_.size() > 1;
    auto charge = std::make_unique<base::SteppedCharge>(ledger_, base::MemoryKind::kDecoding, 0, owner_);
    if (!charge->take((kHeld + joins) * bytes_of(text_))) return no_memory();
    std::string joined;
    if (joins) joined.reserve(bytes_of(text_));
    for (const base::Bytes& piece : text_)
      if (joins) joined += piece.view();
    auto made = json_.to_binary(kMessageType, joins ? joined : text_.front().view());
    if (!made) return made.error();
    made->shrink_to_fit();  // it has grown by doubling, and may stay as long as the session
    charge->give(charge->used() - std::min<uint64_t>(charge->used(), made->capacity()));
    charge->trim();
    auto* slab = new MessageSlab(base::Bytes::adopt(std::move(*made)), std::move(charge));
    return base::Bytes(slab, slab->data, slab->capacity);
  }

  wire::JsonForm& json_;
  base::MemoryLedger* const ledger_;
  const base::ClientRef client_;
  const base::SteppedCharge::Owner owner_;
  const std::vector<base::Bytes> text_;
};

}  // namespace

JsonInput::JsonInput(EvergreenState& state, wire::Exchange& exchange, Session& session, Listener& listener)
    : state_(state),
      exchange_(exchange),
      session_(session),
      listener_(listener),
      copied_(state.slabs.ledger(), base::MemoryKind::kInput, 0,
              wire::owner_of_heads(state.options.bodies,
                                   exchange.request().peer ? exchange.request().peer->client.get() : nullptr)) {}

void JsonInput::read(std::string_view text) {
  if (!is_long(text.size())) return read_here(text);
  if (!copied_.take(text.size())) return abort(no_memory());
  send({base::Bytes::copy_of(text)});
}

void JsonInput::read(base::Bytes text) {
  if (is_long(text.size())) return send({std::move(text)});
  read_here(text.view());
}

void JsonInput::read(std::vector<std::string> pieces) {
  std::vector<base::Bytes> text;
  for (std::string& piece : pieces) text.push_back(base::Bytes::adopt(std::move(piece)));
  if (is_long(bytes_of(text))) {
    if (!copied_.take(bytes_of(text))) return abort(no_memory());
    return send(std::move(text));
  }
  std::string joined;
  for (const base::Bytes& piece : text) joined += piece.view();
  read_here(joined);
}

void JsonInput::read_here(std::string_view text) {
  auto message = state_.json.to_binary(kMessageType, text);
  if (!message) return refuse(message.error());
  session_.on_message(base::Bytes::adopt(std::move(*message)));
}

void JsonInput::send(std::vector<base::Bytes> text) {
  auto done = [this](const Status& status, std::unique_ptr<base::OffloadTask> task) {
    stop();
    wire::guarded(exchange_, [&] {
      if (!session_.over()) on_task(status, task.get());
      listener_.on_read();
    });
  };
  const size_t size = bytes_of(text);
  const wire::PeerInfo* peer = exchange_.request().peer;
  auto task = std::make_unique<ReadMessage>(state_, peer ? peer->client : base::ClientRef(), std::move(text));
  auto sent =
      state_.options.offload->send(std::move(task), size, wire::Offload::Part::kRequest, exchange_, std::move(done));
  if (sent) {
    sent_ = std::move(*sent);
    return;
  }
  stop();
  abort(sent.error());
}

void JsonInput::on_task(const Status& status, base::OffloadTask* task) {
  if (!status.ok()) return abort(status);
  auto& message = static_cast<ReadMessage*>(task)->message;
  if (message) return session_.on_message(std::move(*message));
  if (message.error().code == base::Code::kResourceExhausted) return abort(message.error());
  refuse(message.error());
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
