// NatsStream: a JetStream stream in files, and a connection of its own to NATS, which comes back by itself. Calls block
// for as long as a request may take (kPatience), and fail at once while there is no connection. What its messages are
// is NatsLog's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/status.h"

namespace weir::cluster {

class NatsStream {
 public:
  struct Options {
    std::string url;   // as NatsBucket::Options has it
    std::string name;  // [A-Za-z0-9_-]
    std::string node;
    uint64_t most_bytes = uint64_t(1) << 30;  // of it, 256 MiB at least; less where the server has less room
  };
  static constexpr base::Duration kPatience = std::chrono::seconds(2), kLookAgain = std::chrono::seconds(1);

  struct Message {
    uint64_t sequence = 0;
    std::string subject, bytes;
  };
  struct Known {
    std::string identity;     // when the stream was made, in digits
    uint64_t connection = 0;  // which one since start()
    bool operator==(const Known&) const = default;
  };
  struct Size {
    uint64_t used = 0, most = 0;   // bytes
    uint64_t first = 0, last = 0;  // sequences of the oldest message and the newest
  };

  // `news`: something may have changed, the connection, too. Any thread; not once stop() has returned.
  NatsStream(Options options, std::function<void()> news);
  ~NatsStream();

  // Connects, without waiting for it, and again and again.
  base::Status start();
  void stop();

  // The rest on one thread. Whether the stream is there, and which one: looked at for each connection, and again where
  // that was kLookAgain ago, for somebody may have deleted it and made another one meanwhile.
  base::Status open();
  const Known& known() const;
  // <name>.<what>
  std::string subject(std::string_view what) const;
  // UNAVAILABLE: nobody knows whether it was written, or it is in another stream than known(). RESOURCE_EXHAUSTED: it
  // was not. ABORTED: neither, for something is there that was not expected.
  struct Expected {
    std::optional<uint64_t> of_subject;  // sequence of its newest message; 0: there is none
    uint64_t of_all = 0;                 // of the stream's newest; 0: any
  };
  base::Result<uint64_t> publish(const std::string& subject, std::string_view id, std::string_view bytes,
                                 const Expected& expected);
  base::Result<uint64_t> publish(const std::string& subject, std::string_view id, std::string_view bytes) {
    return publish(subject, id, bytes, Expected());
  }
  // The message of that sequence; with a subject, the first one of it from there on. Nothing: there is none.
  base::Result<std::optional<Message>> get(uint64_t sequence, const std::string& subject = {});
  base::Status drop_before(uint64_t sequence);
  base::Result<Size> size();
  size_t longest() const;  // bytes of a message
  void tell();             // all nodes have news

  // Any thread.
  bool connected() const;
  // For good: the connection is closed, calls that block end soon, and those to come fail at once.
  void abandon();

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace weir::cluster
