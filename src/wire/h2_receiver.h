// H2Receiver: the frames that a client sends on one HTTP/2 connection (RFC 9113 §6), by what they do: header blocks are
// h2_heads.h's, DATA is h2_bodies.h's, SETTINGS are h2_settings.h's; the others are handled here.
//
// A frame that breaks a rule leaves a verdict with the Guard. Services may be called from here; what they answer is
// kept in their Exchange.
#pragma once

#include <cstdint>
#include <string_view>

#include "wire/h2_bodies.h"
#include "wire/h2_connection.h"
#include "wire/h2_frame_reader.h"
#include "wire/h2_heads.h"
#include "wire/h2_sender.h"
#include "wire/h2_settings.h"
#include "wire/h2_stream_table.h"

namespace weir::wire {

class H2Receiver {
 public:
  H2Receiver(H2Connection& connection, H2StreamTable& streams, H2Bodies& bodies, H2Sender& sender)
      : connection_(connection),
        streams_(streams),
        bodies_(bodies),
        sender_(sender),
        heads_(connection, streams, bodies),
        settings_(connection, sender) {}

  void open() { settings_.send_ours(); }
  // Bytes behind the preface. Stops at the first frame that is wrong.
  void receive(std::string_view bytes);
  // Gives back what is kept for later requests, while there is none.
  void drop() {
    heads_.drop();
    reader_.shrink();
  }

 private:
  void act(H2FrameReader::Step step);
  void on_head(const FrameHead& head);
  bool has_its_place(const FrameHead& head);
  bool has_its_length(const FrameHead& head);
  void on_control(const FrameHead& head, std::string_view payload);
  void on_settings(const FrameHead& head, std::string_view payload);
  void on_ping(const FrameHead& head, std::string_view payload);
  void on_goaway(const FrameHead& head);
  void on_window_update(const FrameHead& head, uint32_t by);
  void on_reset(const FrameHead& head);
  void stream_was_reset(H2Exchange& x);

  H2Connection& connection_;
  H2StreamTable& streams_;
  H2Bodies& bodies_;
  H2Sender& sender_;
  H2Heads heads_;
  H2Settings settings_;
  H2FrameReader reader_;
  uint32_t largest_ = 1 << 14;  // frame that the client may send
  bool began_ = false;          // its first frame has come
};

}  // namespace weir::wire
