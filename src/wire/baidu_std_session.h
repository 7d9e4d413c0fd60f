// BaiduStdSession: a connection of baidu_std (wire/baidu_std_packet.h), without I/O: brpc's clients with their default
// protocol. Each request is a gRPC call to the layers above (wire/baidu_std_exchange.h), so services, keys, limits and
// metrics are those of gRPC. Calls are served side by side, Limits::streams at a time; then the peer is not read from.
//
//   baidu_std_packet.h  packets
//   baidu_std_reader.h  from bytes to calls
//   baidu_std_calls.h   calls from first to last
//   here                time limits, drain, the end
#pragma once

#include "wire/baidu_std_calls.h"
#include "wire/baidu_std_reader.h"
#include "wire/codec.h"

namespace weir::wire {

class BaiduStdSession final : public Codec {
 public:
  BaiduStdSession(const CodecEnv& env, Wire& wire, const PeerInfo& peer)
      : connection_(env, wire, peer), calls_(connection_), reader_(connection_, calls_) {}

  void feed(std::span<const std::byte> bytes) override;
  std::span<std::byte> receive_buffer() override { return reader_.receive_buffer(); }
  void eof() override;
  void closed() override;
  size_t pending(std::span<iovec> out) override { return connection_.output.gather(out); }
  void consumed(size_t n) override;
  bool wants_read() const override { return !reader_.held_back(); }
  bool finished() const override {
    return (connection_.over && calls_.all_answered() && connection_.output.empty()) ||
           (connection_.draining && idle());
  }
  bool idle() const override { return calls_.idle() && connection_.output.empty() && reader_.between_packets(); }
  void tick(base::Time now) override;
  void drain(Drain step) override;
  std::string_view protocol() const override { return "baidu_std"; }

 private:
  void check_output(base::Time now);
  void check_idle(base::Time now);
  void settle(uint64_t before);

  BaiduConnection connection_;
  BaiduCalls calls_;
  BaiduReader reader_;
};

}  // namespace weir::wire
