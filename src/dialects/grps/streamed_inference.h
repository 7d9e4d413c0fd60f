// StreamedInference: an Inference whose HTTP answer may be a stream of parts, which workers write where they are long.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "dialects/grps/inference.h"
#include "dialects/grps/stream.h"

namespace weir::grps {

// `Base` is Inference or Prediction. The Exchange owns it.
template <class Base>
class StreamedInference : public wire::ExchangeListener, public Base, PartWriter::Listener {
 public:
  // `content_type`: as PartWriter has it.
  StreamedInference(GrpsState& state, wire::Exchange& exchange, std::string_view content_type = {})
      : Base(state, exchange), parts_(state, exchange, *this, content_type) {}

  void on_drain(wire::Exchange&) override {
    if (has_room()) this->drained();
  }
  void on_close(wire::Exchange&, bool) override {
    parts_.stop();
    this->leave();
  }

 protected:
  // Ends the answer. Called once, when all parts are written. The Exchange may destroy this from here on.
  virtual void end(const base::Status& status) = 0;

  bool has_room() override { return this->exchange_.has_room() && !parts_.busy(); }
  void ended(base::Status status) override {
    end_ = std::move(status);
    if (!parts_.busy()) end(*end_);
  }

  PartWriter parts_;

 private:
  void on_parts_written() override { end_ ? end(*end_) : on_drain(this->exchange_); }
  void on_part_failed(base::Status status) override {
    this->leave();
    ended(std::move(status));
  }

  std::optional<base::Status> end_;  // the model's, while parts are still being written
};

}  // namespace weir::grps
