// The ceiling: asio and nghttp2 and nothing else. Echoes each request body as a gRPC response without looking at it;
// one io_context, one read and one write per burst. What weir does on top of this is decoding, routing, scheduling,
// encoding.
//
// usage: bare_echo PORT
#include "bare_server.h"

#include <cstdlib>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  boost::asio::io_context loop(1);
  const bare::OnRequest echo = [](bare::Stream& stream) { stream.of.answer(stream); };
  bare::tcp::acceptor acceptor(loop, {boost::asio::ip::address_v4::loopback(), uint16_t(std::atoi(argv[1]))});
  bare::accept(acceptor, echo);
  loop.run();
}
