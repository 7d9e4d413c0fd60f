// H2ClientStreams: the streams that are open on one HTTP/2 connection of ours, by their ids. What a stream has
// allocated is there for the next one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "wire/client_codec.h"
#include "wire/h2_stream_ids.h"

namespace weir::wire {

struct ClientStreamState {
  int32_t id = 0;
  ClientAnswer* answer = nullptr;
  bool bodiless = false;  // the answer has no body, whatever its head says: HEAD's

  size_t sent = 0;      // bytes of the last of `pieces`
  size_t left = 0;      // bytes of the request's body
  int64_t window = 0;   // bytes that the server takes of it
  bool queued = false;  // it waits for its turn to send

  bool began = false;      // a head has come, final or not
  int status = 0;          // of the final head; 0: it has not come
  bool whole = false;      // its end has come
  int64_t length = -1;     // of its body, as its head says it; -1: it does not
  int64_t came = 0;        // bytes of its body
  size_t field_bytes = 0;  // of all heads and trailers

  int64_t local_window = 0;
  int64_t received = 0, consumed = 0;  // bytes that the window is less by; of those, that can be given back
  size_t held = 0;                     // bytes of the body that wait for consume()
  size_t passed = 0;                   // bytes that came before any waited; SIZE_MAX: its window has its last size
};

// One request and its answer.
struct ClientStream : ClientStreamState {
  std::vector<base::Bytes> pieces;  // of the request's body that have not been sent whole, the last one in front
  Fields trailers;                  // of an answer that is whole before its request

  // To be another one.
  void clear() {
    static_cast<ClientStreamState&>(*this) = {};
    pieces.clear();
    if (trailers.size() > 0) trailers = {};  // a server chooses how large they are
  }
};

class H2ClientStreams {
 public:
  H2ClientStreams() = default;
  H2ClientStreams(const H2ClientStreams&) = delete;

  ClientStream& open(int32_t id, ClientAnswer& answer);
  ClientStream* find(int32_t id) const {
    const auto* stream = open_.find(id);
    return stream ? stream->get() : nullptr;
  }
  ClientStream* find(const ClientAnswer& answer) const {
    ClientStream* stream = find(answer.stream_);
    return stream && stream->answer == &answer ? stream : nullptr;
  }
  void close(ClientStream& stream);

  size_t size() const { return open_.size(); }
  bool empty() const { return open_.empty(); }
  // Ids of those that are open, in any order.
  std::vector<int32_t> ids() const;
  template <class Do>
  void each(Do&& act) const {
    open_.each([&](int32_t, const std::unique_ptr<ClientStream>& stream) { act(*stream); });
  }

 private:
  static constexpr size_t kMostSpare = 256;

  H2StreamIds<std::unique_ptr<ClientStream>> open_;
  std::vector<std::unique_ptr<ClientStream>> spare_;
};

}  // namespace weir::wire
