#include "dialects/evergreen/json_carrier.h"

#include <utility>

#include "wire/service_guard.h"
#include "wire/text.h"

namespace weir::evergreen {
namespace {

// {"error":{…}}, without a line end.
std::string error_text(const base::Status& status) {
  std::string out = "{\"error\":{\"code\":" + std::to_string(int(status.code)) + ",\"status\":\"" +
                    std::string(base::name(status.code)) + "\",\"message\":\"";
  wire::append_json_text(out, status.text);
  return out += "\"}}";
}

}  // namespace

JsonCarrier::JsonCarrier(EvergreenState& state, wire::Exchange& exchange)
    : state_(state),
      exchange_(exchange),
      output_(state, exchange, *this),
      session_(state, exchange, *this),
      input_(state, exchange, session_, *this),
      turns_(state.bus.env(), state.turn, [this] { wire::guarded(exchange_, [this] { read_held(); }); }) {}

JsonCarrier::~JsonCarrier() = default;

void JsonCarrier::on_drain(wire::Exchange&) {
  output_.write_on();
  if (!output_.busy()) on_written();
}

void JsonCarrier::on_close(wire::Exchange&, bool) {
  input_.stop();
  output_.stop();
  session_.leave();
}

base::Client* JsonCarrier::client() const {
  const wire::PeerInfo* peer = exchange_.request().peer;
  return peer ? peer->client.get() : nullptr;
}

void JsonCarrier::on_room() { turns_.resume_now(); }

void JsonCarrier::finish(const base::Status& status) {
  end_ = status;
  if (output_.busy()) return;
  exchange_.record().set_outcome(status);
  if (!status.ok()) on_text(error_text(status), More::kNo);
  close_carrier(status);
  exchange_.end();
}

void JsonCarrier::on_written() {
  if (end_) return finish(*end_);
  session_.on_drain();
  read_held();
}

}  // namespace weir::evergreen
