#include <algorithm>
#include <utility>

#include "base/release.h"
#include "base/stepped_charge.h"
#include "dialects/evergreen/carriers.h"
#include "dialects/evergreen/json_carrier.h"
#include "wire/body.h"
#include "wire/body_memory.h"

namespace weir::evergreen {
namespace {

using wire::Exchange;

constexpr size_t kIdleLineBytes = 64 << 10;  // bytes of held_ that an idle session keeps allocated
constexpr size_t kLinePiece = 64 << 10;      // bytes of a line without an end that are moved no more

class LineSession final : public JsonCarrier {
 public:
  LineSession(EvergreenState& state, Exchange& exchange) : JsonCarrier(state, exchange) {
    wire::Response response;
    response.fields.add("content-type", "application/x-ndjson");
    response.fields.add("cache-control", "no-cache");
    exchange.head(std::move(response));
  }

  void on_data(Exchange&, std::span<const std::byte> piece) override {
    if (session_.over()) return exchange_.consume(piece.size());
    owed_ += piece.size();
    if (!make_room(piece.size())) return no_memory();
    held_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    read_held();
  }
  void on_end(Exchange&) override {
    ended_ = true;
    read_held();
  }

 private:
  // Reads one line after the other while the session has room and the turn has time. What is held meanwhile is not
  // given back to flow control, so that the client stops sending.
  void read_held() override {
    size_t at = 0;
    bool paused = false;
    while (!session_.over() && !input_.busy()) {
      if (session_.full()) read_held_later(), paused = true;
      if (turns_.spent()) paused = true;
      if (paused) break;
      size_t end = held_.find('\n', std::max(at, searched_));
      if (end == held_.npos) {
        searched_ = held_.size();
        if (begun_bytes_ + held_.size() - at > state_.options.max_message) too_long();
        if (!ended_ || (at >= held_.size() && begun_.empty())) break;
        end = held_.size();
      }
      take(std::string_view(held_).substr(at, end - at));
      at = std::min(end + 1, held_.size());
    }
    if (session_.over()) at = held_.size(), drop_begun();
    held_.erase(0, at);
    if (held_.empty() && held_.capacity() > kIdleLineBytes) drop_held();
    searched_ = searched_ > at ? searched_ - at : 0;
    if (held_.size() >= kLinePiece && searched_ == held_.size()) set_aside();
    if (input_.busy()) return;
    if (held_.empty() || !paused) exchange_.consume(std::exchange(owed_, 0));
    const bool all_read = held_.empty() && begun_.empty();
    if (ended_ && all_read && !std::exchange(told_end_, true)) session_.on_end();
  }

  void take(std::string_view line) {
    ++number_;
    if (!begun_.empty()) return take_begun(line);
    if (is_blank(line)) return turns_.spend(1 + line.size());
    input_.read(line);
    turns_.spend(kCarrierWorkPerMessage + (input_.busy() ? line.size() / kCopiedPerWork : line.size()));
  }

  // The line ends with `last`. Its pieces are joined by a worker, where it is long.
  void take_begun(std::string_view last) {
    const bool blank = begun_blank_ && is_blank(last);
    turns_.spend(kCarrierWorkPerMessage + last.size() / kCopiedPerWork);
    if (!blank) {
      begun_.emplace_back(last);
      input_.read(std::exchange(begun_, {}));
    }
    drop_begun();
  }
  // No line ends in what is held: it stays where it is, and what comes next is another piece of the line.
  void set_aside() {
    begun_blank_ = (begun_.empty() || begun_blank_) && is_blank(held_);
    begun_bytes_ += held_.size(), begun_room_ += held_.capacity();
    begun_.push_back(std::exchange(held_, {}));
    searched_ = 0;
  }
  void drop_begun() {
    begun_.clear();
    charge_.give(std::exchange(begun_room_, 0));
    begun_bytes_ = 0;
  }
  static bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r") == text.npos; }

  std::string on_bad_message() override { return "line " + std::to_string(number_) + ": "; }

  // The text grows by doubling, and is charged to the client before it does. While it is copied, both are there.
  bool make_room(size_t more) {
    const size_t room = held_.capacity(), need = held_.size() + more;
    if (need <= room) return true;
    const size_t grown = std::max({need, 2 * room, begun_.empty() ? 0 : kLinePiece});
    if (!charge_.take(grown)) return false;
    held_.reserve(grown);
    charge_.give(charge_.used() - begun_room_ - held_.capacity());
    return true;
  }
  void drop_held() {
    base::release(held_);
    searched_ = 0;
    charge_.give(charge_.used() - begun_room_);
    charge_.trim();
  }

  void no_memory() {
    session_.abort(base::failure(base::Code::kResourceExhausted,
                                 "there is no memory for the line (limits.slab_budget, limits.client_share)"));
    session_.settle();
    drop_begun();
    drop_held();
    exchange_.consume(std::exchange(owed_, 0));
  }

  void too_long() {
    session_.abort(base::failure(base::Code::kResourceExhausted,
                                 "a line is longer than " + std::to_string(state_.options.max_message) + " bytes"));
    session_.settle();
  }

  void on_text(std::string text, More more) override {
    if (more == More::kNo) text += '\n';
    exchange_.body(base::Bytes::adopt(std::move(text)));
  }

  std::string held_;  // lines that have not been read
  // The first of them, where it is long and what is held has no line end, as far as it is moved no more.
  std::vector<std::string> begun_;
  size_t begun_bytes_ = 0, begun_room_ = 0;
  bool begun_blank_ = false;
  base::SteppedCharge charge_{state_.slabs.ledger(), base::MemoryKind::kInput, 0,
                              wire::owner_of_heads(state_.options.bodies, client())};  // for held_ and begun_
  size_t searched_ = 0;  // the first bytes of held_, which have no line end
  size_t owed_ = 0;      // request bytes not yet given back with consume()
  size_t number_ = 0;    // of the line that was taken last; those of blanks count
  bool ended_ = false, told_end_ = false;
};

class Ndjson final : public wire::Service, public Endpoint {
 public:
  explicit Ndjson(EvergreenState& state) : state_(state) {}
  void serve(Exchange& exchange, const wire::PathArgs&) override {
    // A streamed body comes here as the client sent it.
    if (wire::body_coding(exchange.request().fields.find("content-encoding")) != wire::Coding::kIdentity) {
      exchange.extra_fields().add("accept-encoding", "identity");
      return wire::respond_error(exchange, 415, "lines of JSON are read without a content-encoding");
    }
    exchange.attach(std::make_unique<LineSession>(state_, exchange));
  }

 private:
  EvergreenState& state_;
};

}  // namespace

void add_ndjson(EvergreenState& state, wire::Router& router, Endpoints& endpoints) {
  auto service = std::make_unique<Ndjson>(state);
  router.add({"POST", kPath, service.get(), kNdjson, {wire::BodyPlan::kStream, UINT64_MAX}, wire::Permission::kInfer});
  endpoints.push_back(std::move(service));
}

}  // namespace weir::evergreen
