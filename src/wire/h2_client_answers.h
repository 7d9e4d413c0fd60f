// H2ClientAnswers: what an HTTP/2 connection of ours does for the answers of its streams: heads, bodies, trailers, and
// how they end. What an answer breaks of HTTP's rules ends its stream alone (RFC 9113 §8.1.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "wire/client_codec.h"
#include "wire/h2_client_decoder.h"
#include "wire/h2_client_output.h"
#include "wire/h2_client_streams.h"

namespace weir::wire {

class H2ClientAnswers {
 public:
  // A stream whose bytes wait for consume() holds no more than its window, which is the larger one once half of the
  // first has come without anything that waits.
  static constexpr int64_t kFirstWindow = 1 << 20, kLargeWindow = 4 << 20;

  // Both are borrowed.
  H2ClientAnswers(H2ClientStreams& streams, H2ClientOutput& output) : streams_(streams), output_(output) {}

  enum class Ends : uint8_t { kNo, kYes };
  // Each of these may end the stream, and may call answers, which may end others and send requests: no stream is the
  // same behind it.
  void block(ClientStream& stream, const H2ClientDecoder::Head& head, Ends ends);
  // So many bytes of fields have come of a block that goes on.
  void part_of_block(ClientStream& stream, size_t bytes);
  void content(ClientStream& stream, std::string_view piece);
  void padding(ClientStream& stream, size_t n);
  void end_of_data(ClientStream& stream);
  void reset_by_server(ClientStream& stream, uint32_t code);
  // Resets it, for what the server has done.
  void break_off(ClientStream& stream, uint32_t code);
  // Its request has gone, after its answer was whole.
  void finish_late(int32_t id);
  // The server has not looked at the streams behind `last`, and will not.
  void refuse_behind(int32_t last);
  void fail_all(const base::Status& why);

  void consume(ClientAnswer& answer, size_t n);
  void cancel(ClientAnswer& answer);

 private:
  void head(ClientStream& stream, const H2ClientDecoder::Head& head, Ends ends);
  void trailers(ClientStream& stream, const H2ClientDecoder::Head& head, Ends ends);
  bool has_room(ClientStream& stream, size_t bytes);
  bool receive(ClientStream& stream, size_t n);
  void give_back(ClientStream& stream, size_t n);
  void widen(ClientStream& stream, size_t came, size_t held);
  void end(ClientStream& stream, const Fields& trailers);
  void finish(ClientStream& stream, const Fields& trailers);
  void fail(ClientStream& stream, const base::Status& why);

  H2ClientStreams& streams_;
  H2ClientOutput& output_;
};

}  // namespace weir::wire
