// H2ClientStreams: the streams that are open on one HTTP/2 connection of ours, by their ids. Ids come one after the
// other, so that most have a place of their own in the table. What a stream has allocated is there for the next one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "wire/client_codec.h"

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
  H2ClientStreams();
  H2ClientStreams(const H2ClientStreams&) = delete;

  ClientStream& open(int32_t id, ClientAnswer& answer);
  ClientStream* find(int32_t id) const {
    for (size_t i = home(id); places_[i]; i = (i + 1) & mask_) {
      if (places_[i]->id == id) return places_[i].get();
      if (astray_ == 0) break;  // one that has gone is not looked for among all that are open
    }
    return nullptr;
  }
  ClientStream* find(const ClientAnswer& answer) const {
    ClientStream* stream = find(answer.stream_);
    return stream && stream->answer == &answer ? stream : nullptr;
  }
  void close(ClientStream& stream);

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Ids of those that are open, in any order.
  std::vector<int32_t> ids() const;
  template <class Do>
  void each(Do&& act) {
    for (auto& place : places_)
      if (place) act(*place);
  }

 private:
  static constexpr size_t kFirstPlaces = 64, kMostSpare = 256;

  size_t home(int32_t id) const { return size_t(id) >> 1 & mask_; }
  void put(std::unique_ptr<ClientStream> stream);
  void grow();

  std::vector<std::unique_ptr<ClientStream>> places_;  // linear probing, half of them free
  std::vector<std::unique_ptr<ClientStream>> spare_;
  size_t mask_ = kFirstPlaces - 1, size_ = 0;
  size_t astray_ = 0;  // those that are not at home
};

}  // namespace weir::wire
