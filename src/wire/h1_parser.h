// The HTTP/1 parser: Boost.Beast's, fed with what the gate has left of a head and then with the body's bytes.
//
// On top of Beast: chunk extensions are ignored, as RFC 9112 §7.1.1 asks, up to a bound and where they are text,
// trailer fields are dropped (RFC 9110 §6.5.1: they may not change what the head said), and a body whose chunks are
// mostly overhead is refused (CVE-2023-39326).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace weir::wire {

class H1Parser {
 public:
  class Sink {
   public:
    virtual void on_body(std::span<const std::byte> piece) = 0;

   protected:
    ~Sink() = default;
  };

  explicit H1Parser(Sink& sink);
  ~H1Parser();

  // Starts a message: one complete head, of which only the framing counts (HeadText). False when it is malformed.
  bool head(std::string_view head);
  // Starts a message whose body is so many bytes, of which the gate is sure.
  void plain(uint64_t length) { plain_ = true, left_ = length; }
  // Between messages: gives memory back.
  void release();
  // Bytes behind the head; returns how many were taken. What is not taken must come again, with more behind it.
  enum class Fate : uint8_t { kMore, kDone, kBad };
  size_t body(std::span<const std::byte> bytes, Fate* fate);
  // The message is complete.
  bool done() const;
  bool chunked() const;
  // Body bytes that are still to come; 0 when chunked.
  uint64_t remaining() const;

 private:
  struct Message;
  size_t plain_body(std::span<const std::byte> bytes, Fate* fate);

  Sink& sink_;
  std::unique_ptr<Message> message_;  // made for the first one that is not plain
  bool plain_ = true;
  uint64_t left_ = 0;  // of a plain one's body
};

}  // namespace weir::wire
