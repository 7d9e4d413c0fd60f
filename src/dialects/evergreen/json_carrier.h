// JsonCarrier: the base of the two carriers that speak JSON (NDJSON and WebSocket). It owns the Session, reads into it
// through a JsonInput and writes through a JsonOutput, and continues reading in a later turn when the session was full
// or when it has read its part of a turn.
#pragma once

#include <optional>
#include <string>

#include "dialects/evergreen/carriers.h"
#include "dialects/evergreen/json_input.h"
#include "dialects/evergreen/json_output.h"
#include "dialects/evergreen/session.h"
#include "dialects/evergreen/state.h"
#include "wire/call_turns.h"
#include "wire/exchange.h"

namespace weir::evergreen {

// On the shard of the Exchange, which owns it.
class JsonCarrier : public wire::ExchangeListener,
                    protected Carrier,
                    JsonInput::Listener,
                    protected JsonOutput::Listener {
 public:
  JsonCarrier(EvergreenState& state, wire::Exchange& exchange);
  ~JsonCarrier() override;

  void on_drain(wire::Exchange&) final;
  void on_close(wire::Exchange&, bool complete) final;
  uint64_t held_for_answer() const final { return output_.held(); }

 protected:
  // Reads on in the client's bytes that are held, until the session is full or turns_ are spent.
  virtual void read_held() = 0;
  // The session's status has been written; the end of the Exchange follows.
  virtual void close_carrier(const base::Status&) {}

  // Nothing can be read now: read_held() is called when the session has room again, and in any case after kFullPoll,
  // since not every change is announced.
  void read_held_later() { turns_.resume_at(state_.bus.env().now() + kFullPoll); }
  base::Client* client() const;  // whose shares the connection uses; null: nobody counts
  // Carrier
  void send(const OutFragment& fragment) override { output_.send(fragment); }
  bool has_room() const final { return exchange_.has_room() && !output_.busy(); }
  void on_room() final;
  void finish(const base::Status& status) final;

  EvergreenState& state_;
  wire::Exchange& exchange_;
  JsonOutput output_;
  Session session_;
  JsonInput input_;
  wire::CallTurns turns_;  // read_held()

 private:
  void on_read() final { read_held(); }
  void on_written() final;

  std::optional<base::Status> end_;  // the session's status, sent after what is still being written
};

}  // namespace weir::evergreen
